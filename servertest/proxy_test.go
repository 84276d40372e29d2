package servertest_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"

	"github.com/seed-4b260dfd/notifier/servertest"
)

// through is a Redis client that asks once, through a proxy.
func through(t *testing.T, p *servertest.Proxy) *redis.Client {
	t.Helper()
	c := redis.NewClient(&redis.Options{Addr: p.Addr(), MaxRetries: -1, DialerRetries: 1, DisableIdentity: true})
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func await(t *testing.T, happened <-chan struct{}) {
	t.Helper()
	select {
	case <-happened:
	case <-time.After(30 * time.Second):
		t.Fatal("the loss did not happen")
	}
}

func TestProxy_LosesTheNthReply(t *testing.T) {
	t.Parallel()
	p := servertest.NewProxy(t, servertest.SharedRedis(t).Addr())
	for _, c := range []struct {
		name    string
		lose    func(func([]byte) bool, int) <-chan struct{}
		carried int64
	}{{"reply", p.DropReply, 2}, {"request", p.DropRequest, 1}} {
		client, key := through(t, p), "nth-"+c.name
		happened := c.lose(servertest.Contains(key), 2)
		if err := client.Incr(t.Context(), key).Err(); err != nil {
			t.Errorf("%s: first: %v", c.name, err)
		}
		if err := client.Incr(t.Context(), "other").Err(); err != nil {
			t.Errorf("%s: another key: %v", c.name, err)
		}
		if got, err := client.Incr(t.Context(), key).Result(); err == nil {
			t.Errorf("%s: second: got %d, want an error", c.name, got)
		}
		await(t, happened)
		if got, err := client.Incr(t.Context(), key).Result(); err != nil || got != c.carried+1 {
			t.Errorf("%s: third: got %d, %v, want %d", c.name, got, err, c.carried+1)
		}
	}
}

// In a pipeline the replies before the lost one arrive, and none after it.
func TestProxy_LosesFromTheNthReplyOfAPipeline(t *testing.T) {
	t.Parallel()
	p := servertest.NewProxy(t, servertest.SharedRedis(t).Addr())
	happened := p.DropReply(servertest.Contains("pipe-c"), 1)
	conn, err := net.Dial("tcp", p.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for _, command := range []string{
		"*3\r\n$3\r\nSET\r\n$6\r\npipe-a\r\n$4\r\n1\r\n2\r\n", "*2\r\n$3\r\nGET\r\n$6\r\npipe-a\r\n",
		"*2\r\n$4\r\nINCR\r\n$6\r\npipe-c\r\n", "*1\r\n$4\r\nPING\r\n",
	} {
		if _, err := conn.Write([]byte(command)); err != nil {
			t.Fatal(err)
		}
	}
	got, err := io.ReadAll(bufio.NewReader(conn))
	if want := "+OK\r\n$4\r\n1\r\n2\r\n"; string(got) != want {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
	await(t, happened)
	if got := read(t, servertest.SharedRedis(t), "pipe-c"); got != "1" {
		t.Errorf("the request whose reply was lost: got %q, want it carried out", got)
	}
}

func TestProxy_LosesTheReplyOfACommit(t *testing.T) {
	t.Parallel()
	url := servertest.SharedPostgres(t).Database(t)
	p := servertest.NewProxy(t, servertest.SharedPostgres(t).Addr())
	query(t, url, "CREATE TABLE t (v text)")
	for _, c := range []struct {
		value string
		lose  func(func([]byte) bool, int) <-chan struct{}
		want  string
	}{{"reply", p.DropReply, "reply"}, {"request", p.DropRequest, ""}} {
		happened := c.lose(servertest.Contains("COMMIT"), 2)
		insert := func(value string) error {
			conn, err := pgx.Connect(t.Context(), p.URL(url))
			if err != nil {
				return err
			}
			defer func() { _ = conn.Close(context.WithoutCancel(t.Context())) }()
			return pgx.BeginFunc(t.Context(), conn, func(tx pgx.Tx) error {
				_, err := tx.Exec(t.Context(), "INSERT INTO t VALUES ($1)", value)
				return err
			})
		}
		if err := insert("first"); err != nil {
			t.Errorf("%s: the first commit: %v", c.value, err)
		}
		if err := insert(c.value); err == nil {
			t.Errorf("%s: the second commit succeeds, want its reply lost", c.value)
		}
		await(t, happened)
		if got := query(t, url, "SELECT v FROM t WHERE v = '"+c.value+"'"); got != c.want {
			t.Errorf("%s lost: got the row %q, want %q", c.value, got, c.want)
		}
	}
}

// A prepared statement is recognised by its text at each execution, and not
// when it is prepared.
func TestProxy_LosesTheReplyOfAPreparedStatement(t *testing.T) {
	t.Parallel()
	url := servertest.SharedPostgres(t).Database(t)
	query(t, url, "CREATE TABLE t (v int)")
	p := servertest.NewProxy(t, servertest.SharedPostgres(t).Addr())
	// Without the setting pgx asks for encryption first, which is declined.
	conn, err := pgx.Connect(t.Context(), strings.TrimSuffix(p.URL(url), "?sslmode=disable"))
	if err != nil {
		t.Fatal(err)
	}
	happened := p.DropReply(servertest.Contains("insert into t"), 3)
	for i := range 3 {
		_, err := conn.Exec(t.Context(), "INSERT INTO t VALUES ($1)", i)
		if lost := i == 2; (err != nil) != lost {
			t.Errorf("execution %d: got %v, want an error: %v", i, err, lost)
		}
	}
	await(t, happened)
	if got := query(t, url, "SELECT count(*)::text FROM t"); got != "3" {
		t.Errorf("got %s rows, want 3", got)
	}
}

func TestProxy_DelaysAndCuts(t *testing.T) {
	t.Parallel()
	p := servertest.NewProxy(t, servertest.SharedRedis(t).Addr())
	c := through(t, p)
	const delay = 50 * time.Millisecond
	ping := func() time.Duration {
		began := time.Now()
		if err := c.Ping(t.Context()).Err(); err != nil {
			t.Error(err)
		}
		return time.Since(began)
	}
	ping()
	p.Delay(delay)
	if took := ping(); took < delay {
		t.Errorf("a delayed reply came after %v, want at least %v", took, delay)
	}
	p.Delay(0)
	pinned := c.Conn()
	defer pinned.Close()
	if err := pinned.Ping(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	p.Cut()
	if err := pinned.Ping(t.Context()).Err(); err == nil {
		t.Error("a cut connection answers")
	}
}

func TestProxy_BlackholeHolds(t *testing.T) {
	t.Parallel()
	p := servertest.NewProxy(t, servertest.SharedRedis(t).Addr())
	p.Blackhole(true)
	conn, err := net.Dial("tcp", p.Addr())
	if err != nil {
		t.Fatalf("connect: %v, want it accepted", err)
	}
	defer conn.Close()
	if _, err := conn.Write([]byte("*1\r\n$4\r\nPING\r\n")); err != nil {
		t.Fatal(err)
	}
	_ = conn.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
	reply := make([]byte, len("+PONG\r\n"))
	var late net.Error
	if n, err := conn.Read(reply); !errors.As(err, &late) || !late.Timeout() {
		t.Errorf("got %q, %v, want silence", reply[:n], err)
	}
	p.Blackhole(false)
	_ = conn.SetReadDeadline(time.Now().Add(30 * time.Second))
	if _, err := io.ReadFull(conn, reply); err != nil || string(reply) != "+PONG\r\n" {
		t.Errorf("healed: got %q, %v, want the reply", reply, err)
	}
}

func TestProxy_Refuses(t *testing.T) {
	t.Parallel()
	p := servertest.NewProxy(t, servertest.SharedRedis(t).Addr())
	for range 2 {
		p.Refuse(true)
		if _, err := net.Dial("tcp", p.Addr()); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("got %v, want the connection refused", err)
		}
		p.Refuse(false)
		if err := through(t, p).Ping(t.Context()).Err(); err != nil {
			t.Errorf("no longer refusing: %v", err)
		}
	}
}

// What is neither protocol passes as it comes.
func TestProxy_PassesAnythingElseOn(t *testing.T) {
	t.Parallel()
	server, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	go func() {
		conn, err := server.Accept()
		if err == nil {
			_, _ = io.Copy(conn, conn)
			_ = conn.Close()
		}
	}()
	p := servertest.NewProxy(t, server.Addr().String())
	conn, err := net.Dial("tcp", p.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	happened := p.DropReply(servertest.Contains("two"), 1)
	reply := make([]byte, 3)
	if _, err := conn.Write([]byte("one")); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(conn, reply); err != nil || string(reply) != "one" {
		t.Errorf("got %q, %v, want %q", reply, err, "one")
	}
	if _, err := conn.Write([]byte("two")); err != nil {
		t.Fatal(err)
	}
	await(t, happened)
	if n, err := io.ReadFull(conn, reply); err == nil {
		t.Errorf("got %q, want the connection cut", reply[:n])
	}
}
