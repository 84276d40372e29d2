package delivery

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/seed-4b260dfd/notifier"
	"github.com/seed-4b260dfd/notifier/caps"
	"github.com/seed-4b260dfd/notifier/channels"
	"github.com/seed-4b260dfd/notifier/claims"
)

// work is one lease on its way through one of the orders.
type work struct {
	e       *Engine
	account *account
	lease   *notifier.Leased
	claim   claims.Claim
	// claimEnds is until when the claim may last, in Unix nanoseconds.
	claimEnds atomic.Int64
	spends    []caps.Cap
	// held is the lease, or the permit that took its place, on our clocks.
	held atomic.Pointer[held]
	// uncounted says that the attempt goes on without the word of its caps,
	// because they cannot be asked.
	uncounted bool
	// fills is how often the caps had been filled anew when they were asked.
	fills int64
	// permitted is set by the permit; no claim-first call goes without it.
	permitted bool
	// probe says that this is the one delivery that an open breaker lets through,
	// and judged that its call said something about the account.
	probe, judged bool
	// inRoom is set while the work holds one of the account's tokens for permits.
	inRoom  atomic.Bool
	started time.Time
	// dead is the suppression that the call's answer makes; nil: none.
	dead   *notifier.Suppression
	guard  *channels.Guard
	looked atomic.Pointer[looked]
}

// held says since when, by three clocks, a lease has run and how long it lasts.
type held struct {
	since reading
	lasts time.Duration
}

func newWork(e *Engine, a *account, l *notifier.Leased, since reading) *work {
	w := &work{
		e: e, account: a, lease: l,
		claim: claims.Claim{Key: l.EffectKey, Fence: l.Fence, Owner: string(e.owner)},
	}
	w.held.Store(&held{since: since, lasts: l.Terms.Lease})
	for _, c := range l.Terms.Caps {
		w.spends = append(w.spends, caps.Cap{Name: c.Name, Key: c.Key, Slot: c.Slot, Limit: c.Limit, Window: c.Window})
	}
	return w
}

func (w *work) fault(s step) { faultPoint(s, &w.lease.Delivery) }

// left is what remains of the lease, as far as the gate does not know better.
func (w *work) left() time.Duration {
	h := w.held.Load()
	return h.lasts - h.since.awake()
}

// enterRoom waits until the account has room for one more permit, and then
// says, as refuse does, why no attempt may start any more. It waits no longer
// than the lease lasts: what is held back here is handed back, and uses no try.
func (w *work) enterRoom() error {
	patience := time.NewTimer(w.left() - margin(w.lease.Terms.Lease))
	defer patience.Stop()
	select {
	case w.account.room <- struct{}{}:
		w.inRoom.Store(true)
		return w.refuse()
	case <-patience.C:
		return errLeaseSpent
	}
}

// leaveRoom makes room for another permit: the call is on the wire, or over.
func (w *work) leaveRoom() {
	if w.inRoom.CompareAndSwap(true, false) {
		<-w.account.room
	}
}

// refuse says why no attempt may start now, whatever the order.
func (w *work) refuse() error {
	switch now := time.Now(); {
	case w.e.draining.Load():
		return errDraining
	case !now.Before(w.lease.ExpiresAt):
		return errTooLate
	case w.lease.Suppressed != "":
		return errSuppressed
	case w.paused():
		return errPaused
	case w.shut(now):
		return errShut
	case w.left() < margin(w.lease.Terms.Lease):
		return errLeaseSpent
	}
	return nil
}

// finish ends the delivery and says whether it was ours to end.
func (w *work) finish(c notifier.Completion) bool {
	c.Hold = w.lease.Hold()
	settled, ok := writeOut(w.e, w.e.completes, c, w.until(), func() { w.unwritten(c.Attempt.Outcome) })
	if !ok {
		return false
	}
	switch settled.Verdict {
	case notifier.VerdictDone, notifier.VerdictClosed, notifier.VerdictAlready:
		w.e.finished(w.lease.Type, w.lease.Lane.Channel, w.lease.ID.Notification, settled.State, settled.Reason)
		return true
	case notifier.VerdictFenced:
		if c.Called {
			w.late(notifier.EvidenceLate, c.Attempt)
		}
		if c.Suppress != nil {
			w.placeLate(*c.Suppress)
		}
	}
	return false
}

