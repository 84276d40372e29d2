package postgres

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/seed-4b260dfd/notifier"
	"github.com/seed-4b260dfd/notifier/ledger"
)

// looks keeps what the last look of some kind through the queue took.
type looks struct {
	mu   sync.Mutex
	took time.Duration
	at   time.Time
}

// The queue has no index over the ends of leases, so that a look reads all of
// it. Once it is long enough for that to show, the pause after a look is so many
// times longer than the look was: often at most one part in two hundred of the
// time goes into looking, and never more than one in twenty.
const (
	restLong  = 200
	restShort = 20
	restMost  = 5 * time.Second
)

// tired reports whether the last look was too long to have another one now.
func (s *looks) tired() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Since(s.at) < max(min(restLong*s.took, restMost), restShort*s.took)
}

func (s *looks) note(took time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.took, s.at = took, time.Now()
}

// long is the size of a queue, in bytes, from which on reading all of it is
// what takes time, and not a machine that is busy.
const long = 4 << 20

// cost is what a look through the queue that took so long is put down as.
func (l *Ledger) cost(ctx context.Context, took time.Duration) (time.Duration, error) {
	var size int64
	if err := l.reads.QueryRow(ctx, `SELECT pg_relation_size('q')`).Scan(&size); err != nil {
		return 0, fmt.Errorf("ask for the size of the queue: %w", err)
	}
	if size < long {
		return 0, nil
	}
	return took, nil
}

// Sweep closes up to limit lapsed leases (T8) and permits (T8'). The order on
// the row decides: a claim-first lease made no call, a send-first lease may
// have, and a permit is over for good. Any number of nodes may sweep at once:
// each takes the rows that no other has locked.
func (l *Ledger) Sweep(ctx context.Context, limit int, all bool) ([]notifier.Swept, error) {
	const lapsed = `SELECT ` + heldColumns + `
		FROM (SELECT * FROM q WHERE q.status IN (1, 2) AND ($2 OR q.lease_until <= $1) ORDER BY q.lease_until LIMIT $3 FOR UPDATE SKIP LOCKED) q`
	if err := l.housekeep(ctx); err != nil {
		return nil, fmt.Errorf("sweep: %w", err)
	}
	if !all && l.lapses.tired() {
		return nil, nil
	}
	out, err := l.look(ctx, &l.lapses, limit, l.sweepOne, lapsed, all)
	if err != nil {
		return nil, fmt.Errorf("sweep: %w", err)
	}
	return out, nil
}

// Expire ends up to limit waiting deliveries whose expiry has passed (T10).
func (l *Ledger) Expire(ctx context.Context, limit int) ([]notifier.Swept, error) {
	const (
		waiting = `SELECT ` + laterColumns + `
			FROM (SELECT * FROM later WHERE expires_at <= $1 AND ($2 OR true) ORDER BY expires_at LIMIT $3 FOR UPDATE SKIP LOCKED) q`
		queued = `SELECT ` + heldColumns + `
			FROM (SELECT * FROM q WHERE status = 0 AND expires_at <= $1 AND ($2 OR true) ORDER BY expires_at LIMIT $3 FOR UPDATE SKIP LOCKED) q`
	)
	out, err := l.sweep(ctx, limit, l.expireOne, waiting, false)
	if err != nil {
		return nil, fmt.Errorf("expire: %w", err)
	}
	if len(out) >= limit || l.expiries.tired() {
		return out, nil
	}
	queue, err := l.look(ctx, &l.expiries, limit-len(out), l.expireOne, queued, false)
	if err != nil {
		return nil, fmt.Errorf("expire: %w", err)
	}
	return append(out, queue...), nil
}

// look is a sweep of the queue. One that was full is followed by the next at
// once, however long it took.
func (l *Ledger) look(ctx context.Context, s *looks, limit int, one closer, text string, all bool) ([]notifier.Swept, error) {
	began := time.Now()
	out, err := l.sweep(ctx, limit, one, text, all)
	if err != nil {
		return nil, err
	}
	took := time.Duration(0)
	if len(out) < limit {
		if took, err = l.cost(ctx, time.Since(began)); err != nil {
			return nil, err
		}
	}
	s.note(took)
	return out, nil
}

