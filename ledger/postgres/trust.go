package postgres

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// errSuspect is the answer to who would lease, or send, by a ledger that was
// restarted and has not been looked at since.
var errSuspect = errors.New("the server was started anew: it is looked at first, whether it is the ledger that it was")

// trust tells the server that this ledger was opened on from one that took its
// place: the same one restarted, a standby that was promoted, or a backup that
// was put back. The last two may lack commits that were acknowledged. Nothing
// is leased from them, and no call is permitted, until somebody has looked.
type trust struct {
	mu     sync.Mutex
	server string
	// changes counts the servers that were met, and trusted how many of them
	// had been met when somebody last looked.
	changes, trusted atomic.Int64
	// watched says that there is somebody who looks.
	watched atomic.Bool
}

// meet notes which server a new connection has reached.
func (t *trust) meet(ctx context.Context, c *pgx.Conn) error {
	const which = `SELECT pg_postmaster_start_time()::text || ' ' || coalesce(inet_server_addr()::text, '') || ' ' || (SELECT timeline_id FROM pg_control_checkpoint())`
	var server string
	if err := c.QueryRow(ctx, which).Scan(&server); err != nil {
		return fmt.Errorf("ask which server this is: %w", err)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.server != "" && t.server != server {
		t.changes.Add(1)
	}
	t.server = server
	return nil
}

// check refuses while nobody has looked at the server.
func (t *trust) check() error {
	if t.watched.Load() && t.trusted.Load() < t.changes.Load() {
		return errSuspect
	}
	return nil
}

// trusted returns a connection to a server that has been looked at. A server
// that takes its place later breaks it.
func (l *Ledger) trusted(ctx context.Context) (*pgxpool.Conn, error) {
	c, err := l.hot.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	if err := l.trust.check(); err != nil {
		c.Release()
		return nil, err
	}
	return c, nil
}

// Changes is how many times another server was met than before. Who has looked
// at the ledger since says so with Trust.
func (l *Ledger) Changes() int64 { return l.trust.changes.Load() }

// Trust says that the ledger has been looked at as it was after so many
// Changes: that it has all its commits, or that claim-first is paused. Who says
// it once has to say it after every change.
func (l *Ledger) Trust(changes int64) {
	l.trust.watched.Store(true)
	for {
		was := l.trust.trusted.Load()
		if was >= changes || l.trust.trusted.CompareAndSwap(was, changes) {
			return
		}
	}
}