// giveBack returns the lease, to be due again as r says.
func (w *work) giveBack(r notifier.Return) {
	r.Hold = w.lease.Hold()
	settled, ok := writeOut(w.e, w.e.returns, r, w.until(), func() {})
	if !ok {
		return
	}
	switch settled.Verdict {
	case notifier.VerdictDone, notifier.VerdictAlready, notifier.VerdictClosed:
		if settled.State.Finished() {
			w.e.finished(w.lease.Type, w.lease.Lane.Channel, w.lease.ID.Notification, settled.State, settled.Reason)
			return
		}
		if r.Maybe {
			w.e.metrics.possibleRepeats.WithLabelValues(w.lease.Type, string(w.lease.Lane.Channel), causeReplyLost).Inc()
		}
		w.account.dueIn(w.lease.Lane.Priority, r.After)
	case notifier.VerdictFenced:
		if w.started.IsZero() && !r.Unsent {
			return // nothing was begun, and nothing can have been recorded as begun
		}
		kind := notifier.EvidenceLate
		if r.Attempt.Outcome == notifier.OutcomeNotSent {
			kind = notifier.EvidenceLateUnsent
		}
		w.late(kind, r.Attempt)
	}
}

// late keeps the word of an attempt whose lease had gone to somebody else, or
// to the sweep: what happened is counted, and changes no outcome.
func (w *work) late(kind notifier.EvidenceKind, a notifier.Attempt) {
	w.e.metrics.lateOutcomes.WithLabelValues(string(w.lease.Lane.Channel)).Inc()
	ctx, cancel := write()
	defer cancel()
	ev := []notifier.Evidence{{Hold: w.lease.Hold(), Kind: kind, Attempt: a}}
	if err := w.e.cfg.Ledger.Witness(ctx, w.e.owner, ev); err != nil {
		w.e.log.Error("keep the late answer", "delivery", w.lease.ID.String(), "err", err)
	}
}

// placeLate places the suppression of such an attempt: its address is dead
// whoever has the delivery now.
func (w *work) placeLate(s notifier.Suppression) {
	ctx, cancel := write()
	defer cancel()
	if _, err := w.e.cfg.Ledger.Suppress(ctx, s); err != nil {
		w.e.log.Error("suppress a dead address", "delivery", w.lease.ID.String(), "err", err)
	}
}

// outcomeGrace is how long after the end of its lease a worker still tries to
// write an outcome down. The guards make the write safe at any time.
const outcomeGrace = time.Minute

func (w *work) until() time.Time { return time.Now().Add(max(w.left(), 0) + outcomeGrace) }

// writeOut writes an outcome until the ledger has taken it or until has come.
// Meanwhile nothing new is leased: Engine.unwritten holds the dispatchers. failed
// is called when the first try has failed.
func writeOut[I any](e *Engine, b *batcher[I, notifier.Settled], in I, until time.Time, failed func()) (notifier.Settled, bool) {
	got, err := b.call(in)
	if err == nil {
		return got, true
	}
	e.unwritten.Add(1)
	defer e.unwritten.Add(-1)
	failed()
	for pause := 50 * time.Millisecond; time.Now().Before(until) && !errors.Is(err, errStopped); pause = min(2*pause, time.Second) {
		e.log.Error("write an outcome", "err", err)
		time.Sleep(pause)
		if got, err = b.call(in); err == nil {
			return got, true
		}
	}
	// The sweep ends it by its order: a repeat for send-first, unknown for claim-first.
	e.log.Error("an outcome could not be written", "err", err)
	return got, false
}
