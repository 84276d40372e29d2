package main

import (
	"context"
	"database/sql"
	"os"
	"path/filepath"
	"testing"

	_ "modernc.org/sqlite"

	"github.com/seed-4b260dfd/notifier"
)

// openLease is a delivery that was leased, or had its permit, when the process
// that held it was killed.
type openLease struct {
	id    string // of the delivery
	fence int64
	order notifier.Order
	// permitted: the call may have been made, and is never made again.
	permitted bool
}

// openLeases reads the ledger that a killed server left, before the next one
// is started. It reads a copy: the next one is to find what the kill left.
func openLeases(t testing.TB, path string) []openLease {
	t.Helper()
	copied := filepath.Join(t.TempDir(), "dead.db")
	for _, suffix := range []string{"", "-wal"} {
		b, err := os.ReadFile(path + suffix)
		if os.IsNotExist(err) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(copied+suffix, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	db, err := sql.Open("sqlite", copied)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	rows, err := db.QueryContext(context.Background(), `SELECT nid, ch, fence, ord, state = 'sending' FROM queue WHERE state <> 'pending'`)
	if err != nil {
		t.Fatalf("read the dead ledger: %v", err)
	}
	defer rows.Close()
	var open []openLease
	for rows.Next() {
		var nid []byte
		var ordinal uint16
		l := openLease{}
		if err := rows.Scan(&nid, &ordinal, &l.fence, &l.order, &l.permitted); err != nil {
			t.Fatal(err)
		}
		l.id = notifier.DeliveryID{Notification: notifier.ID(nid), Ordinal: ordinal}.String()
		open = append(open, l)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return open
}
