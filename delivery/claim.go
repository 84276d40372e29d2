package delivery

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/seed-4b260dfd/notifier"
	"github.com/seed-4b260dfd/notifier/claims"
)

// storeTimeout bounds a word to the store of claims and caps that nothing
// depends on: a store that does not answer must not hold up outcomes.
const storeTimeout = 500 * time.Millisecond

// aside is a context for such a word.
func aside(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, storeTimeout)
}

// acquire takes the claim. It reports whether the attempt may go on; when not,
// the lease has been dealt with.
func (w *work) acquire(ctx context.Context) bool {
	w.fault(claimBefore)
	ans, err := w.e.cfg.Claims.Acquire(ctx, w.claim, w.claimTime())
	w.fault(claimAfter)
	w.e.store.note(err)
	if err != nil {
		w.unclaimed = true
		return w.withoutStore(err)
	}
	switch ans.Status {
	case claims.StatusGranted:
		return true
	case claims.StatusHeld:
		w.e.metrics.repeat(hopClaim, w.lease.Type)
		w.wait(ans.Left)
	case claims.StatusDone, claims.StatusStale, claims.StatusConflict:
		w.e.metrics.repeat(hopClaim, w.lease.Type)
		w.outran(&ans)
	default:
		w.wait(wait(w.lease, 0, false))
	}
	return false
}

// wait hands the lease back until the claim of another attempt has ended. It
// uses no try: nothing was attempted.
func (w *work) wait(d time.Duration) {
	w.giveBack(notifier.Return{Reason: notifier.ReasonBackoff, After: d, Record: true,
		Attempt: notifier.Attempt{Outcome: notifier.OutcomeNotSent, Reason: notifier.ReasonClaimHeld}})
}

// outran deals with a claim that knows of more than the lease: of the effect
// itself, of a newer fence, of the same fence in other hands. Either the lease
// is no longer ours, or the ledger has forgotten commits that it had
// acknowledged. The ledger says which: a lease that is renewed is ours.
func (w *work) outran(ans *claims.Answer) {
	ctx, cancel := write()
	defer cancel()
	ours, err := w.e.cfg.Ledger.Renew(ctx, w.e.owner, []notifier.Hold{w.lease.Hold()})
	switch {
	case err != nil:
		// Whoever's it is: handing back is guarded, too.
		w.e.log.Error("ask whose a lease is", "delivery", w.lease.ID.String(), "err", err)
		w.wait(max(ans.Left, time.Second))
		return
	case len(ours) != 1 || !ours[0]:
		return // the delivery is somebody else's, or over
	}
	if ans.Status == claims.StatusDone {
		w.e.log.Warn("closed from a tombstone: the ledger does not know what the claim does", "delivery", w.lease.ID.String(),
			"outcome", ans.Outcome, "age", ans.Age, "forgotten", w.lease.Maybe == 0)
		w.finish(w.remembered(ans))
		return
	}
	if w.e.cfg.SoleOwner && ans.Status == claims.StatusConflict {
		// Nobody else can hold a lease of this ledger: a fence was given twice.
		w.e.asserts.fail(assertClaimConflict, w.lease.Hold())
	}
	w.e.log.Warn("a claim is ahead of the ledger", "delivery", w.lease.ID.String(), "fence", w.lease.Fence,
		"claimed", ans.Fence, "by", ans.By, "cause", causeRewound)
	w.wait(max(ans.Left, time.Second))
}

// remembered is the end that a tombstone gives to a delivery. Where the ledger
// knows of an attempt that may have arrived, the tombstone is about that one:
// its owner died before the outcome was written. Where it knows of none it has
// forgotten one: that is put down as an effect, without a permit to show for it,
// and its reason says why there is none.
func (w *work) remembered(ans *claims.Answer) notifier.Completion {
	c := notifier.Completion{State: notifier.StateUnknown, Reason: notifier.ReasonWorkerLost, Called: w.lease.Maybe == 0,
		Attempt: notifier.Attempt{StartedAt: time.Now().Add(-ans.Age), Outcome: notifier.OutcomeUnknown, Reason: notifier.ReasonLedgerRewound}}
	if ans.Outcome == notifier.OutcomeSent.String() {
		c.State, c.Reason, c.Attempt.Outcome = notifier.StateSent, notifier.ReasonNone, notifier.OutcomeSent
	}
	return c
}

