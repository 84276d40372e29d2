// Package postgres keeps the ledger in PostgreSQL, for any number of nodes at
// once. Each transition is one transaction whose guard is the fence and the
// owner on the row; time is the database's.
//
// What it promises rests on the server's: a commit that was acknowledged
// survives (synchronous_commit on and fsync on, and a synchronous standby
// where one may be promoted). Audit says where a server is set otherwise. An
// error of a method that writes says nothing about whether it wrote.
package postgres

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Ledger is a ledger in PostgreSQL. It is safe for concurrent use, and any
// number of them, in any number of processes, may share one database.
type Ledger struct {
	// hot has the connections of the transitions, each set so that the planner
	// has one way to go; reads those of everything that people ask.
	hot, reads *pgxpool.Pool
	id         string
	// clock stands in for the database's in tests; nil otherwise.
	clock func() time.Time

	words  words
	minter minter
	lanes  laneMemory
	marks  watermarks
	gauges gauges
	// lapses and expiries are the looks for leases and for deliveries that are over.
	lapses, expiries looks
	commits          atomic.Int64
	jobs             jobs
	given            given
	trust            trust
}

// Option changes how Open opens.
type Option func(*Ledger)

// WithClock has the ledger tell the time by now and not by the database: for
// tests, which may not wait.
func WithClock(now func() time.Time) Option { return func(l *Ledger) { l.clock = now } }

// Open opens the ledger at a postgres:// URL. It does not migrate: an older or
// newer schema is an error that says what to do.
func Open(ctx context.Context, url string, options ...Option) (_ *Ledger, err error) {
	l := &Ledger{words: newWords(), lanes: newLaneMemory(), marks: newWatermarks()}
	for _, o := range options {
		o(l)
	}
	if l.hot, err = connect(ctx, url, hotSettings, hotConnections, l.trust.meet); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			l.Close()
		}
	}()
	if l.reads, err = connect(ctx, url, readSettings, readConnections, nil); err != nil {
		return nil, err
	}
	if err := checkSchema(ctx, l.hot); err != nil {
		return nil, err
	}
	if err := l.hot.QueryRow(ctx, `SELECT ledger_id::text FROM meta`).Scan(&l.id); err != nil {
		return nil, fmt.Errorf("read the ledger's id: %w", err)
	}
	if err := l.makePartitions(ctx); err != nil {
		return nil, err
	}
	return l, nil
}

// Close closes the connections.
func (l *Ledger) Close() {
	for _, p := range []*pgxpool.Pool{l.hot, l.reads} {
		if p != nil {
			p.Close()
		}
	}
}

// LedgerID is the uuid that the first migration made: a restored backup keeps
// it, a new ledger has another.
func (l *Ledger) LedgerID() string { return l.id }

// Commits is how many transactions of this process changed something.
func (l *Ledger) Commits() int64 { return l.commits.Load() }

// now is the argument that a statement takes for the time: null, which has it
// ask the database's clock.
func (l *Ledger) now() *time.Time {
	if l.clock == nil {
		return nil
	}
	t := l.clock()
	return &t
}

// sqlNow is the time of a statement. $1 is Ledger.now.
const sqlNow = `coalesce($1::timestamptz, clock_timestamp())`

// begin runs a transaction and tells its time. It is committed when each
// returns nil, and rolled back otherwise.
func (l *Ledger) begin(ctx context.Context, each func(tx pgx.Tx, now time.Time) error) (err error) {
	tx, err := l.hot.Begin(ctx)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			// The context may be what ended: the rollback is not to be.
			undo, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
			defer cancel()
			if e := tx.Rollback(undo); e != nil && !errors.Is(e, pgx.ErrTxClosed) {
				err = errors.Join(err, e)
			}
		}
	}()
	var now time.Time
	if err := tx.QueryRow(ctx, `SELECT `+sqlNow, l.now()).Scan(&now); err != nil {
		return err
	}
	if err := each(tx, now.UTC()); err != nil {
		return err
	}
	if err := tx.Commit(ctx); err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	l.commits.Add(1)
	return nil
}

// jobs keeps when this process last did what is done now and then.
type jobs struct {
	mu   sync.Mutex
	last map[string]time.Time
}

// due reports whether a job's time has come, and notes that it is being done.
func (j *jobs) due(name string, now time.Time, every time.Duration) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	if last, ok := j.last[name]; ok && now.Sub(last) < every {
		return false
	}
	if j.last == nil {
		j.last = make(map[string]time.Time)
	}
	j.last[name] = now
	return true
}
