package servertest_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/seed-4b260dfd/notifier/servertest"
)

// query runs one statement and returns its one value, if it has one.
func query(t *testing.T, url, sql string) string {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatalf("connect: %v", err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(t.Context())) }()
	rows, err := conn.Query(t.Context(), sql)
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	values, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	if len(values) == 0 {
		return ""
	}
	return values[0]
}

func TestPostgres_KeepsDataAndSettingsOverAKill(t *testing.T) {
	t.Parallel()
	p := servertest.NewPostgres(t, "max_connections=33")
	url := p.Database(t)
	query(t, url, "CREATE TABLE t (v text)")
	for _, way := range []struct {
		name string
		end  func() error
	}{{"kill", p.Kill}, {"immediate", p.Immediate}} {
		query(t, url, "INSERT INTO t VALUES ('"+way.name+"')")
		before := p.Pid()
		way.end()
		if _, err := pgx.Connect(t.Context(), url); err == nil {
			t.Errorf("%s: the server still answers", way.name)
		}
		p.Restart()
		if got := query(t, url, "SELECT v FROM t WHERE v = '"+way.name+"'"); got != way.name {
			t.Errorf("after %s: got %q, want the row", way.name, got)
		}
		if got := query(t, url, "SHOW max_connections"); got != "33" {
			t.Errorf("after %s: max_connections %s, want 33", way.name, got)
		}
		if p.Pid() == before {
			t.Errorf("after %s: still process %d", way.name, before)
		}
	}
}

func TestPostgres_IsDurable(t *testing.T) {
	t.Parallel()
	p := servertest.SharedPostgres(t)
	for name, want := range map[string]string{
		"fsync": "on", "synchronous_commit": "on", "full_page_writes": "on",
	} {
		if got := query(t, p.URL(), "SHOW "+name); got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
}

func TestPostgres_DatabasesAreApart(t *testing.T) {
	t.Parallel()
	p := servertest.SharedPostgres(t)
	first, second := p.Database(t), p.Database(t)
	query(t, first, "CREATE TABLE t (v text)")
	query(t, second, "CREATE TABLE t (v text)")
	query(t, first, "INSERT INTO t VALUES ('a')")
	if got := query(t, second, "SELECT v FROM t"); got != "" {
		t.Errorf("the other database: got %q, want nothing", got)
	}
	if again := servertest.SharedPostgres(t); again.Addr() != p.Addr() {
		t.Errorf("shared server at %s and at %s", p.Addr(), again.Addr())
	}
}

func TestPostgres_GoesBackToABackup(t *testing.T) {
	t.Parallel()
	p := servertest.NewPostgres(t)
	url := p.Database(t)
	query(t, url, "CREATE TABLE t (v text)")
	query(t, url, "INSERT INTO t VALUES ('before')")
	backup := t.TempDir()
	p.BaseBackup(backup)
	query(t, url, "INSERT INTO t VALUES ('later')")
	p.RestoreFrom(backup)
	if got := query(t, url, "SELECT string_agg(v, ' ' ORDER BY v) FROM t"); got != "before" {
		t.Errorf("restored: got %q, want %q", got, "before")
	}
	query(t, url, "INSERT INTO t VALUES ('anew')")
}

func TestPostgres_PausedAnswersNothing(t *testing.T) {
	t.Parallel()
	p := servertest.NewPostgres(t)
	conn, err := pgx.Connect(t.Context(), p.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(t.Context())) }()
	p.Pause()
	answered := make(chan error, 1)
	go func() {
		_, err := conn.Exec(t.Context(), "SELECT 1")
		answered <- err
	}()
	select {
	case err := <-answered:
		t.Errorf("a paused server answers: %v", err)
	case <-time.After(100 * time.Millisecond):
	}
	p.Resume()
	if err := <-answered; err != nil {
		t.Errorf("resumed: %v, want the answer", err)
	}
	// Killed while paused it leaves nobody behind.
	p.Pause()
	p.Restart()
	if got := query(t, p.URL(), "SHOW fsync"); got != "on" {
		t.Errorf("restarted: got %q, want an answer", got)
	}
}
