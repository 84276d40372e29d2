package servertest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

const superuser = "postgres"

// Postgres is one server that belongs to us, with the durability of production:
// fsync, full pages and synchronous commits are on. The postmaster is our own
// child: one killed under a parent that does not wait for it would stay a
// zombie, and its successor would take it for alive.
type Postgres struct {
	tb     testing.TB
	port   *port
	data   string
	owner  *syscall.Credential
	proc   *process
	number *atomic.Int64 // of databases made
	shared bool
}

// NewPostgres starts a server for a test. The settings are of the form
// "wal_level=logical" and win over those that are set here.
func NewPostgres(tb testing.TB, settings ...string) *Postgres {
	tb.Helper()
	wanted(tb)
	p, err := StartPostgres(settings...)
	if err != nil {
		tb.Fatal(err)
	}
	p.tb = tb
	tb.Cleanup(func() { _ = p.Stop() })
	return p
}

// StartPostgres is NewPostgres for programs.
func StartPostgres(settings ...string) (*Postgres, error) {
	var p *Postgres
	err := onFreePort(func(port *port) error {
		var err error
		p, err = preparePostgres(port, settings)
		if err != nil {
			return err
		}
		if err := p.proc.start(); err != nil {
			_ = os.RemoveAll(p.proc.dir)
			return err
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return p, nil
}

// preparePostgres makes the folder and the command line of a server.
func preparePostgres(port *port, settings []string) (*Postgres, error) {
	binary, err := postgresBinary("postgres")
	if err != nil {
		return nil, err
	}
	owner, err := postgresUser()
	if err != nil {
		return nil, err
	}
	dir, err := newFolder("postgres")
	if err != nil {
		return nil, err
	}
	data, err := newCluster(dir, owner)
	if err != nil {
		return nil, err
	}
	args := []string{"-D", data}
	for _, setting := range append([]string{
		"port=" + strconv.Itoa(port.number), "listen_addresses=127.0.0.1", "unix_socket_directories=",
		"fsync=on", "synchronous_commit=on", "full_page_writes=on", "max_connections=200",
		"timezone=UTC", "log_timezone=UTC", "log_destination=stderr", "logging_collector=off",
	}, settings...) {
		args = append(args, "-c", setting)
	}
	p := &Postgres{port: port, data: data, owner: owner, number: new(atomic.Int64)}
	p.proc = &process{name: "postgres", binary: binary, dir: dir, args: args, user: owner, ready: p.answers}
	return p, nil
}

// answers tells whether the server takes statements, and is the one we started.
func (p *Postgres) answers(ctx context.Context, _ int) error {
	return p.maintain(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		var data string
		if err := conn.QueryRow(ctx, "SHOW data_directory").Scan(&data); err != nil {
			return err
		}
		if data != p.data {
			return errAddressInUse
		}
		return nil
	})
}

// maintain runs something in a connection to the maintenance database.
func (p *Postgres) maintain(ctx context.Context, do func(context.Context, *pgx.Conn) error) error {
	ctx, cancel := context.WithTimeout(ctx, patience/2)
	defer cancel()
	conn, err := pgx.Connect(ctx, p.URL())
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	return do(ctx, conn)
}

// Addr is the server's host and port.
func (p *Postgres) Addr() string { return p.port.addr() }

// URL is the address of the maintenance database, as its superuser.
func (p *Postgres) URL() string { return p.url(superuser) }

func (p *Postgres) url(database string) string {
	return fmt.Sprintf("postgres://%s@%s/%s?sslmode=disable", superuser, p.Addr(), database)
}

// Pid is the number of the postmaster, 0 when it does not run.
func (p *Postgres) Pid() int { return p.proc.pid() }

// Database makes an empty database and returns its URL. On a shared server it
// goes when the test ends, and with it whoever is still connected.
func (p *Postgres) Database(tb testing.TB) string {
	tb.Helper()
	url, name, err := p.createDatabase()
	if err != nil {
		tb.Fatal(err)
	}
	if p.shared {
		tb.Cleanup(func() { _ = p.statement("DROP DATABASE IF EXISTS " + name + " WITH (FORCE)") })
	}
	return url
}

// CreateDatabase is Database for programs.
func (p *Postgres) CreateDatabase() (string, error) {
	url, _, err := p.createDatabase()
	return url, err
}

// createDatabase copies the template through the log: unlike a copy of files,
// that needs no checkpoint before and after.
func (p *Postgres) createDatabase() (url, name string, err error) {
	name = "test_" + strconv.FormatInt(p.number.Add(1), 10)
	if err := p.statement("CREATE DATABASE " + name + " TEMPLATE template0 STRATEGY wal_log"); err != nil {
		return "", "", fmt.Errorf("create a database: %w", err)
	}
	return p.url(name), name, nil
}

func (p *Postgres) statement(sql string) error {
	return p.maintain(context.Background(), func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, sql)
		return err
	})
}

// Kill ends the postmaster and all its children with SIGKILL, the way of the
// machine losing power short of losing the page cache, and waits until they
// have gone.
func (p *Postgres) Kill() error { return fail(p.tb, p.proc.stop(syscall.SIGKILL)) }

// Immediate ends the server by its immediate shutdown, which cuts every
// connection, finishes nothing and leaves recovery to the next start.
func (p *Postgres) Immediate() error { return fail(p.tb, p.proc.stop(syscall.SIGQUIT)) }

// Pause stops every process of the server where it is, Resume lets them go on.
// Meanwhile connections are accepted by the kernel and answered by nobody.
func (p *Postgres) Pause() error { return fail(p.tb, p.proc.pause()) }

// Resume lets a paused server go on.
func (p *Postgres) Resume() error { return fail(p.tb, p.proc.resume()) }

// Restart starts the server on its port with the data it had, killing it first
// if it still runs, and returns when it has recovered.
func (p *Postgres) Restart() error {
	if err := p.proc.stop(syscall.SIGKILL); err != nil {
		return fail(p.tb, err)
	}
	return fail(p.tb, p.boot())
}

// boot starts a server of which nothing runs any more: the file that guards the
// data against a second postmaster goes, because by now its number may be
// somebody else's.
func (p *Postgres) boot() error {
	if err := os.RemoveAll(filepath.Join(p.data, "postmaster.pid")); err != nil {
		return err
	}
	return p.proc.start()
}

// Stop kills the server for good and removes its data.
func (p *Postgres) Stop() error {
	if err := p.proc.stop(syscall.SIGKILL); err != nil {
		return err
	}
	p.port.free()
	return removeAll(p.proc.dir)
}

// removeAll removes a folder into which a process that is just ending may still
// write.
func removeAll(dir string) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return poll(ctx, 5*time.Millisecond, func(context.Context) error { return os.RemoveAll(dir) })
}

// Log is what the server has written so far.
func (p *Postgres) Log() (string, error) {
	b, err := os.ReadFile(p.proc.output())
	return string(b), fail(p.tb, err)
}
