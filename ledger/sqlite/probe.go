package sqlite

import (
	"context"
	"fmt"
)

// probeBytes is how much a probe writes: about what a notification with some
// deliveries takes.
const probeBytes = 16 << 10

// Probe writes as much as a notification takes and commits it, to see whether
// the file takes writes. It leaves one row in a table of its own, and is no
// commit that Commits counts.
func (l *Ledger) Probe(ctx context.Context) error {
	// Zeros take the same pages as anything else: SQLite compresses nothing.
	const (
		write  = `INSERT INTO probe (n, filler) VALUES ((SELECT coalesce(max(n), 0) + 1 FROM probe), zeroblob(?))`
		forget = `DELETE FROM probe WHERE n < (SELECT max(n) FROM probe)`
	)
	err := l.write(ctx, func(w *writer) error {
		changed := w.changed
		defer func() { w.changed = changed }()
		if _, err := w.exec(write, int64(probeBytes)); err != nil {
			return err
		}
		_, err := w.exec(forget)
		return err
	})
	if err != nil {
		return fmt.Errorf("try to write: %w", err)
	}
	return nil
}
