package postgres_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/seed-4b260dfd/notifier/ledger/ledgertest"
	"github.com/seed-4b260dfd/notifier/ledger/postgres"
	"github.com/seed-4b260dfd/notifier/servertest"
)

func TestMain(m *testing.M) { servertest.Main(m) }

func TestLedger(t *testing.T) {
	t.Parallel()
	var pool emptied
	ledgertest.Run(t, func(t *testing.T, now func() time.Time) ledgertest.Ledger {
		url := pool.take(t)
		l, err := postgres.Open(t.Context(), url, postgres.WithClock(now))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			l.Close()
			pool.give(t, url)
		})
		return l
	})
}

// migrated returns a fresh database with the schema in it.
func migrated(t testing.TB) string {
	t.Helper()
	url := servertest.SharedPostgres(t).Database(t)
	if _, err := postgres.Migrate(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	return url
}

// emptied is some migrated databases that tests use one after the other: to
// make one takes half a second, to empty one takes none.
type emptied struct {
	mu   sync.Mutex
	free []string
}

func (p *emptied) take(t *testing.T) string {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if n := len(p.free); n > 0 {
		url := p.free[n-1]
		p.free = p.free[:n-1]
		return url
	}
	url, err := servertest.SharedPostgres(t).CreateDatabase()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := postgres.Migrate(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	return url
}

func (p *emptied) give(t *testing.T, url string) {
	ctx := context.Background()
	c, err := pgx.Connect(ctx, url)
	if err != nil {
		t.Errorf("empty a database: %v", err)
		return
	}
	defer c.Close(ctx)
	for _, table := range []string{"idem", "notification", "delivery", "q", "later", "outcome", "attempt_end", "evidence", "pause", "suppression"} {
		if _, err := c.Exec(ctx, "DELETE FROM "+table); err != nil {
			t.Errorf("empty a database: %v", err)
			return
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.free = append(p.free, url)
}
