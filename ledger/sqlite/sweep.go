package sqlite

import (
	"context"
	"fmt"

	"github.com/seed-4b260dfd/notifier"
	"github.com/seed-4b260dfd/notifier/ledger"
)

// Sweep closes up to limit lapsed leases (T8) and permits (T8'). The order on
// the row decides: a claim-first lease made no call, a send-first lease may
// have, and a permit is over for good. First it makes due what pauses that are
// over had held.
func (l *Ledger) Sweep(ctx context.Context, limit int, all bool) ([]notifier.Swept, error) {
	const lapsed = `SELECT ` + heldColumns + `, n.type, d.effect_key
		FROM queue q INDEXED BY queue_open CROSS JOIN delivery d ON d.d = q.d CROSS JOIN notification n ON n.n = q.d - q.ch
		WHERE q.state <> 'pending' AND q.lease_until <= ? ORDER BY q.lease_until LIMIT ?`
	if err := l.write(ctx, (*writer).release); err != nil {
		return nil, fmt.Errorf("release what was paused: %w", err)
	}
	return l.sweep(ctx, "sweep", limit, (*writer).sweepOne, func(w *writer) (string, []any) {
		before := micros(w.now)
		if all {
			before = never
		}
		return lapsed, []any{before, int64(limit)}
	})
}

// Expire ends up to limit waiting deliveries whose expiry has passed (T10).
func (l *Ledger) Expire(ctx context.Context, limit int) ([]notifier.Swept, error) {
	const expired = `SELECT ` + heldColumns + `, n.type, d.effect_key
		FROM queue q INDEXED BY queue_expires CROSS JOIN delivery d ON d.d = q.d CROSS JOIN notification n ON n.n = q.d - q.ch
		WHERE q.state = 'pending' AND q.expires_at <= ? ORDER BY q.expires_at LIMIT ?`
	return l.sweep(ctx, "expire", limit, (*writer).expireOne, func(w *writer) (string, []any) {
		return expired, []any{micros(w.now), int64(limit)}
	})
}

// sweep runs one closes over each row of a query, in one transaction.
func (l *Ledger) sweep(ctx context.Context, verb string, limit int,
	one func(*writer, *held) (notifier.State, notifier.Reason, error), query func(*writer) (string, []any)) ([]notifier.Swept, error) {
	if limit <= 0 {
		return nil, nil
	}
	var out []notifier.Swept
	err := l.write(ctx, func(w *writer) error {
		out = nil
		var rows []held
		text, args := query(w)
		err := w.rows(text, func(r row) error {
			rows = append(rows, heldOf(r))
			out = append(out, notifier.Swept{Type: r.str(17), EffectKey: r.str(18)})
			return nil
		}, args...)
		if err != nil {
			return err
		}
		for i := range rows {
			if err := w.sweepInto(&out[i], &rows[i], one); err != nil {
				return fmt.Errorf("close %v: %w", rows[i].id, err)
			}
		}
		return w.trimKeys()
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", verb, err)
	}
	return out, nil
}

func (w *writer) sweepInto(s *notifier.Swept, h *held, one func(*writer, *held) (notifier.State, notifier.Reason, error)) (err error) {
	if s.State, s.Reason, err = one(w, h); err != nil {
		return err
	}
	t, err := w.termsFor(h.terms, "")
	if err != nil {
		return err
	}
	if s.Lane, err = w.lane(h.lane); err != nil {
		return err
	}
	s.ID, s.Order, s.Fence, s.Tombstone = h.id, h.order, h.fence, t.Tombstone
	s.Repeats = s.State == notifier.StatePending && h.maybe > 0
	return nil
}

func (w *writer) sweepOne(h *held) (notifier.State, notifier.Reason, error) {
	if h.state == stateSending {
		h.maybe++
		err := w.record(h, ledger.EndedLapsed, notifier.OutcomeUnknown.String(), notifier.Attempt{Reason: notifier.ReasonWorkerLost}, true)
		if err != nil {
			return "", "", err
		}
		return notifier.StateUnknown, notifier.ReasonWorkerLost, w.finish(h, ledger.ClosedSweep, notifier.StateUnknown, notifier.ReasonWorkerLost)
	}
	called := h.order != notifier.OrderClaimFirst // without a permit there was no call
	outcome := notifier.OutcomeNotSent
	if called {
		outcome = notifier.OutcomeUnknown
	}
	h.tries++
	h.maybe += count(called)
	if err := w.record(h, ledger.EndedLapsed, outcome.String(), notifier.Attempt{Reason: notifier.ReasonLeaseLapsed}, called); err != nil {
		return "", "", err
	}
	t, err := w.termsFor(h.terms, "")
	if err != nil {
		return "", "", err
	}
	state, reason := ledger.Next(t.Retry, h.tries, h.maybe, h.cancel)
	if called && t.Unknown == notifier.UnknownStop && state == notifier.StatePending {
		// The policy would rather not know than repeat.
		state, reason = notifier.StateUnknown, notifier.ReasonWorkerLost
	}
	if state == notifier.StatePending {
		return state, reason, w.requeue(h, ledger.EndedLapsed, reason, micros(w.now))
	}
	return state, reason, w.finish(h, ledger.ClosedSweep, state, reason)
}

func (w *writer) expireOne(h *held) (notifier.State, notifier.Reason, error) {
	return notifier.StateExpired, notifier.ReasonTooLate, w.finish(h, ledger.ClosedExpire, notifier.StateExpired, notifier.ReasonTooLate)
}
