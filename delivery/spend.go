package delivery

import (
	"context"
	"time"

	"github.com/seed-4b260dfd/notifier"
	"github.com/seed-4b260dfd/notifier/caps"
)

// spend takes a unit of every cap, all or none. It reports whether the attempt
// may go on; when not, claim and lease have been dealt with.
func (w *work) spend(ctx context.Context) bool {
	w.fault(capsBefore)
	if len(w.spends) == 0 {
		w.fault(capsAfter)
		return true
	}
	if w.e.rebuilding.Load() {
		w.fault(capsAfter)
		return w.uncapped(ctx, nil)
	}
	w.fills = w.e.fills.Load()
	dec, err := w.spendAll(ctx)
	w.fault(capsAfter)
	if err != nil {
		return w.uncapped(ctx, err)
	}
	if dec.Granted {
		return true
	}
	w.e.metrics.capsDenied.WithLabelValues(dec.Denied).Inc()
	w.unclaim(ctx)
	for _, c := range w.lease.Terms.Caps {
		if c.Name == dec.Denied && c.Then == notifier.CapDefer {
			w.giveBack(notifier.Return{Reason: notifier.ReasonCap, After: max(dec.After, time.Second)})
			return false
		}
	}
	w.finish(notifier.Completion{State: notifier.StateSuppressed, Reason: notifier.ReasonCapped})
	return false
}

func (w *work) spendAll(ctx context.Context) (caps.Decision, error) {
	ctx, cancel := w.e.ask(ctx)
	defer cancel()
	dec, err := w.e.cfg.Caps.Spend(ctx, w.unit(), w.lease.ID.String(), w.spends)
	w.e.store.note(err)
	return dec, err
}

// recount adds the unit of a permitted call again when the caps were filled
// anew since it was spent: the ledger counts permits, and that fill may have come
// before this one's. The next one will find it in the ledger.
func (w *work) recount(ctx context.Context) {
	if len(w.spends) > 0 && w.fills != w.e.fills.Load() {
		w.fill(ctx)
	}
}

// fill adds the unit whether or not there is room for it.
func (w *work) fill(ctx context.Context) {
	ctx, cancel := w.e.aside(ctx)
	defer cancel()
	now := time.Now()
	for _, c := range w.spends {
		err := w.e.cfg.Caps.Fill(ctx, c, w.unit(), w.lease.ID.String(), now)
		if w.unheard("add to the caps", err); err != nil {
			return // it is taken from the ledger when the store is back
		}
	}
}

// uncapped goes on without the word of the caps, or waits, as the policy says:
// the caps cannot be asked, or are being filled and would say yes too often.
// What goes on is counted and not limited; units that cannot even be added now
// are taken from the ledger when the store is back.
func (w *work) uncapped(ctx context.Context, cause error) bool {
	if !w.proceeds() {
		w.unclaim(ctx)
		w.waitForStore(cause)
		return false
	}
	w.uncounted = true
	for _, c := range w.spends {
		w.e.metrics.capsUncounted.WithLabelValues(c.Name).Inc()
	}
	if w.fills = w.e.fills.Load(); cause == nil {
		w.fill(ctx)
	}
	return true
}

func (w *work) unit() string {
	return notifier.CapUnit(w.lease.ID.Notification, w.lease.Lane.Channel, w.lease.Maybe+1)
}

// refund gives back what provably reached nobody.
func (w *work) refund(ctx context.Context) {
	if len(w.spends) == 0 || w.uncounted {
		return
	}
	ctx, cancel := w.e.aside(ctx)
	defer cancel()
	if w.lease.Order == notifier.OrderClaimFirst {
		// Under claim_first the next fence spends the same unit: it is ours to
		// give back only while the claim is, which that fence must have first.
		if ours, err := w.e.cfg.Claims.Renew(ctx, w.claim, time.Second); err != nil || !ours {
			return
		}
	}
	// Without an answer the unit stays taken until its window ends: too few,
	// never too many.
	w.unheard("refund the caps", w.e.cfg.Caps.Refund(ctx, w.unit(), w.lease.ID.String(), w.spends))
}
