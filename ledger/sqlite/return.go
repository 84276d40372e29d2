package sqlite

import (
	"context"
	"fmt"

	"github.com/seed-4b260dfd/notifier"
	"github.com/seed-4b260dfd/notifier/ledger"
)

// Return hands leases back (T7), and with Unsent permits (T7'). A delivery
// whose attempts are used up, or that was cancelled meanwhile, ends by it. A
// permit that comes back without Unsent is refused as fenced: the sweep ends it.
func (l *Ledger) Return(ctx context.Context, owner notifier.Owner, back []notifier.Return) ([]notifier.Settled, error) {
	if len(back) == 0 {
		return nil, nil
	}
	out := make([]notifier.Settled, len(back))
	err := l.write(ctx, func(w *writer) (err error) {
		for i := range back {
			if out[i], err = w.giveBack(owner, &back[i]); err != nil {
				return fmt.Errorf("return %v: %w", back[i].ID, err)
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

func (w *writer) giveBack(owner notifier.Owner, b *notifier.Return) (notifier.Settled, error) {
	h, err := w.find(b.ID)
	if err != nil {
		return notifier.Settled{}, err
	}
	mine := h != nil && h.fence == b.Fence && h.owner == string(owner)
	if !mine || h.state != stateLeased && !(h.state == stateSending && b.Unsent) {
		return w.returnedBefore(owner, b.Hold, h)
	}
	h.tries += count(b.Try)
	h.maybe += count(b.Maybe)
	h.fails += count(b.Fail)
	if b.Record || b.Maybe { // what may have arrived is recorded in any case: caps are filled from it
		if err := w.record(h, ledger.EndedReturned, b.Attempt.Outcome.String(), b.Attempt, b.Maybe); err != nil {
			return notifier.Settled{}, err
		}
	}
	t, err := w.termsFor(h.terms, "")
	if err != nil {
		return notifier.Settled{}, err
	}
	state, reason := ledger.Next(t.Retry, h.tries, h.maybe, h.cancel)
	if state == notifier.StatePending {
		if b.Reason != notifier.ReasonNone {
			reason = b.Reason
		}
		err := w.requeue(h, ledger.EndedReturned, reason, micros(w.now.Add(b.After)))
		return notifier.Settled{Verdict: notifier.VerdictDone, State: state, Reason: reason}, err
	}
	err = w.finish(h, ledger.ClosedReturn, state, reason)
	return notifier.Settled{Verdict: notifier.VerdictClosed, State: state, Reason: reason}, err
}

func count(b bool) int {
	if b {
		return 1
	}
	return 0
}

// returnedBefore tells a return that was made before from one that comes too
// late. h is the delivery's queue row as it is now, nil when it is finished.
func (w *writer) returnedBefore(owner notifier.Owner, b notifier.Hold, h *held) (notifier.Settled, error) {
	const recorded = `SELECT 1 FROM attempt WHERE nid = ? AND ch = ? AND fence = ? AND owner = ? AND ended = 'returned'`
	fenced := notifier.Settled{Verdict: notifier.VerdictFenced}
	if h == nil {
		return w.settledBefore(owner, b, ledger.ClosedReturn)
	}
	already := notifier.Settled{Verdict: notifier.VerdictAlready, State: notifier.StatePending}
	if h.state != statePending {
		already.State = notifier.StateSending // somebody has leased it since
	}
	if h.state == statePending && h.ended == ledger.EndedReturned && h.fence == b.Fence && h.owner == string(owner) {
		return already, nil
	}
	r, err := w.first(recorded, b.ID.Notification[:], int64(b.ID.Ordinal), b.Fence, string(owner))
	if err != nil || r == nil {
		return fenced, err
	}
	return already, nil
}
