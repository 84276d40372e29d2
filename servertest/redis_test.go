package servertest_test

import (
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seed-4b260dfd/notifier/servertest"
)

func set(t *testing.T, r *servertest.Redis, key, value string) {
	t.Helper()
	if err := r.Client().Set(t.Context(), key, value, 0).Err(); err != nil {
		t.Fatalf("set %s: %v", key, err)
	}
}

// read is the value of a key, "" when there is none.
func read(t *testing.T, r *servertest.Redis, key string) string {
	t.Helper()
	value, err := r.Client().Get(t.Context(), key).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		t.Fatalf("get %s: %v", key, err)
	}
	return value
}

func TestRedis_KeepsItsDataOverAKill(t *testing.T) {
	t.Parallel()
	r := servertest.NewRedis(t)
	set(t, r, "k", "v")
	addr, before := r.Addr(), r.Pid()
	r.Kill()
	if pid := r.Pid(); pid != 0 {
		t.Errorf("killed: process %d, want none", pid)
	}
	if err := r.Client().Ping(t.Context()).Err(); err == nil {
		t.Error("a killed server answers")
	}
	r.Restart()
	if got := read(t, r, "k"); got != "v" {
		t.Errorf("after the restart: got %q, want %q", got, "v")
	}
	if r.Addr() != addr || r.Pid() == before {
		t.Errorf("got %s, process %d, want %s and another process", r.Addr(), r.Pid(), addr)
	}
	r.RestartEmpty()
	if got := read(t, r, "k"); got != "" {
		t.Errorf("restarted empty: got %q, want nothing", got)
	}
	set(t, r, "k", "w")
	r.Flush()
	if got := read(t, r, "k"); got != "" {
		t.Errorf("flushed: got %q, want nothing", got)
	}
}

func TestRedis_EvictsNothingAndKeepsAFile(t *testing.T) {
	t.Parallel()
	r := servertest.NewRedis(t, "--databases", "3")
	for name, want := range map[string]string{
		"maxmemory-policy": "noeviction", "appendonly": "yes", "save": "", "databases": "3",
	} {
		got, err := r.Client().ConfigGet(t.Context(), name).Result()
		if err != nil || got[name] != want {
			t.Errorf("%s: got %q, %v, want %q", name, got[name], err, want)
		}
	}
}

func TestRedis_PausedAnswersNothing(t *testing.T) {
	t.Parallel()
	r := servertest.NewRedis(t)
	answered := make(chan error, 1)
	r.Pause()
	go func() {
		conn := r.Client().WithTimeout(time.Minute).Conn()
		defer conn.Close()
		answered <- conn.Ping(t.Context()).Err()
	}()
	select {
	case err := <-answered:
		t.Errorf("a paused server answers: %v", err)
	case <-time.After(100 * time.Millisecond):
	}
	r.Resume()
	if err := <-answered; err != nil {
		t.Errorf("resumed: %v, want the answer", err)
	}
}

func TestRedis_ControllingADeadServerIsAnError(t *testing.T) {
	t.Parallel()
	r, err := servertest.StartRedis()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Stop() }()
	if err := r.Kill(); err != nil {
		t.Fatal(err)
	}
	for name, err := range map[string]error{"pause": r.Pause(), "resume": r.Resume(), "flush": r.Flush()} {
		if err == nil {
			t.Errorf("%s of a dead server: got nil, want an error", name)
		}
	}
	if err := r.Kill(); err != nil {
		t.Errorf("killed twice: %v, want nil", err)
	}
}
