package delivery

import (
	"errors"
	"time"

	"github.com/seed-4b260dfd/notifier"
	"github.com/seed-4b260dfd/notifier/channels"
)

// complete ends the delivery after a call.
func (w *work) complete(s notifier.State, r notifier.Reason, a notifier.Attempt) {
	w.fault(completeBefore)
	w.finish(notifier.Completion{State: s, Reason: r, Called: true, Attempt: a, Suppress: w.dead})
	w.fault(completeAfter)
}

// later returns a delivery that was provably not sent. It uses no try.
func (w *work) later(res channels.Result, a notifier.Attempt) {
	r := notifier.Return{Unsent: true, Record: true, Attempt: a, Reason: notifier.ReasonBackoff}
	switch {
	case res.Again:
		r.Reason = notifier.ReasonDue
	case res.Reason == notifier.ReasonGate:
		// Refused by the last look: the lease was all but over, expiry has come, or
		// the account has shut since.
		r.Reason = w.waitsFor()
	case res.Reason == notifier.ReasonThrottled, res.Reason == notifier.ReasonBadCredentials:
		r.Reason = res.Reason
		fallthrough
	default:
		r.Fail = true
		r.After = wait(w.lease, res.RetryAfter, false)
	}
	w.giveBackCounted(r)
}

// again returns a send-first delivery whose attempt may have arrived. The
// ledger ends it instead when its attempts are used up.
func (w *work) again(res channels.Result, a notifier.Attempt) {
	w.giveBackCounted(notifier.Return{
		Reason: notifier.ReasonBackoff, After: wait(w.lease, res.RetryAfter, true),
		Try: true, Maybe: true, Fail: true, Record: true, Attempt: a,
	})
}

// waitsFor is what a delivery waits for that is handed back because its account makes
// no calls; when it does again, nothing. It is due all along: until then nobody
// leases it, and then it is not to wait any longer. As what has become due last
// it goes behind the others, so that the next probe looks at those.
func (w *work) waitsFor() notifier.Reason {
	now := time.Now()
	if why, _ := w.account.breaker.hold(now); why != notifier.ReasonNone && w.shut(now) {
		return why
	}
	return notifier.ReasonDue
}

// giveBackCounted is giveBack after a call: the step "complete" of an attempt
// that does not end its delivery.
func (w *work) giveBackCounted(r notifier.Return) {
	w.fault(completeBefore)
	w.giveBack(r)
	w.fault(completeAfter)
}

// handBack returns a lease under which nothing was begun.
func (w *work) handBack(why error) {
	r := notifier.Return{Reason: notifier.ReasonDue}
	switch {
	case errors.Is(why, errTooLate):
		w.finish(notifier.Completion{State: notifier.StateExpired, Reason: notifier.ReasonTooLate})
		return
	case errors.Is(why, errSuppressed):
		w.finish(notifier.Completion{State: notifier.StateSuppressed, Reason: notifier.ReasonSuppression})
		return
	case errors.Is(why, errPaused):
		if r.After = w.e.pauses.wait(&w.lease.Delivery); r.After > 0 {
			r.Reason = notifier.ReasonPaused
		}
	case errors.Is(why, errShut):
		r.Reason = w.waitsFor()
	case errors.Is(why, errDraining):
		r.Record = true
		r.Attempt = notifier.Attempt{Outcome: notifier.OutcomeNotSent, Reason: notifier.ReasonDrain}
	}
	w.giveBack(r)
}
