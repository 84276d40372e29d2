package delivery

import (
	"context"
	"time"

	"github.com/seed-4b260dfd/notifier"
)

// claimFirst makes one attempt in the order: record, then send. Whatever
// happens, the provider is called at most once for this delivery.
func (w *work) claimFirst(ctx context.Context) {
	// Stop here: leased, nothing sent. The sweep makes it due again.
	if err := w.refuse(); err != nil {
		w.handBack(err)
		return
	}
	if w.withheld() || !w.acquire(ctx) {
		return
	}
	// Stop here: the same; the claim ends with its time.
	if !w.spend(ctx) {
		return
	}
	// Stop here: the same; the next attempt takes the unit's place.
	defer w.leaveRoom()
	if err := w.enterRoom(); err != nil {
		w.refund(ctx)
		w.unclaim(ctx)
		w.handBack(err)
		return
	}
	w.fault(permitBefore)
	permitted := w.permit(ctx)
	w.fault(permitAfter)
	if !permitted {
		return
	}
	// Stop here, or anywhere below: the row says sending, the sweep makes it
	// unknown, and nothing ever makes it due again.
	res, attempt := w.call()
	switch res.Outcome {
	case notifier.OutcomeSent:
		w.complete(notifier.StateSent, notifier.ReasonNone, attempt)
		// Stop here: the ledger is right; the claim ends with its time.
		w.settle(ctx, res.Outcome)
	case notifier.OutcomeRejected, notifier.OutcomeInvalidAddress:
		w.complete(notifier.StateRejected, res.Reason, attempt)
		// The claim stays until it ends by itself: should the ledger forget the
		// permit, nothing is asked of the provider again meanwhile.
		w.refund(ctx)
	case notifier.OutcomeNotSent:
		// The only way back from a permit, with the proof that nothing was processed.
		w.refund(ctx)
		w.unclaim(ctx)
		w.later(res, attempt)
	case notifier.OutcomeUnknown:
		// Perhaps it arrived, perhaps it did not: a further call could be a second effect.
		w.complete(notifier.StateUnknown, res.Reason, attempt)
		w.settle(ctx, res.Outcome)
	}
}

// permit asks for leave to call. Without a clear yes nothing is sent: an
// answer that was lost counts as no.
func (w *work) permit(ctx context.Context) bool {
	since := readClocks()
	lasts := w.lease.Terms.SendTimeout + callGrace
	granted, err := w.e.permits.call(notifier.Permit{Hold: w.lease.Hold(), For: lasts})
	if err == nil && granted {
		w.permitted = true
		w.held.Store(&held{since: since, lasts: lasts})
		w.recount(ctx)
		return w.stand(ctx, max(lasts, w.tombstone()))
	}
	if err != nil {
		w.e.log.Warn("ask for a permit", "delivery", w.lease.ID.String(), "err", err)
	}
	w.refund(ctx)
	w.unclaim(ctx)
	// Whether or not the permit was written: its only holder will not use it.
	w.giveBack(notifier.Return{Reason: notifier.ReasonDue, Unsent: true, After: time.Second,
		Attempt: notifier.Attempt{Outcome: notifier.OutcomeNotSent, Reason: notifier.ReasonGate}})
	return false
}
