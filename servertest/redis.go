package servertest

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// Redis is one redis-server that belongs to us: it writes an append-only file,
// takes no snapshots and evicts nothing.
type Redis struct {
	tb   testing.TB
	port *port
	data string
	proc *process

	client func() *redis.Client
}

// NewRedis starts a server for a test. The arguments are options of
// redis-server, "--maxmemory", "1mb", and win over those that are set here.
func NewRedis(tb testing.TB, args ...string) *Redis {
	tb.Helper()
	wanted(tb)
	r, err := StartRedis(args...)
	if err != nil {
		tb.Fatal(err)
	}
	r.tb = tb
	tb.Cleanup(func() { _ = r.Stop() })
	return r
}

// StartRedis is NewRedis for programs.
func StartRedis(args ...string) (*Redis, error) {
	var r *Redis
	err := onFreePort(func(p *port) error {
		var err error
		r, err = startRedisOn("redis", p, args...)
		return err
	})
	if err != nil {
		return nil, err
	}
	return r, nil
}

// startRedisOn starts a server on a port, or leaves nothing behind.
func startRedisOn(name string, p *port, args ...string) (*Redis, error) {
	r, err := prepareRedis(name, p, args...)
	if err != nil {
		return nil, err
	}
	if err := r.proc.start(); err != nil {
		_ = r.Stop()
		return nil, err
	}
	return r, nil
}

// prepareRedis makes the folder and the command line of a server.
func prepareRedis(name string, p *port, args ...string) (*Redis, error) {
	binary, err := redisBinary()
	if err != nil {
		return nil, err
	}
	dir, err := newFolder(name)
	if err != nil {
		return nil, err
	}
	r := &Redis{port: p, data: filepath.Join(dir, "data")}
	if err := os.Mkdir(r.data, 0o700); err != nil {
		return nil, err
	}
	r.client = sync.OnceValue(func() *redis.Client { return newRedisClient(p.addr()) })
	r.proc = &process{
		name: name, binary: binary, dir: dir,
		args: append([]string{
			"--bind", "127.0.0.1", "--port", strconv.Itoa(p.number), "--dir", r.data,
			"--appendonly", "yes", "--save", "", "--maxmemory-policy", "noeviction",
			"--loglevel", "notice",
		}, args...),
		ready: r.answers,
	}
	return r, nil
}

// newRedisClient makes a client for a test's own look-ups. One connection is
// opened at a time and none is kept in reserve: servers come and go.
func newRedisClient(addr string) *redis.Client {
	return redis.NewClient(&redis.Options{
		Addr:                     addr,
		DialerRetries:            1,
		DisableIdentity:          true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
}

// answers tells whether the server takes commands, and is the one we started.
func (r *Redis) answers(ctx context.Context, pid int) error {
	return redisAnswers(ctx, r.Addr(), pid)
}

func redisAnswers(ctx context.Context, addr string, pid int) error {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return err // and go-redis need not log it
	}
	_ = conn.Close()
	c := newRedisClient(addr)
	defer c.Close()
	if err := c.Ping(ctx).Err(); err != nil {
		return err
	}
	info, err := c.Info(ctx, "server").Result()
	if err != nil {
		return err
	}
	if !strings.Contains(info, fmt.Sprintf("process_id:%d\r\n", pid)) {
		return errAddressInUse
	}
	return nil
}

// Addr is the server's host and port.
func (r *Redis) Addr() string { return r.port.addr() }

// URL is the server's address as a redis:// URL.
func (r *Redis) URL() string { return "redis://" + r.Addr() + "/0" }

// Client is a client for a test's own look-ups; it is closed with the server.
func (r *Redis) Client() *redis.Client { return r.client() }

// Pid is the number of the server's process, 0 when it does not run.
func (r *Redis) Pid() int { return r.proc.pid() }

// Kill ends the server with SIGKILL and waits until it has gone.
func (r *Redis) Kill() error { return fail(r.tb, r.proc.stop(syscall.SIGKILL)) }

// Pause stops the server where it is: it keeps its connections and answers
// nothing until Resume.
func (r *Redis) Pause() error { return fail(r.tb, r.proc.pause()) }

// Resume lets a paused server go on.
func (r *Redis) Resume() error { return fail(r.tb, r.proc.resume()) }

// Restart starts the server on its port with the data it had, killing it first
// if it still runs. Every write that it had answered is there again.
func (r *Redis) Restart() error {
	return fail(r.tb, r.restart(func() error { return nil }))
}

// RestartEmpty starts the server on its port without any data, killing it first
// if it still runs.
func (r *Redis) RestartEmpty() error {
	return fail(r.tb, r.restart(func() error {
		if err := os.RemoveAll(r.data); err != nil {
			return err
		}
		return os.Mkdir(r.data, 0o700)
	}))
}

func (r *Redis) restart(between func() error) error {
	if err := r.proc.stop(syscall.SIGKILL); err != nil {
		return err
	}
	if err := between(); err != nil {
		return err
	}
	return r.proc.start()
}

// Flush removes all data from the running server.
func (r *Redis) Flush() error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return fail(r.tb, r.Client().FlushAll(ctx).Err())
}

// Stop kills the server for good and removes its data.
func (r *Redis) Stop() error {
	if err := r.proc.stop(syscall.SIGKILL); err != nil {
		return err
	}
	_ = r.Client().Close()
	r.port.free()
	return os.RemoveAll(r.proc.dir)
}
