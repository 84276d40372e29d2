package ledgertest

import (
	"time"

	"github.com/seed-4b260dfd/notifier"
)

var permitRows = []row{
	{"a lease of mine becomes a permit", func(w *world) {
		l := w.permitted()
		w.wantState(l.ID, notifier.StateSending, notifier.ReasonNone, 1)
		w.pass(permitFor - time.Microsecond)
		if got := w.sweep(false); len(got) != 0 {
			w.Errorf("swept %+v before the permit was over", got)
		}
		w.pass(time.Microsecond)
		if got := w.sweep(false); len(got) != 1 || got[0].State != notifier.StateUnknown {
			w.Errorf("swept %+v, want one unknown", got)
		}
	}},
	{"asked again after a lost reply it is granted again", func(w *world) {
		l := w.permitted()
		if !w.permit(me, l.Hold()) {
			w.Error("refused")
		}
		w.pass(permitFor)
		if w.permit(me, l.Hold()) {
			w.Error("granted when the permit's time was over")
		}
	}},
	{"not another's, and not under another fence", func(w *world) {
		l := w.leased(claimFirst)
		if w.permit(you, l.Hold()) || w.permit(me, notifier.Hold{ID: l.ID, Fence: l.Fence + 1}) || w.permit(me, notifier.Hold{ID: l.ID}) {
			w.Error("granted what is not the caller's")
		}
		if !w.permit(me, l.Hold()) {
			w.Error("refused the holder")
		}
		if w.permit(you, l.Hold()) {
			w.Error("granted another's permit")
		}
	}},
	{"not what waits", func(w *world) {
		id := w.pending(claimFirst)
		if w.permit(me, notifier.Hold{ID: id}) || w.permit("", notifier.Hold{ID: id}) {
			w.Error("granted without a lease")
		}
	}},
	{"not after the sweep, neither lease nor permit", func(w *world) {
		l := w.leased(claimFirst)
		w.pass(leaseFor)
		w.sweep(false)
		if w.permit(me, l.Hold()) {
			w.Error("granted after the lease was swept")
		}
		l = w.again(you)
		if w.permit(me, l.Hold()) {
			w.Error("granted to the former owner")
		}
		if !w.permit(you, l.Hold()) {
			w.Error("refused the new owner")
		}
		w.pass(permitFor)
		w.sweep(false)
		if w.permit(you, l.Hold()) {
			w.Error("granted after the permit was swept")
		}
		w.wantNone("deliveries after a lost permit", w.lease(10, me))
	}},
	{"not after a return or an end", func(w *world) {
		l := w.leased(claimFirst)
		w.giveBack(me, notifier.Return{Hold: l.Hold()})
		if w.permit(me, l.Hold()) {
			w.Error("granted after a return")
		}
		l = w.again(me)
		w.complete(me, notifier.Completion{Hold: l.Hold(), State: notifier.StateSuppressed, Reason: notifier.ReasonCapped})
		if w.permit(me, l.Hold()) {
			w.Error("granted after the end")
		}
	}},
	{"not when cancelled before", func(w *world) {
		l := w.leased(claimFirst)
		w.cancel(l.ID)
		if w.permit(me, l.Hold()) {
			w.Error("granted")
		}
	}},
	{"not again when cancelled after", func(w *world) {
		l := w.permitted()
		w.cancel(l.ID)
		if w.permit(me, l.Hold()) {
			w.Error("granted")
		}
	}},
	{"not past its expiry", func(w *world) {
		l := w.leased(claimFirst)
		for range int(expiry / leaseFor) {
			w.pass(leaseFor)
			w.renew(me, l.Hold())
		}
		if w.permit(me, l.Hold()) {
			w.Error("granted at the expiry")
		}
	}},
	{"never under send-first", func(w *world) {
		l := w.leased(sendFirst)
		if w.permit(me, l.Hold()) {
			w.Error("granted")
		}
	}},
	{"each has its own answer", func(w *world) {
		w.accept(w.intent("k", claimFirst, 3))
		l := w.lease(3, me)
		w.cancel(l[1].ID)
		var ask []notifier.Permit
		for i := range l {
			ask = append(ask, notifier.Permit{Hold: l[i].Hold(), For: permitFor})
		}
		got, err := w.l.Permit(w.ctx, me, ask)
		if err != nil {
			w.Fatal(err)
		}
		diff(w, "answers", got, []bool{true, false, true})
	}},
}
