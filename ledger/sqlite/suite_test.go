package sqlite_test

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/seed-4b260dfd/notifier/ledger/ledgertest"
	"github.com/seed-4b260dfd/notifier/ledger/sqlite"
)

// checked looks at the counts in memory, too.
type checked struct{ *sqlite.Ledger }

func (c checked) Check(ctx context.Context) []string {
	return append(c.Ledger.Check(ctx), c.CheckTally(ctx)...)
}

func TestLedger(t *testing.T) {
	t.Parallel()
	ledgertest.Run(t, func(t *testing.T, now func() time.Time) ledgertest.Ledger {
		l, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "notifier.db"), sqlite.WithClock(now))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := l.Close(); err != nil {
				t.Errorf("close: %v", err)
			}
		})
		return checked{l}
	})
}
