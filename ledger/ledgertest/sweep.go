package ledgertest

import (
	"strconv"
	"time"

	"github.com/seed-4b260dfd/notifier"
)

// swept is what a sweep says of a delivery that the suite accepted.
func swept(l *notifier.Leased, state notifier.State, reason notifier.Reason) notifier.Swept {
	return notifier.Swept{
		ID: l.ID, Type: l.Type, Order: l.Order, Lane: l.Lane, Fence: l.Fence, EffectKey: l.EffectKey,
		Tombstone: l.Terms.Tombstone, State: state, Reason: reason,
	}
}

var sweepRows = []row{
	{"nothing before its time", func(w *world) {
		w.leased(sendFirst)
		w.pass(leaseFor - time.Microsecond)
		if got := w.sweep(false); len(got) != 0 {
			w.Errorf("swept %+v, want none", got)
		}
	}},
	{"a lapsed claim-first lease is due again, with nothing sent", func(w *world) {
		l := w.leased(claimFirst)
		w.pass(leaseFor)
		diff(w, "swept", w.sweep(false), []notifier.Swept{swept(&l, notifier.StatePending, notifier.ReasonDue)})
		w.wantState(l.ID, notifier.StatePending, notifier.ReasonDue, 0)
		at := w.clock.Now()
		diff(w, "attempts", w.state(l.ID).Attempts, []notifier.AttemptView{{
			Fence: 1, FinishedAt: &at, Outcome: "not_sent", Reason: notifier.ReasonLeaseLapsed, Worker: string(me),
		}})
		if next := w.again(you); next.Fence != 2 || next.Tries != 1 || next.Maybe != 0 {
			w.Errorf("got %+v, want fence 2, one try, none that may have arrived", next)
		}
	}},
	{"a lapsed send-first lease is due again, and may have arrived", func(w *world) {
		l := w.leased(sendFirst)
		w.pass(leaseFor)
		want := swept(&l, notifier.StatePending, notifier.ReasonDue)
		want.Repeats = true
		diff(w, "swept", w.sweep(false), []notifier.Swept{want})
		w.wantState(l.ID, notifier.StatePending, notifier.ReasonDue, 1)
		if got := w.state(l.ID).Attempts; len(got) != 1 || got[0].Outcome != "unknown" || got[0].Reason != notifier.ReasonLeaseLapsed {
			w.Errorf("got %+v, want one unknown attempt, lease_lapsed", got)
		}
		if next := w.again(you); next.Fence != 2 || next.Tries != 1 || next.Maybe != 1 {
			w.Errorf("got %+v, want fence 2, one try, one that may have arrived", next)
		}
	}},
	{"a lapsed send-first lease whose policy would rather not know than repeat ends unknown", func(w *world) {
		in := w.intent("k", sendFirst, 1)
		in.Deliveries[0].Terms.Unknown = notifier.UnknownStop
		w.accept(in)
		l := w.again(me)
		w.pass(leaseFor)
		diff(w, "swept", w.sweep(false), []notifier.Swept{swept(&l, notifier.StateUnknown, notifier.ReasonWorkerLost)})
		w.wantState(l.ID, notifier.StateUnknown, notifier.ReasonWorkerLost, 1)
	}},
	{"said again it does nothing", func(w *world) {
		w.leased(sendFirst)
		w.pass(leaseFor)
		w.sweep(false)
		if got := w.sweep(false); len(got) != 0 {
			w.Errorf("swept %+v, want none", got)
		}
	}},
	{"claim-first tries that are used up by lapsing end dead", func(w *world) {
		var l notifier.Leased
		w.pending(claimFirst)
		var got []notifier.Swept
		for range maxAttempts {
			l = w.again(me)
			w.pass(leaseFor)
			got = w.sweep(false)
		}
		diff(w, "swept", got, []notifier.Swept{swept(&l, notifier.StateDead, notifier.ReasonAttemptsUsed)})
		w.wantState(l.ID, notifier.StateDead, notifier.ReasonAttemptsUsed, 0)
	}},
	{"send-first unknowns that are used up by lapsing end unknown", func(w *world) {
		var l notifier.Leased
		w.pending(sendFirst)
		var got []notifier.Swept
		for range maxUnknown {
			l = w.again(me)
			w.pass(leaseFor)
			got = w.sweep(false)
		}
		diff(w, "swept", got, []notifier.Swept{swept(&l, notifier.StateUnknown, notifier.ReasonUnknownsUsed)})
		w.wantState(l.ID, notifier.StateUnknown, notifier.ReasonUnknownsUsed, maxUnknown)
	}},
	{"send-first tries that are used up by lapsing end dead", func(w *world) {
		l := w.leased(sendFirst)
		for range maxAttempts - 1 {
			w.giveBack(me, refused(l.Hold()))
			w.pass(time.Second)
			l = w.again(me)
		}
		w.pass(leaseFor)
		diff(w, "swept", w.sweep(false), []notifier.Swept{swept(&l, notifier.StateDead, notifier.ReasonAttemptsUsed)})
		w.wantState(l.ID, notifier.StateDead, notifier.ReasonAttemptsUsed, 1)
	}},
	{"a lapsed permit ends unknown and is never due again", func(w *world) {
		l := w.permitted()
		w.pass(permitFor)
		diff(w, "swept", w.sweep(false), []notifier.Swept{swept(&l, notifier.StateUnknown, notifier.ReasonWorkerLost)})
		w.wantState(l.ID, notifier.StateUnknown, notifier.ReasonWorkerLost, 1)
		if got := w.state(l.ID).Attempts; len(got) != 1 || got[0].Outcome != "unknown" || got[0].Reason != notifier.ReasonWorkerLost {
			w.Errorf("got %+v, want one unknown attempt, worker_lost", got)
		}
		w.pass(expiry)
		w.sweep(true)
		w.wantNone("deliveries after a lost permit", w.lease(10, you))
	}},
	{"a cancelled lease ends cancelled instead of being due again", func(w *world) {
		l := w.leased(sendFirst)
		w.cancel(l.ID)
		w.pass(leaseFor)
		diff(w, "swept", w.sweep(false), []notifier.Swept{swept(&l, notifier.StateCancelled, notifier.ReasonCaller)})
		w.wantState(l.ID, notifier.StateCancelled, notifier.ReasonCaller, 1)
	}},
	{"a cancelled permit that lapses is unknown all the same", func(w *world) {
		l := w.permitted()
		w.cancel(l.ID)
		w.pass(permitFor)
		w.sweep(false)
		w.wantState(l.ID, notifier.StateUnknown, notifier.ReasonWorkerLost, 1)
	}},
	{"all of them for an owner that has just started", func(w *world) {
		w.accept(w.intent("c", claimFirst, 2), w.intent("s", sendFirst, 1))
		l := w.lease(3, me)
		w.permit(me, l[1].Hold())
		got := w.sweep(true)
		states := map[notifier.DeliveryID]notifier.State{}
		for _, s := range got {
			states[s.ID] = s.State
		}
		diff(w, "states", states, map[notifier.DeliveryID]notifier.State{
			l[0].ID: notifier.StatePending, l[1].ID: notifier.StateUnknown, l[2].ID: notifier.StatePending,
		})
		if got := w.lease(10, you); len(got) != 2 {
			w.Errorf("leased %d, want the 2 that are due again", len(got))
		}
	}},
	{"at most the limit, those that lapsed first first", func(w *world) {
		for i := range 3 {
			w.accept(w.intent(strconv.Itoa(i), sendFirst, 1))
			w.again(me)
			w.pass(time.Second)
		}
		w.pass(leaseFor)
		got, err := w.l.Sweep(w.ctx, 2, false)
		if err != nil || len(got) != 2 || string(got[0].ID.Notification[:]) > string(got[1].ID.Notification[:]) {
			w.Errorf("got %+v, %v; want the two oldest", got, err)
		}
		if got := w.sweep(false); len(got) != 1 {
			w.Errorf("swept %d, want the one that is left", len(got))
		}
	}},
	{"the order is read from the row", bothOrders(func(w *world, o notifier.Order) {
		in := w.intent(string(o), o, 1)
		in.Type = "another_type"
		w.accept(in)
		l := w.again(me)
		w.pass(leaseFor)
		if got := w.sweep(false); len(got) != 1 || got[0].Order != o || got[0].Type != "another_type" {
			w.Errorf("swept %+v, want one of order %s", got, o)
		}
		want := 0
		if o == sendFirst {
			want = 1
		}
		w.wantState(l.ID, notifier.StatePending, notifier.ReasonDue, want)
		w.cancel(l.ID)
	})},
}

