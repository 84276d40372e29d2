package servertest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	sentinels    = 3
	quorum       = 2
	sentinelName = "primary"
)

// Sentinel is a primary, its replica, and three sentinels that promote the
// replica when the primary is down: about two seconds after it has gone.
//
// The methods want one caller at a time.
type Sentinel struct {
	tb               testing.TB
	primary, replica *Redis
	watchers         []*watcher
	held             bool // the replica is cut off and stopped
}

// watcher is one sentinel: a redis-server that keeps no data.
type watcher struct {
	port   *port
	proc   *process
	client *redis.Client
}

// NewRedisSentinel starts a watched pair for a test.
func NewRedisSentinel(tb testing.TB) *Sentinel {
	tb.Helper()
	wanted(tb)
	s, err := StartRedisSentinel()
	if err != nil {
		tb.Fatal(err)
	}
	s.tb, s.primary.tb, s.replica.tb = tb, tb, tb
	tb.Cleanup(func() { _ = s.Stop() })
	return s
}

// StartRedisSentinel is NewRedisSentinel for programs.
func StartRedisSentinel() (*Sentinel, error) {
	var s *Sentinel
	err := onFreePorts(2+sentinels, func(ports []*port) error {
		s = &Sentinel{}
		err := s.start(ports)
		if err != nil {
			_ = s.Stop()
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return s, nil
}

func (s *Sentinel) start(ports []*port) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var err error
	if s.primary, err = startRedisOn("primary", ports[0], replicating...); err != nil {
		return err
	}
	if s.replica, err = startRedisOn("replica", ports[1], replicating...); err != nil {
		return err
	}
	if err := s.follow(ctx, s.replica, s.primary); err != nil {
		return err
	}
	ids := make([]string, sentinels)
	for i := range ids {
		ids[i] = randomID()
	}
	for i := range ids {
		w, err := startWatcher(s.watcherConfig(ids, ports[2:], i), ports[2+i])
		if err != nil {
			return err
		}
		s.watchers = append(s.watchers, w)
	}
	return poll(ctx, 20*time.Millisecond, s.watched)
}

// replicating lets a replica that has lost touch come back at once.
var replicating = []string{"--repl-diskless-sync-delay", "0"}

// follow makes one server the replica of another and waits for the first copy.
func (s *Sentinel) follow(ctx context.Context, replica, primary *Redis) error {
	err := replica.Client().ReplicaOf(ctx, "127.0.0.1", strconv.Itoa(primary.port.number)).Err()
	if err != nil {
		return fmt.Errorf("make %s a replica: %w", replica.Addr(), err)
	}
	return poll(ctx, 10*time.Millisecond, func(ctx context.Context) error {
		return says(ctx, replica, "master_link_status:up")
	})
}

func says(ctx context.Context, r *Redis, want string) error {
	info, err := r.Client().Info(ctx, "replication").Result()
	if err == nil && !strings.Contains(info, want+"\r\n") {
		err = fmt.Errorf("%s does not say %s", r.Addr(), want)
	}
	return err
}

// watcherConfig tells a sentinel what it would otherwise learn from the others
// within some seconds. A second without an answer is down: less would take a
// busy machine for a dead server.
func (s *Sentinel) watcherConfig(ids []string, ports []*port, myself int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "bind 127.0.0.1\nport %d\nsentinel myid %s\n", ports[myself].number, ids[myself])
	fmt.Fprintf(&b, "sentinel monitor %s 127.0.0.1 %d %d\n", sentinelName, s.primary.port.number, quorum)
	fmt.Fprintf(&b, "sentinel down-after-milliseconds %s 1000\n", sentinelName)
	fmt.Fprintf(&b, "sentinel failover-timeout %s 2000\n", sentinelName)
	fmt.Fprintf(&b, "sentinel known-replica %s 127.0.0.1 %d\n", sentinelName, s.replica.port.number)
	for i, id := range ids {
		if i != myself {
			fmt.Fprintf(&b, "sentinel known-sentinel %s 127.0.0.1 %d %s\n", sentinelName, ports[i].number, id)
		}
	}
	return b.String()
}

func startWatcher(config string, p *port) (*watcher, error) {
	binary, err := redisBinary()
	if err != nil {
		return nil, err
	}
	dir, err := newFolder("sentinel")
	if err != nil {
		return nil, err
	}
	file := filepath.Join(dir, "sentinel.conf") // sentinels write into it
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		return nil, err
	}
	w := &watcher{port: p, client: newRedisClient(p.addr())}
	w.proc = &process{
		name: "sentinel", binary: binary, dir: dir, args: []string{file, "--sentinel"},
		ready: func(ctx context.Context, pid int) error { return redisAnswers(ctx, p.addr(), pid) },
	}
	if err := w.proc.start(); err != nil {
		_ = w.stop()
		return nil, err
	}
	// The usual ten and two seconds between news are made for networks.
	return w, w.client.Do(context.Background(), "SENTINEL", "DEBUG",
		"info-period", "200", "publish-period", "200", "ask-period", "200", "tilt-period", "2000").Err()
}

func (w *watcher) stop() error {
	err := w.proc.stop(syscall.SIGKILL)
	_ = w.client.Close()
	w.port.free()
	return errors.Join(err, os.RemoveAll(w.proc.dir))
}

// watched tells whether every sentinel sees the primary, a quorum of the
// others, and a replica fit for promotion.
func (s *Sentinel) watched(ctx context.Context) error {
	for _, w := range s.watchers {
		if err := w.client.Do(ctx, "SENTINEL", "CKQUORUM", sentinelName).Err(); err != nil {
			return err
		}
		replicas, err := redis.NewSentinelClient(w.client.Options()).Replicas(ctx, sentinelName).Result()
		if err != nil {
			return err
		}
		if len(replicas) != 1 || replicas[0]["flags"] != "slave" || replicas[0]["master-link-status"] != "ok" {
			return fmt.Errorf("the sentinel at %s sees replicas %v", w.port.addr(), replicas)
		}
	}
	return nil
}
