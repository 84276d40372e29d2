package delivery

import (
	"context"

	"github.com/seed-4b260dfd/notifier"
)

// sendFirst makes one attempt in the order: send, then record. Whatever
// happens, the delivery is attempted until an outcome is written down.
func (w *work) sendFirst(ctx context.Context) {
	// Stop here: leased, nothing sent. The sweep makes it due again.
	if err := w.refuse(); err != nil {
		w.handBack(err)
		return
	}
	if w.withheld() || !w.acquire(ctx) {
		return
	}
	// Stop here: the same; the claim ends with its time.
	if w.found(ctx) {
		return
	}
	// Stop here: the same, and the provider is asked again.
	if !w.spend(ctx) {
		return
	}
	// Stop here: the same; the next attempt takes the unit's place.
	if err := w.refuse(); err != nil {
		w.refund(ctx)
		w.unclaim(ctx)
		w.handBack(err)
		return
	}
	res, attempt := w.call()
	// Stop here, or anywhere below until the outcome is written: the lease
	// lapses, the sweep records that, and the message is sent again with the
	// same ids. That is the repeat which this order accepts.
	switch res.Outcome {
	case notifier.OutcomeSent:
		// The tombstone first: should the ledger not take the outcome, it keeps
		// the next attempt from repeating what is known to have been sent.
		w.settle(ctx, res.Outcome)
		w.complete(notifier.StateSent, notifier.ReasonNone, attempt)
	case notifier.OutcomeRejected, notifier.OutcomeInvalidAddress:
		w.complete(notifier.StateRejected, res.Reason, attempt)
		w.refund(ctx)
		w.unclaim(ctx)
	case notifier.OutcomeNotSent:
		w.refund(ctx)
		w.unclaim(ctx)
		w.later(res, attempt)
	case notifier.OutcomeUnknown:
		w.unclaim(ctx)
		if w.lease.Terms.Unknown == notifier.UnknownStop {
			w.complete(notifier.StateUnknown, res.Reason, attempt)
			return
		}
		w.again(res, attempt)
	}
}
