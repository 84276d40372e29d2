package postgres

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/seed-4b260dfd/notifier"
)

// A queue that is emptied from its head leaves dead index entries there until
// vacuum comes by, which a long transaction anywhere in the database keeps from
// happening: each lease would walk over all of them. So each lane has a
// watermark, at or below every row in it that is pending, and a lease starts
// from there. Each lease says where the first of them was.
//
// An accept that took its id earlier may commit later, below the watermark.
// It cannot be later than its statement's time-out, so once a second a lease
// starts lateCommit further back (less often where that takes long), and once a
// minute from the beginning.
type watermarks struct {
	mu sync.Mutex
	of map[int16]*watermark
}

type watermark struct {
	low               notifier.ID
	moved, near, full time.Time
	// took is how long the last look back from it took: while those dead entries
	// cannot be cleared away it walks over all of the last seconds'.
	took time.Duration
}

const (
	watermarkEvery = 200 * time.Millisecond
	nearEvery      = time.Second
	fullEvery      = time.Minute
	// lateCommit is statement_timeout and ten seconds.
	lateCommit = 15 * time.Second
)

func newWatermarks() watermarks { return watermarks{of: make(map[int16]*watermark)} }

// from returns the id at which a lease of a lane starts, whether the watermark
// is to be moved, and whether this is a look back from it.
func (w *watermarks) from(lane int16) (from notifier.ID, move, back bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	m, now := w.of[lane], time.Now()
	if m == nil {
		m = &watermark{full: now}
		w.of[lane] = m
	}
	if move = now.Sub(m.moved) >= watermarkEvery; move {
		m.moved = now
	}
	switch {
	case now.Sub(m.full) >= fullEvery:
		m.full = now
		return from, move, true
	case now.Sub(m.near) >= max(nearEvery, restShort*m.took) && !m.low.IsZero():
		m.near = now
		return lowest(m.low.Time().Add(-lateCommit)), move, true
	}
	return m.low, move, false
}

// lookedBack notes how long a look back took: the next one waits for it.
func (w *watermarks) lookedBack(lane int16, took time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if m := w.of[lane]; m != nil {
		m.took = took
	}
}

func (w *watermarks) set(lane int16, low notifier.ID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if m := w.of[lane]; m != nil && string(low[:]) > string(m.low[:]) {
		m.low = low
	}
}

// lowest is the smallest id of a time.
func lowest(t time.Time) notifier.ID {
	id := notifier.NewID(t, 0, [8]byte{})
	id[6], id[8] = 0, 0
	return id
}

// move sets a lane's watermark to its first row, and that of an empty lane to
// where no accept under way can still put one.
func (l *Ledger) move(ctx context.Context, lane int16, from notifier.ID) error {
	const (
		first = `SELECT nid FROM q WHERE lane = $1 AND nid >= $2 ORDER BY nid, ch LIMIT 1`
		now   = `SELECT ` + sqlNow
	)
	var low [16]byte
	err := l.hot.QueryRow(ctx, first, lane, [16]byte(from)).Scan(&low)
	if errors.Is(err, pgx.ErrNoRows) {
		var at time.Time
		if err = l.hot.QueryRow(ctx, now, l.now()).Scan(&at); err == nil {
			low = lowest(at.Add(-lateCommit))
		}
	}
	if err != nil {
		return err
	}
	l.marks.set(lane, low)
	return nil
}
