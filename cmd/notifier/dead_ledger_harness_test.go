package main

import (
	"context"
	"database/sql"
	"os"
	"path/filepath"
	"testing"

	"github.com/seed-4b260dfd/notifier"
	"github.com/seed-4b260dfd/notifier/channels/simulate"
	"github.com/seed-4b260dfd/notifier/ledger/sqlite" // and the driver
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
	db, err := sql.Open("sqlite", copyLedger(t, path))
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

// copyLedger copies a ledger that no process has open: file and log.
func copyLedger(t testing.TB, path string) (copied string) {
	t.Helper()
	copied = filepath.Join(t.TempDir(), "dead.db")
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
	return copied
}

// checkPromise kills the server and reports whatever does not fit between the
// providers' log and the notifications, and within the ledger that is left.
func (s *server) checkPromise(entries []simulate.Entry, notes []notifier.Notification) {
	s.t.Helper()
	for _, b := range checkLog(entries, notes) {
		s.t.Errorf("%s", b)
	}
	s.kill()
	ledger, err := sqlite.Open(context.Background(), copyLedger(s.t, s.ledger()))
	if err != nil {
		s.t.Fatal(err)
	}
	for _, wrong := range ledger.Check(context.Background()) {
		s.t.Errorf("the ledger: %s", wrong)
	}
	if err := ledger.Close(); err != nil {
		s.t.Error(err)
	}
}
