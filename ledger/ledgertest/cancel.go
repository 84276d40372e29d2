package ledgertest

import (
	"github.com/seed-4b260dfd/notifier"
)

var cancelRows = []row{
	{"what waits ends cancelled", bothOrders(func(w *world, o notifier.Order) {
		id := notifier.DeliveryID{Notification: w.accept(w.intent(string(o), o, 1))[0].ID}
		diff(w, "cancelled", w.cancel(id), []notifier.Cancelled{{ID: id, State: notifier.StateCancelled}})
		w.wantState(id, notifier.StateCancelled, notifier.ReasonCaller, 0)
	})},
	{"a claim-first lease without a permit ends cancelled", func(w *world) {
		l := w.leased(claimFirst)
		diff(w, "cancelled", w.cancel(l.ID), []notifier.Cancelled{{ID: l.ID, State: notifier.StateCancelled}})
		if v := w.complete(me, w.sent(l.Hold())).Verdict; v != notifier.VerdictFenced {
			w.Errorf("complete: got %v, want fenced", v)
		}
		if v := w.giveBack(me, refused(l.Hold())).Verdict; v != notifier.VerdictFenced {
			w.Errorf("return: got %v, want fenced", v)
		}
		w.wantState(l.ID, notifier.StateCancelled, notifier.ReasonCaller, 0)
	}},
	{"what is on the wire is too late, and may still be sent", func(w *world) {
		for _, o := range []notifier.Order{claimFirst, sendFirst} {
			w.accept(w.intent(string(o), o, 1))
			l := w.again(me)
			if o == claimFirst {
				w.permit(me, l.Hold())
			}
			diff(w, "cancelled", w.cancel(l.ID), []notifier.Cancelled{{ID: l.ID, TooLate: true, State: notifier.StateSending}})
			if v := w.complete(me, w.sent(l.Hold())).Verdict; v != notifier.VerdictDone {
				w.Errorf("%s: complete: got %v, want done", o, v)
			}
			w.wantState(l.ID, notifier.StateSent, notifier.ReasonNone, 1)
		}
	}},
	{"what is finished keeps its end", func(w *world) {
		l := w.leased(sendFirst)
		w.complete(me, w.sent(l.Hold()))
		diff(w, "cancelled", w.cancel(l.ID), []notifier.Cancelled{{ID: l.ID, State: notifier.StateSent}})
	}},
	{"said again it is the same", func(w *world) {
		id := w.pending(sendFirst)
		first := w.cancel(id)
		diff(w, "again", w.cancel(id), first)
	}},
	{"the first reason stays", func(w *world) {
		l := w.leased(sendFirst)
		w.cancel(l.ID)
		if _, err := w.l.Cancel(w.ctx, tenant, []notifier.DeliveryID{l.ID}, notifier.ReasonOperator); err != nil {
			w.Fatal(err)
		}
		w.giveBack(me, refused(l.Hold()))
		w.wantState(l.ID, notifier.StateCancelled, notifier.ReasonCaller, 0)
	}},
	{"another tenant's and unknown ones have no answer", func(w *world) {
		id := w.pending(sendFirst)
		got, err := w.l.Cancel(w.ctx, "other", []notifier.DeliveryID{id}, notifier.ReasonCaller)
		if err != nil || len(got) != 0 {
			w.Errorf("another tenant's: got %+v, %v; want none", got, err)
		}
		if got := w.cancel(notifier.DeliveryID{Notification: id.Notification, Ordinal: 9}, notifier.DeliveryID{}); len(got) != 0 {
			w.Errorf("unknown: got %+v, want none", got)
		}
		w.wantState(id, notifier.StatePending, notifier.ReasonDue, 0)
	}},
	{"one delivery of several", func(w *world) {
		id := w.accept(w.intent("k", sendFirst, 3))[0].ID
		w.cancel(notifier.DeliveryID{Notification: id, Ordinal: 1})
		n := w.read(id)
		diff(w, "counts", n.Counts, map[notifier.State]int{notifier.StatePending: 2, notifier.StateCancelled: 1})
	}},
	{"what may have arrived before is shown", func(w *world) {
		l := w.leased(sendFirst)
		w.giveBack(me, lost(l.Hold()))
		w.cancel(l.ID)
		w.wantState(l.ID, notifier.StateCancelled, notifier.ReasonCaller, 1)
	}},
}
