package delivery

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/seed-4b260dfd/notifier"
	"github.com/seed-4b260dfd/notifier/claims"
)

const (
	// askTimeout bounds a question to the store of claims and caps; the store's
	// own patience is shorter.
	askTimeout = 3 * time.Second
	// storeTimeout bounds a word to it that nothing depends on: a store that
	// does not answer must not hold up outcomes.
	storeTimeout = 500 * time.Millisecond
	// downTimeout bounds both while it is known not to answer.
	downTimeout = 250 * time.Millisecond
)

// ask is a context for a question to the store, and aside one for a mere word.
func (e *Engine) ask(ctx context.Context) (context.Context, context.CancelFunc) {
	return e.patience(ctx, askTimeout)
}

func (e *Engine) aside(ctx context.Context) (context.Context, context.CancelFunc) {
	return e.patience(ctx, storeTimeout)
}

func (e *Engine) patience(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	if e.cfg.SoleOwner {
		return ctx, func() {} // a store in the process does not hang
	}
	if e.store.down() {
		d = downTimeout
	}
	return context.WithTimeout(ctx, d)
}

// unheard takes in what became of a word that nothing depends on. While the
// store is known to be away, that each goes unheard is no news.
func (w *work) unheard(word string, err error) {
	known := w.e.store.down()
	w.e.store.note(err)
	switch {
	case err == nil:
	case known:
		w.e.log.Debug(word, "delivery", w.lease.ID.String(), "err", err)
	default:
		w.e.log.Warn(word, "delivery", w.lease.ID.String(), "err", err)
	}
}

// acquire takes the claim. It reports whether the attempt may go on; when not,
// the lease has been dealt with.
func (w *work) acquire(ctx context.Context) bool {
	w.fault(claimBefore)
	ans, err := w.take(ctx, w.claimTime())
	w.fault(claimAfter)
	if err != nil {
		if w.proceeds() {
			return true
		}
		// It may have been taken all the same.
		w.owe()
		w.waitForStore(err)
		return false
	}
	switch ans.Status {
	case claims.StatusGranted:
		return true
	case claims.StatusHeld:
		w.e.metrics.repeat(hopClaim, w.lease.Type)
		w.wait(ans.Left, notifier.ReasonClaimHeld)
	case claims.StatusDone, claims.StatusStale, claims.StatusConflict:
		w.e.metrics.repeat(hopClaim, w.lease.Type)
		w.outran(&ans)
	default:
		w.wait(wait(w.lease, 0, false), notifier.ReasonClaimHeld)
	}
	return false
}

// take asks for the claim. One that is held by an earlier attempt of this
// process, which could not give it back, is given back first.
func (w *work) take(ctx context.Context, lasts time.Duration) (claims.Answer, error) {
	ans, err := w.takeOnce(ctx, lasts)
	if err == nil && ans.Status == claims.StatusHeld &&
		w.e.pay(ctx, claims.Claim{Key: w.claim.Key, Fence: ans.Fence, Owner: ans.By}) {
		return w.takeOnce(ctx, lasts)
	}
	return ans, err
}

func (w *work) takeOnce(ctx context.Context, lasts time.Duration) (claims.Answer, error) {
	ctx, cancel := w.e.ask(ctx)
	defer cancel()
	defer w.claimLasts(lasts)
	ans, err := w.e.cfg.Claims.Acquire(ctx, w.claim, lasts)
	w.e.store.note(err)
	return ans, err
}

// wait hands the lease back until the claim of another attempt has ended. It
// uses no try: nothing was attempted.
func (w *work) wait(d time.Duration, why notifier.Reason) {
	w.giveBack(notifier.Return{Reason: notifier.ReasonBackoff, After: d, Unsent: w.permitted, Record: true,
		Attempt: notifier.Attempt{Outcome: notifier.OutcomeNotSent, Reason: why}})
}

// proceeds says whether the attempt goes on while claims and caps cannot be
// asked: in the direction in which its policy fails.
func (w *work) proceeds() bool { return w.lease.Terms.RedisDown == notifier.RedisDownProceed }

// waitForStore hands the lease back until claims and caps can be asked. It uses
// no try.
func (w *work) waitForStore(cause error) {
	if cause != nil {
		w.e.log.Debug("wait for claims and caps", "delivery", w.lease.ID.String(), "err", cause)
	}
	w.giveBack(notifier.Return{Reason: notifier.ReasonRedisDown, After: redisDownWait(w.e.store.outage(), rand.Float64())})
}

const (
	minRedisDown = 2 * time.Second
	maxRedisDown = 20 * time.Second
)

// redisDownWait is how long to wait for a store that has been away for a time:
// short at first, since one that is restarted is back in a moment; longer then,
// because each look is two writes to the ledger for every delivery that waits.
// random, in [0, 1), keeps them from coming back at one moment.
func redisDownWait(away time.Duration, random float64) time.Duration {
	d := min(max(away/4, minRedisDown), maxRedisDown)
	return d + time.Duration(random*float64(d)/2)
}

// claimTime is how long the claim lasts: as the lease does. In process, where a
// dead worker takes its claims along, it lasts as long as a call may, so that a
// lease that lapses under a healthy call does not start a second one beside it.
func (w *work) claimTime() time.Duration {
	if w.e.cfg.SoleOwner {
		return w.lease.Terms.SendTimeout + callGrace
	}
	return max(w.left(), time.Second)
}

// hold prolongs the claim, and reports whether it still is ours. Without an
// answer it is taken to be.
func (w *work) hold(ctx context.Context, lasts time.Duration) bool {
	ctx, cancel := w.e.aside(ctx)
	defer cancel()
	defer w.claimLasts(lasts)
	ours, err := w.e.cfg.Claims.Renew(ctx, w.claim, lasts)
	w.unheard("hold the claim", err)
	return ours || err != nil
}

// unclaim gives the claim back: nothing happened under it.
func (w *work) unclaim(ctx context.Context) {
	ctx, cancel := w.e.aside(ctx)
	defer cancel()
	err := w.e.cfg.Claims.Release(ctx, w.claim)
	w.unheard("release the claim", err)
	if err != nil {
		w.owe()
	}
}

// claimLasts notes until when the claim may last: an ask without an answer may
// have been heard. Under a permit that is far longer than the lease.
func (w *work) claimLasts(lasts time.Duration) {
	for ends := time.Now().Add(lasts).UnixNano(); ; {
		was := w.claimEnds.Load()
		if was >= ends || w.claimEnds.CompareAndSwap(was, ends) {
			return
		}
	}
}

// owe has the claim given back later, for as long as it may last.
func (w *work) owe() {
	w.e.debts.add(w.claim, 0, false, time.Until(time.Unix(0, w.claimEnds.Load())))
}

// settle leaves the tombstone: this effect may have happened. It is left also
// where no claim was taken, and by a holder that has been fenced off.
func (w *work) settle(ctx context.Context, o notifier.Outcome) {
	w.fault(settleBefore)
	w.leave(ctx, o, w.tombstone())
	w.fault(settleAfter)
}

func (w *work) leave(ctx context.Context, o notifier.Outcome, lasts time.Duration) {
	ctx, cancel := w.e.aside(ctx)
	defer cancel()
	err := w.e.cfg.Claims.Settle(ctx, w.claim, o.String(), lasts)
	w.unheard("settle the claim", err)
	if err != nil {
		w.e.debts.add(w.claim, o, true, lasts)
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
