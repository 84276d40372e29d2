package sqlite

import (
	"context"
	"fmt"

	"github.com/seed-4b260dfd/notifier"
	"github.com/seed-4b260dfd/notifier/ledger"
)

// Complete ends deliveries for good (T6): queue row out, outcome row in. Said
// again it answers VerdictAlready.
//
// A claim-first call that was made without a permit is written down all the
// same, with no permit_fence: the effect did happen, and Check finds the row.
func (l *Ledger) Complete(ctx context.Context, owner notifier.Owner, done []notifier.Completion) ([]notifier.Settled, error) {
	for i := range done {
		if !done[i].State.Finished() || done[i].State == "" {
			return nil, fmt.Errorf("complete %v: %q is not the end of a delivery", done[i].ID, done[i].State)
		}
	}
	if len(done) == 0 {
		return nil, nil
	}
	out := make([]notifier.Settled, len(done))
	err := l.write(ctx, func(w *writer) (err error) {
		for i := range done {
			if out[i], err = w.complete(owner, &done[i]); err != nil {
				return fmt.Errorf("complete %v: %w", done[i].ID, err)
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

func (w *writer) complete(owner notifier.Owner, c *notifier.Completion) (notifier.Settled, error) {
	const finish = `INSERT OR ROLLBACK INTO outcome (nid, ch, d, ord, state, reason, fence, permit_fence, owner, closed, tries, maybe,
			finished_at, called, outcome, attempt_reason, provider_status, provider_id, started_at, unit, spent_at)
		SELECT nid, ch, d, ord, ?, ?, fence, permit_fence, owner, 'complete', tries, maybe,
			?, ?, ?, ?, ?, ?, ?, maybe + ?, CASE WHEN capped AND ? THEN coalesce(nullif(?, 0), leased_at) END
		FROM queue WHERE nid = ? AND ch = ? AND fence = ? AND owner = ? AND state <> 'pending'`
	a := c.Attempt
	outcome := ""
	if c.Called {
		outcome = a.Outcome.String()
	} else {
		a = notifier.Attempt{}
	}
	arrived, started := c.Called && ledger.MayHaveArrived(a.Outcome), micros(a.StartedAt)
	nid, ch := c.ID.Notification[:], int64(c.ID.Ordinal)
	n, err := w.exec(finish, string(c.State), string(c.Reason), micros(w.now), c.Called, outcome, string(a.Reason),
		a.ProviderStatus, a.ProviderID, started, arrived, arrived, started, nid, ch, c.Fence, string(owner))
	if err != nil {
		return notifier.Settled{}, fmt.Errorf("write the outcome: %w", err)
	}
	if n == 0 {
		return w.settledBefore(owner, c.Hold, ledger.ClosedComplete)
	}
	lane, err := w.laneOf(c.ID)
	if err != nil {
		return notifier.Settled{}, err
	}
	if err := w.dequeue(c.ID, tallyKey{lane, notifier.StateSending, notifier.ReasonNone}); err != nil {
		return notifier.Settled{}, err
	}
	if c.Suppress != nil {
		if _, err := w.suppress(*c.Suppress); err != nil {
			return notifier.Settled{}, fmt.Errorf("suppress: %w", err)
		}
	}
	return notifier.Settled{Verdict: notifier.VerdictDone, State: c.State, Reason: c.Reason}, nil
}

// dequeue takes a finished delivery's row out.
func (w *writer) dequeue(id notifier.DeliveryID, counted tallyKey) error {
	const out = `DELETE FROM queue WHERE nid = ? AND ch = ?`
	n, err := w.exec(out, id.Notification[:], int64(id.Ordinal))
	if err != nil || n != 1 {
		return fmt.Errorf("take out of the queue: %w", orMissing(err))
	}
	delete(w.leases, id)
	w.moved[counted]--
	return nil
}

// laneOf returns the lane of a delivery that is leased: known from the lease
// where this process made it.
func (w *writer) laneOf(id notifier.DeliveryID) (int64, error) {
	const find = `SELECT lane FROM queue WHERE nid = ? AND ch = ?`
	if lane, ok := w.leases[id]; ok {
		return lane, nil
	}
	r, err := w.first(find, id.Notification[:], int64(id.Ordinal))
	if err != nil || r == nil {
		return 0, fmt.Errorf("find the lane: %w", orMissing(err))
	}
	return r.int(0), nil
}

// settledBefore tells a write that was made before from one that comes too
// late: the outcome row has the owner, the fence and the kind of the write.
func (w *writer) settledBefore(owner notifier.Owner, h notifier.Hold, closed string) (notifier.Settled, error) {
	const find = `SELECT state, reason FROM outcome WHERE nid = ? AND ch = ? AND fence = ? AND owner = ? AND closed = ?`
	r, err := w.first(find, h.ID.Notification[:], int64(h.ID.Ordinal), h.Fence, string(owner), closed)
	if err != nil {
		return notifier.Settled{}, fmt.Errorf("read the outcome: %w", err)
	}
	if r == nil {
		return notifier.Settled{Verdict: notifier.VerdictFenced}, nil
	}
	return notifier.Settled{Verdict: notifier.VerdictAlready, State: notifier.State(r.str(0)), Reason: notifier.Reason(r.str(1))}, nil
}

// Witness keeps word of attempts whose outcome was already decided. Said again
// it changes nothing.
func (l *Ledger) Witness(ctx context.Context, owner notifier.Owner, evidence []notifier.Evidence) error {
	const insert = `INSERT INTO evidence (nid, ch, fence, owner, kind, outcome, reason, provider_status, provider_id, started_at, at)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`
	if len(evidence) == 0 {
		return nil
	}
	return l.write(ctx, func(w *writer) error {
		for i := range evidence {
			e := &evidence[i]
			_, err := w.exec(insert, e.ID.Notification[:], int64(e.ID.Ordinal), e.Fence, string(owner), string(e.Kind),
				e.Attempt.Outcome.String(), string(e.Attempt.Reason), e.Attempt.ProviderStatus, e.Attempt.ProviderID,
				micros(e.Attempt.StartedAt), micros(w.now))
			if err != nil {
				return fmt.Errorf("keep evidence about %v: %w", e.ID, err)
			}
		}
		return nil
	})
}