var expireRows = []row{
	{"what waits past its expiry ends expired", func(w *world) {
		w.accept(w.intent("old", sendFirst, 2))
		w.pass(time.Minute)
		fresh := w.accept(w.intent("fresh", sendFirst, 1))[0].ID
		w.pass(expiry - time.Minute)
		got := w.expire()
		if len(got) != 2 || got[0].State != notifier.StateExpired || got[0].Reason != notifier.ReasonTooLate || got[0].Lane != lane {
			w.Fatalf("got %+v, want two expired, too_late", got)
		}
		w.wantState(got[0].ID, notifier.StateExpired, notifier.ReasonTooLate, 0)
		w.wantState(notifier.DeliveryID{Notification: fresh}, notifier.StatePending, notifier.ReasonDue, 0)
		if got := w.expire(); len(got) != 0 {
			w.Errorf("expired %+v again", got)
		}
	}},
	{"not before", func(w *world) {
		w.pending(sendFirst)
		w.pass(expiry - time.Microsecond)
		if got := w.expire(); len(got) != 0 {
			w.Errorf("expired %+v, want none", got)
		}
	}},
	{"also what is due later than its expiry", func(w *world) {
		l := w.leased(sendFirst)
		w.giveBack(me, notifier.Return{Hold: l.Hold(), Reason: notifier.ReasonCap, After: 2 * expiry})
		w.pass(expiry)
		if got := w.expire(); len(got) != 1 {
			w.Errorf("expired %d, want 1", len(got))
		}
	}},
	{"not what is leased or on the wire", bothOrders(func(w *world, o notifier.Order) {
		w.accept(w.intent(string(o), o, 1))
		l := w.again(me)
		w.pass(expiry)
		if got := w.expire(); len(got) != 0 {
			w.Errorf("expired %+v, want none", got)
		}
		w.complete(me, notifier.Completion{Hold: l.Hold(), State: notifier.StateExpired, Reason: notifier.ReasonTooLate})
	})},
	{"what may have arrived before is shown", func(w *world) {
		l := w.leased(sendFirst)
		w.giveBack(me, lost(l.Hold()))
		w.pass(expiry)
		w.expire()
		w.wantState(l.ID, notifier.StateExpired, notifier.ReasonTooLate, 1)
	}},
	{"at most the limit", func(w *world) {
		w.accept(w.intent("k", sendFirst, 3))
		w.pass(expiry)
		if got, err := w.l.Expire(w.ctx, 2); err != nil || len(got) != 2 {
			w.Errorf("got %d, %v; want 2", len(got), err)
		}
	}},
}
