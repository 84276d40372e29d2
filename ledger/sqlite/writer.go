package sqlite

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/seed-4b260dfd/notifier"
)

// maxGroup bounds how many operations share a transaction: an operation holds
// up to some hundred deliveries, and all wait for the slowest.
const maxGroup = 256

// op is one method's work, waiting for the writer. run may be called twice,
// when an operation that shared the first transaction failed.
type op struct {
	run  func(w *writer) error
	err  error
	done chan struct{}
}

// writer is what the writing goroutine owns.
type writer struct {
	*conn
	clock func() time.Time
	// now is the time of the operation that runs.
	now    time.Time
	minter minter
	// next is the next free notification.n and delivery.d. A transaction that
	// is rolled back leaves a gap.
	next  int64
	words words
	// leases is the lane of each delivery that is leased, as far as it is
	// known. It is never wrong, since a delivery keeps its lane.
	leases map[notifier.DeliveryID]int64
	// moved is what the transaction changes in the counts of queue rows.
	moved map[tallyKey]int64
	trim  trimmer
}

func newWriter(c *conn, clock func() time.Time) (*writer, error) {
	const last = `SELECT max(coalesce((SELECT max(n) FROM notification), 0), coalesce((SELECT max(d) FROM delivery), 0))`
	r, err := c.first(last)
	if err != nil {
		return nil, fmt.Errorf("find the newest delivery: %w", err)
	}
	return &writer{conn: c, clock: clock, next: r.int(0) + 1, words: newWords(), leases: make(map[notifier.DeliveryID]int64), moved: make(map[tallyKey]int64)}, nil
}

// write hands work to the writer and waits for its commit. A context that ends
// while the work waits takes it out of the queue: nothing was written. Once
// the writer has it, write waits for the commit whatever the context says, so
// that the caller learns what became of it.
func (l *Ledger) write(ctx context.Context, run func(w *writer) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	o := &op{run: run, done: make(chan struct{})}
	select {
	case l.ops <- o:
		<-o.done
		return o.err
	case <-ctx.Done():
		return ctx.Err()
	case <-l.closing:
		return ErrClosed
	}
}

// loop is the writing goroutine.
func (l *Ledger) loop(w *writer) {
	defer close(l.ended)
	group := make([]*op, 0, maxGroup)
	for {
		select {
		case o := <-l.ops:
			group = l.gather(append(group[:0], o))
			l.commit(w, group)
		case <-l.closing:
			l.closed = errors.Join(l.reads.Close(), w.conn.close(), l.locks.unlock())
			return
		}
	}
}

// gather takes in what else is waiting.
func (l *Ledger) gather(group []*op) []*op {
	for len(group) < maxGroup {
		select {
		case o := <-l.ops:
			group = append(group, o)
		default:
			return group
		}
	}
	return group
}

// commit runs a group in one transaction. When one of them fails all are run
// again one at a time, so that a bad one stands alone.
func (l *Ledger) commit(w *writer, group []*op) {
	err := l.transact(w, group)
	if err == nil || len(group) == 1 {
		for _, o := range group {
			o.err = err
			close(o.done)
		}
		return
	}
	for _, o := range group {
		o.err = l.transact(w, []*op{o})
		close(o.done)
	}
}

// transact is all or nothing. After an error from COMMIT the group is undone
// here, but a crash before the next commit may still find it in the log: the
// callers repeat, and the guards tell.
func (l *Ledger) transact(w *writer, group []*op) error {
	if err := w.begin(); err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	for _, o := range group {
		w.now = w.clock().Truncate(time.Microsecond).UTC()
		if err := o.run(w); err != nil {
			w.rollback()
			return err
		}
	}
	changed := w.changed
	if _, err := w.exec("COMMIT"); err != nil {
		w.rollback()
		return fmt.Errorf("commit: %w", err)
	}
	if changed { // the others cost no sync
		l.commits.Add(1)
		l.tally.add(w.moved)
	}
	return nil
}

// begin starts a transaction. One that an earlier failure left open is ended first.
func (w *writer) begin() error {
	const begin = "BEGIN IMMEDIATE"
	_, err := w.exec(begin)
	if err != nil {
		if _, undo := w.exec("ROLLBACK"); undo != nil {
			return err // none was open
		}
		if _, err := w.exec(begin); err != nil {
			return err
		}
	}
	w.changed = false
	clear(w.moved)
	return nil
}

// rollback forgets what the transaction made up, the words among it. A failure
// says that the transaction is gone already (a full disk ends it); if it is
// not, begin sees it.
func (w *writer) rollback() {
	w.words = newWords()
	_, _ = w.exec("ROLLBACK")
}