// closer says what becomes of a row, and writes it down.
type closer func(ctx context.Context, tx pgx.Tx, c *changes, h *held) (notifier.State, notifier.Reason, error)

// sweep runs one over each row of a query, in the transaction that locked it.
func (l *Ledger) sweep(ctx context.Context, limit int, one closer, text string, all bool) ([]notifier.Swept, error) {
	if limit <= 0 {
		return nil, nil
	}
	var out []notifier.Swept
	err := l.begin(ctx, func(tx pgx.Tx, now time.Time) error {
		out = nil
		// This one does read the whole queue, and says so to the planner.
		if _, err := tx.Exec(ctx, `SET LOCAL enable_seqscan = on`); err != nil {
			return err
		}
		rows, err := tx.Query(ctx, text, now, all, limit)
		if err != nil {
			return err
		}
		var found []*held
		var ids []notifier.DeliveryID
		if err := collectHeld(rows, func(h *held) { found, ids = append(found, h), append(ids, h.id) }); err != nil {
			return err
		}
		facts, err := l.facts(ctx, tx, ids)
		if err != nil {
			return err
		}
		for _, id := range ids {
			out = append(out, notifier.Swept{Type: facts[id].Type, EffectKey: facts[id].EffectKey})
		}
		c := changes{l: l, now: now}
		for i, h := range found {
			if err := l.sweepInto(ctx, tx, &c, &out[i], h, one); err != nil {
				return fmt.Errorf("close %v: %w", h.id, err)
			}
		}
		return c.run(ctx, tx)
	})
	return out, err
}

func (l *Ledger) sweepInto(ctx context.Context, tx pgx.Tx, c *changes, s *notifier.Swept, h *held, one closer) (err error) {
	if s.State, s.Reason, err = one(ctx, tx, c, h); err != nil {
		return err
	}
	t, err := l.words.termsFor(ctx, tx, h.terms, "")
	if err != nil {
		return err
	}
	if s.Lane, err = l.words.lane(ctx, tx, h.lane); err != nil {
		return err
	}
	s.ID, s.Order, s.Fence, s.Tombstone = h.id, h.order, h.fence, t.Tombstone
	s.Repeats = s.State == notifier.StatePending && h.maybe > 0
	return nil
}

func (l *Ledger) sweepOne(ctx context.Context, tx pgx.Tx, c *changes, h *held) (notifier.State, notifier.Reason, error) {
	if h.status == statusSending {
		h.maybe++
		c.record(h, ledger.EndedLapsed, notifier.OutcomeUnknown.String(), notifier.Attempt{Reason: notifier.ReasonWorkerLost}, true)
		c.finish(h, ledger.ClosedSweep, notifier.StateUnknown, notifier.ReasonWorkerLost)
		return notifier.StateUnknown, notifier.ReasonWorkerLost, nil
	}
	called := h.order != notifier.OrderClaimFirst // without a permit there was no call
	outcome := notifier.OutcomeNotSent
	if called {
		outcome = notifier.OutcomeUnknown
	}
	h.tries++
	h.maybe += count(called)
	c.record(h, ledger.EndedLapsed, outcome.String(), notifier.Attempt{Reason: notifier.ReasonLeaseLapsed}, called)
	t, err := l.words.termsFor(ctx, tx, h.terms, "")
	if err != nil {
		return "", "", err
	}
	state, reason := ledger.Next(t.Retry, h.tries, h.maybe, h.cancel)
	if called && t.Unknown == notifier.UnknownStop && state == notifier.StatePending {
		// The policy would rather not know than repeat.
		state, reason = notifier.StateUnknown, notifier.ReasonWorkerLost
	}
	if state == notifier.StatePending {
		c.requeue(h, ledger.EndedLapsed, reason, 0)
		return state, reason, nil
	}
	c.finish(h, ledger.ClosedSweep, state, reason)
	return state, reason, nil
}

func (l *Ledger) expireOne(_ context.Context, _ pgx.Tx, c *changes, h *held) (notifier.State, notifier.Reason, error) {
	c.finish(h, ledger.ClosedExpire, notifier.StateExpired, notifier.ReasonTooLate)
	return notifier.StateExpired, notifier.ReasonTooLate, nil
}
