package postgres

import (
	"context"
	"fmt"
)

// Usage is where to read what the server has used.
type Usage struct {
	// Pid is one of the server's processes, by its number on the server's machine.
	Pid int
	// WAL is how many bytes of write-ahead log there have been.
	WAL int64
}

// Usage tells how far the server's log has got, for measurements.
func (l *Ledger) Usage(ctx context.Context) (u Usage, err error) {
	const ask = `SELECT pg_backend_pid(), (pg_current_wal_lsn() - '0/0'::pg_lsn)::bigint`
	if err := l.reads.QueryRow(ctx, ask).Scan(&u.Pid, &u.WAL); err != nil {
		return u, fmt.Errorf("ask for the server's log position: %w", err)
	}
	return u, nil
}