// withoutStore says whether the attempt goes on while claims and caps cannot be
// asked: in the direction in which its policy fails. When not, the lease has
// been handed back, and no try was used.
func (w *work) withoutStore(cause error) bool {
	if w.lease.Terms.RedisDown == notifier.RedisDownProceed {
		return true
	}
	if cause != nil {
		w.e.log.Warn("wait for claims and caps", "delivery", w.lease.ID.String(), "err", cause)
	}
	// Soon, since a store that is restarted is back in a moment; not at the
	// same moment for all of them.
	after := redisDownWait + time.Duration(rand.Int64N(int64(redisDownWait)))
	w.giveBack(notifier.Return{Reason: notifier.ReasonRedisDown, After: after})
	return false
}

// redisDownWait is the shortest wait for a store that does not answer.
const redisDownWait = 2 * time.Second

// claimTime is how long the claim lasts: as the lease does. In process, where a
// dead worker takes its claims along, it lasts as long as a call may, so that a
// lease that lapses under a healthy call does not start a second one beside it.
func (w *work) claimTime() time.Duration {
	if w.e.cfg.SoleOwner {
		return w.lease.Terms.SendTimeout + callGrace
	}
	return max(w.left(), time.Second)
}

// hold prolongs the claim, while a call goes on or for as long as a permit may
// have taken effect.
func (w *work) hold(ctx context.Context, lasts time.Duration) {
	if w.unclaimed {
		return
	}
	ctx, cancel := aside(ctx)
	defer cancel()
	_, err := w.e.cfg.Claims.Renew(ctx, w.claim, lasts)
	w.e.store.note(err)
	if err != nil {
		w.e.log.Warn("hold the claim", "delivery", w.lease.ID.String(), "err", err)
	}
}

// unclaim gives the claim back: nothing happened under it.
func (w *work) unclaim(ctx context.Context) {
	if w.unclaimed {
		return
	}
	ctx, cancel := aside(ctx)
	defer cancel()
	err := w.e.cfg.Claims.Release(ctx, w.claim)
	w.e.store.note(err)
	if err != nil {
		// It ends with its time; until then it holds up further attempts.
		w.e.log.Warn("release the claim", "delivery", w.lease.ID.String(), "err", err)
	}
}

// settle leaves the tombstone: this effect may have happened. It is left also
// where no claim was taken, and by a holder that has been fenced off.
func (w *work) settle(ctx context.Context, o notifier.Outcome) {
	w.fault(settleBefore)
	w.leave(ctx, o, w.tombstone())
	w.fault(settleAfter)
}

func (w *work) leave(ctx context.Context, o notifier.Outcome, lasts time.Duration) {
	ctx, cancel := aside(ctx)
	defer cancel()
	err := w.e.cfg.Claims.Settle(ctx, w.claim, o.String(), lasts)
	w.e.store.note(err)
	if err != nil {
		w.e.log.Warn("settle the claim", "delivery", w.lease.ID.String(), "err", err)
	}
}

// tombstone is how long the claim remembers that the effect may have happened.
// Claims within the process go when it does: there the ledger knows as much
// once it has the outcome, and unwritten sees to it that it does.
func (w *work) tombstone() time.Duration {
	if w.e.cfg.SoleOwner {
		return min(w.lease.Terms.Tombstone, 2*callGrace)
	}
	return w.lease.Terms.Tombstone
}

// unwritten prolongs the tombstone of a message that is known to be sent while
// the ledger does not take it: past the lease, which may lapse meanwhile.
func (w *work) unwritten(o notifier.Outcome) {
	if o == notifier.OutcomeSent {
		w.leave(context.Background(), o, max(w.tombstone(), w.lease.Terms.Lease+2*outcomeGrace))
	}
}
