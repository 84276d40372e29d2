package delivery

import (
	"context"
	"time"

	"github.com/seed-4b260dfd/notifier"
	"github.com/seed-4b260dfd/notifier/claims"
)

// The second witness: what claims know besides the ledger, and what follows.

// stand makes the claim say, from the permit on and for as long as a tombstone
// would, that the effect may happen. A claim that got lost is taken again. What
// stands in its place may know more than the ledger that has just given the
// permit: that the effect was made already, or that somebody else is at it.
// Then the permit is not used, and stand reports false.
//
// An older claim is no such thing: its attempt has no permit. Nor is a store
// that does not answer: the permit alone is what a call rests on.
func (w *work) stand(ctx context.Context, lasts time.Duration) bool {
	if w.hold(ctx, lasts) {
		return true
	}
	ans, err := w.take(ctx, lasts)
	if err != nil {
		return true
	}
	switch ans.Status {
	case claims.StatusDone, claims.StatusStale, claims.StatusConflict:
		w.e.metrics.repeat(hopClaim, w.lease.Type)
		w.refund(ctx)
		w.outran(&ans)
		return false
	case claims.StatusGranted, claims.StatusHeld:
	}
	return true
}

// outran deals with a claim that knows of more than the lease: of the effect
// itself, of a newer fence, of the same fence in other hands. Either the lease
// is no longer ours, or the ledger has forgotten commits that it had
// acknowledged.
func (w *work) outran(ans *claims.Answer) {
	if !w.ours(ans) {
		return
	}
	if ans.Status == claims.StatusDone {
		w.e.log.Warn("closed from a tombstone: the ledger does not know what the claim does", "delivery", w.lease.ID.String(),
			"outcome", ans.Outcome, "age", ans.Age, "forgotten", w.forgotten(ans))
		w.finish(w.remembered(ans))
		return
	}
	if w.e.cfg.SoleOwner && ans.Status == claims.StatusConflict {
		// Nobody else can hold a lease of this ledger: a fence was given twice.
		w.e.asserts.fail(assertClaimConflict, w.lease.Hold())
	}
	w.e.log.Warn("a claim is ahead of the ledger", "delivery", w.lease.ID.String(), "fence", w.lease.Fence,
		"claimed", ans.Fence, "by", ans.By, "cause", causeRewound)
	w.wait(max(ans.Left, time.Second), notifier.ReasonLedgerRewound)
}

// ours asks the ledger whose the lease is: one that is renewed is ours. When
// nobody knows, it is handed back, which is guarded. A permit that was just
// given is word enough, and cannot be renewed.
func (w *work) ours(ans *claims.Answer) bool {
	if w.permitted {
		return true
	}
	ctx, cancel := write()
	defer cancel()
	ours, err := w.e.cfg.Ledger.Renew(ctx, w.e.owner, []notifier.Hold{w.lease.Hold()})
	if err != nil {
		w.e.log.Error("ask whose a lease is", "delivery", w.lease.ID.String(), "err", err)
		w.wait(max(ans.Left, time.Second), notifier.ReasonClaimHeld)
		return false
	}
	return len(ours) == 1 && ours[0]
}

// forgotten says whether a tombstone is about an attempt that the ledger does
// not know of: it knows of none that may have arrived, or gave out a fence again.
func (w *work) forgotten(ans *claims.Answer) bool {
	return w.lease.Maybe == 0 || ans.Fence >= w.lease.Fence
}

// remembered is the end that a tombstone gives to a delivery. Where the ledger
// knows of the attempt that it is about, its owner died before the outcome was
// written. Where it has forgotten that one, it is put down as an effect, without
// a permit to show for it, and its reason says why there is none.
func (w *work) remembered(ans *claims.Answer) notifier.Completion {
	c := notifier.Completion{State: notifier.StateUnknown, Reason: notifier.ReasonWorkerLost, Called: w.forgotten(ans),
		Attempt: notifier.Attempt{StartedAt: time.Now().Add(-ans.Age), Outcome: notifier.OutcomeUnknown, Reason: notifier.ReasonLedgerRewound}}
	if ans.Outcome == notifier.OutcomeSent.String() {
		c.State, c.Reason, c.Attempt.Outcome = notifier.StateSent, notifier.ReasonNone, notifier.OutcomeSent
	}
	return c
}
