package sqlite_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/seed-4b260dfd/notifier/ledger/ledgertest"
	"github.com/seed-4b260dfd/notifier/ledger/sqlite"
)

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
		return l
	})
}
