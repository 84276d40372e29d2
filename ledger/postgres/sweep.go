package postgres

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/seed-4b260dfd/notifier"
	"github.com/seed-4b260dfd/notifier/ledger"
)

// sweeps keeps what the last look through the queue took.
type sweeps struct {
	mu   sync.Mutex
	took time.Duration
	at   time.Time
}

// rest is how many times longer than a look through the queue the pause after
// it is, once such a look takes noticeable time: the queue has no index over
// the ends of leases, and at a million rows one look reads all of them.
const (
	rest       = 20
	noticeable = 50 * time.Millisecond
)

// tired reports whether the last look was too long to have another one now.
func (s *sweeps) tired() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.took > noticeable && time.Since(s.at) < rest*s.took
}

func (s *sweeps) note(took time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.took, s.at = took, time.Now()
}

// long is the size of a queue, in bytes, from which on reading all of it is
// what takes time, and not a machine that is busy.
const long = 16 << 20

// cost is what a look through the queue that took so long is put down as.
func (l *Ledger) cost(ctx context.Context, took time.Duration) (time.Duration, error) {
	if took <= noticeable {
		return took, nil
	}
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
	const lapsed = `SELECT ` + heldColumns + `, n.policy, d.effect_key
		FROM (SELECT * FROM q WHERE q.status IN (1, 2) AND ($2 OR q.lease_until <= $1) ORDER BY q.lease_until LIMIT $3 FOR UPDATE SKIP LOCKED) q
		CROSS JOIN LATERAL (SELECT * FROM delivery f WHERE f.nid = q.nid AND f.ch = q.ch) d
		CROSS JOIN LATERAL (SELECT * FROM notification g WHERE g.nid = q.nid) n`
	if err := l.housekeep(ctx); err != nil {
		return nil, fmt.Errorf("sweep: %w", err)
	}
	if !all && l.sweeps.tired() {
		return nil, nil
	}
	began := time.Now()
	out, err := l.sweep(ctx, limit, l.sweepOne, lapsed, all)
	if err != nil {
		return nil, fmt.Errorf("sweep: %w", err)
	}
	took, err := l.cost(ctx, time.Since(began))
	if err != nil {
		return nil, fmt.Errorf("sweep: %w", err)
	}
	l.sweeps.note(took)
	return out, nil
}

// Expire ends up to limit waiting deliveries whose expiry has passed (T10).
func (l *Ledger) Expire(ctx context.Context, limit int) ([]notifier.Swept, error) {
	const (
		facts = ` CROSS JOIN LATERAL (SELECT * FROM delivery f WHERE f.nid = q.nid AND f.ch = q.ch) d
			CROSS JOIN LATERAL (SELECT * FROM notification g WHERE g.nid = q.nid) n`
		waiting = `SELECT ` + laterColumns + `, n.policy, d.effect_key
			FROM (SELECT * FROM later WHERE expires_at <= $1 AND ($2 OR true) ORDER BY expires_at LIMIT $3 FOR UPDATE SKIP LOCKED) q` + facts
		queued = `SELECT ` + heldColumns + `, n.policy, d.effect_key
			FROM (SELECT * FROM q WHERE status = 0 AND expires_at <= $1 AND ($2 OR true) ORDER BY expires_at LIMIT $3 FOR UPDATE SKIP LOCKED) q` + facts
	)
	var out []notifier.Swept
	for _, text := range []string{waiting, queued} {
		if text == queued && l.sweeps.tired() {
			continue
		}
		got, err := l.sweep(ctx, limit-len(out), l.expireOne, text, false)
		if err != nil {
			return nil, fmt.Errorf("expire: %w", err)
		}
		out = append(out, got...)
	}
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
		var policies []int32
		var policy int32
		var effect []byte
		var bad error
		err = collectHeld(rows, []any{&policy, &effect}, func(h *held) {
			key, err := unpack(effect)
			bad = errors.Join(bad, err)
			found, policies = append(found, h), append(policies, policy)
			out = append(out, notifier.Swept{EffectKey: key})
		})
		if err = errors.Join(err, bad); err != nil {
			return err
		}
		for i := range out {
			w, err := l.words.policyFor(ctx, tx, policies[i])
			if err != nil {
				return err
			}
			out[i].Type = w.typ
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
