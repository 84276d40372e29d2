package delivery

import (
	"context"
	"runtime/debug"
	"sync"
	"time"

	"github.com/seed-4b260dfd/notifier"
	"github.com/seed-4b260dfd/notifier/channels"
)

// call makes the one request of this attempt, through the gate.
func (w *work) call() (channels.Result, notifier.Attempt) {
	l := w.lease
	if l.Order == notifier.OrderClaimFirst && !w.permitted {
		w.e.asserts.fail(assertNoPermit, l.Hold())
	}
	w.e.asserts.startOnce(l.Hold())
	ctx, cancel := context.WithTimeout(w.e.calls, l.Terms.SendTimeout)
	defer cancel()
	w.guard = &channels.Guard{Look: w.look}
	w.started = time.Now()
	stop := w.keep()

	w.fault(callBefore)
	res := w.send(ctx)
	w.fault(callAfter)

	w.leaveRoom()
	stop()
	if w.guard.HiddenResend() {
		w.e.asserts.fail(assertHiddenResend, l.Hold())
	}
	saw := w.looked.Load()
	if res.Outcome == notifier.OutcomeSent && (saw == nil || saw.left < 0) {
		w.e.asserts.fail(assertLateByte, l.Hold())
	}
	w.heard(&res)
	w.dead = w.invalidated(&res)
	w.e.metrics.attempt(l, res, w.started, saw)
	return res, notifier.Attempt{
		StartedAt: w.started, Outcome: res.Outcome, Reason: w.repeated(res),
		ProviderStatus: res.ProviderStatus, ProviderID: res.ProviderID,
	}
}

// repeated is an attempt's reason. One that was sent has none, but for what a
// ledger that went back in time may have sent before and forgotten, the key
// included: it was accepted before a person said to go on, no tombstone stood in
// its way, and no attempt of it is known.
func (w *work) repeated(res channels.Result) notifier.Reason {
	rewound := w.e.pauses.rewound.Load()
	if res.Outcome != notifier.OutcomeSent || w.lease.Maybe > 0 || w.lease.AcceptedAt.UnixNano() >= rewound {
		return res.Reason
	}
	w.e.metrics.possibleRepeats.WithLabelValues(w.lease.Type, string(w.lease.Lane.Channel), causeRewound).Inc()
	return notifier.ReasonLedgerRewound
}

// send calls the channel. A channel that panics has perhaps sent: the outcome
// is unknown, and the process and its other deliveries go on.
func (w *work) send(ctx context.Context) (res channels.Result) {
	defer func() {
		if p := recover(); p != nil {
			w.e.log.Error("a channel panicked", "channel", string(w.account.kind), "delivery", w.lease.ID.String(),
				"panic", p, "stack", string(debug.Stack()))
			res = channels.Result{Reason: notifier.ReasonProviderError}
		}
	}()
	return w.account.channel.Send(ctx, &channels.Call{Delivery: &w.lease.Delivery, Fence: w.lease.Fence, Guard: w.guard})
}

// keep renews the lease of a send-first call that outlasts a third of it, and
// returns what stops that. A permit is not renewable: it lasts as long as its
// call may. While renewals fail the lease runs out, and the gate sees it.
func (w *work) keep() (stop func()) {
	l := w.lease
	if l.Order != notifier.OrderSendFirst || l.Terms.SendTimeout <= l.Terms.Lease/3 {
		return func() {}
	}
	done := make(chan struct{})
	var renewals sync.WaitGroup
	var mu sync.Mutex
	var timer *time.Timer
	renew := func() {
		since := readClocks()
		ctx, cancel := write()
		defer cancel()
		next := l.Terms.Lease / 3
		ours, err := w.e.cfg.Ledger.Renew(ctx, w.e.owner, []notifier.Hold{l.Hold()})
		switch {
		case err != nil:
			// Perhaps it was written. Until the ledger says that the lease is
			// gone it is asked again, and sooner.
			next /= 4
		case len(ours) != 1 || !ours[0]:
			return
		default:
			w.held.Store(&held{since: since, lasts: l.Terms.Lease})
			w.hold(ctx, w.claimTime())
		}
		mu.Lock()
		defer mu.Unlock()
		select {
		case <-done:
		default:
			timer.Reset(next)
		}
	}
	mu.Lock()
	timer = time.AfterFunc(l.Terms.Lease/3, func() {
		mu.Lock()
		select {
		case <-done:
			mu.Unlock()
			return
		default:
		}
		renewals.Add(1)
		mu.Unlock()
		defer renewals.Done()
		renew()
	})
	mu.Unlock()
	// The outcome is written only after a renewal under way has ended, so that
	// the two never meet on one row.
	return func() {
		mu.Lock()
		close(done)
		timer.Stop()
		mu.Unlock()
		renewals.Wait()
	}
}
