package ledgertest

import (
	"time"

	"github.com/seed-4b260dfd/notifier"
)

// bothOrders runs a row under either order, on two keys.
func bothOrders(test func(*world, notifier.Order)) func(*world) {
	return func(w *world) {
		for _, o := range []notifier.Order{claimFirst, sendFirst} {
			sub := *w
			sub.Helper()
			test(&sub, o)
		}
	}
}

// foul is what a provider may answer: no text at all.
const foul = "550 \xff\x00 no"

var completeRows = []row{
	{"whatever the provider said, its outcome is written down", func(w *world) {
		l := w.leased(sendFirst)
		c := w.sent(l.Hold())
		c.Attempt.ProviderStatus, c.Attempt.ProviderID = foul, foul
		if s := w.complete(me, c); s.Verdict != notifier.VerdictDone {
			w.Errorf("got %+v, want it done", s)
		}
		w.wantState(l.ID, notifier.StateSent, notifier.ReasonNone, 1)
		w.read(l.ID.Notification)
	}},
	{"a claim-first delivery ends without a call from what a tombstone says", func(w *world) {
		l := w.leased(claimFirst)
		c := notifier.Completion{Hold: l.Hold(), State: notifier.StateUnknown, Reason: notifier.ReasonWorkerLost}
		diff(w, "settled", w.complete(me, c), notifier.Settled{Verdict: notifier.VerdictDone, State: c.State, Reason: c.Reason})
	}},
	{"what was sent is finished, once, with its attempt", func(w *world) {
		l := w.permitted()
		w.pass(2 * time.Second)
		c := w.sent(l.Hold())
		w.pass(time.Second)
		diff(w, "settled", w.complete(me, c), notifier.Settled{Verdict: notifier.VerdictDone, State: notifier.StateSent})
		w.wantState(l.ID, notifier.StateSent, notifier.ReasonNone, 1)
		started, finished := c.Attempt.StartedAt, w.clock.Now()
		diff(w, "attempts", w.state(l.ID).Attempts, []notifier.AttemptView{{
			Fence: 1, StartedAt: &started, FinishedAt: &finished, Outcome: "sent", ProviderStatus: "200", ProviderID: "p-1", Worker: string(me),
		}})
		w.wantNone("finished deliveries", w.lease(10, you))
	}},
	{"send-first needs no permit", func(w *world) {
		l := w.leased(sendFirst)
		if v := w.complete(me, w.sent(l.Hold())).Verdict; v != notifier.VerdictDone {
			w.Errorf("got %v, want done", v)
		}
		w.wantState(l.ID, notifier.StateSent, notifier.ReasonNone, 1)
	}},
	{"said again it was done already", func(w *world) {
		l := w.permitted()
		w.complete(me, w.sent(l.Hold()))
		w.pass(time.Hour)
		diff(w, "settled", w.complete(me, w.sent(l.Hold())), notifier.Settled{Verdict: notifier.VerdictAlready, State: notifier.StateSent})
		if d := w.state(l.ID); len(d.Attempts) != 1 || d.PossibleEffects != 1 {
			w.Errorf("got %d attempts and %d effects, want one", len(d.Attempts), d.PossibleEffects)
		}
	}},
	{"twice in one batch it is done once", func(w *world) {
		l := w.permitted()
		got, err := w.l.Complete(w.ctx, me, []notifier.Completion{w.sent(l.Hold()), w.sent(l.Hold())})
		if err != nil || got[0].Verdict != notifier.VerdictDone || got[1].Verdict != notifier.VerdictAlready {
			w.Errorf("got %+v, %v; want done, already", got, err)
		}
	}},
	{"another's delivery, another fence and an unknown one are fenced", func(w *world) {
		l := w.leased(sendFirst)
		for _, c := range []struct {
			owner notifier.Owner
			hold  notifier.Hold
		}{
			{you, l.Hold()},
			{me, notifier.Hold{ID: l.ID, Fence: l.Fence + 1}},
			{me, notifier.Hold{ID: l.ID, Fence: l.Fence - 1}},
			{me, notifier.Hold{ID: notifier.DeliveryID{Notification: l.ID.Notification, Ordinal: 7}, Fence: 1}},
		} {
			if v := w.complete(c.owner, w.sent(c.hold)).Verdict; v != notifier.VerdictFenced {
				w.Errorf("%s %v: got %v, want fenced", c.owner, c.hold, v)
			}
		}
		w.wantState(l.ID, notifier.StateSending, notifier.ReasonNone, 1)
	}},
	{"after the sweep it is fenced, though the row has my name", func(w *world) {
		l := w.permitted()
		w.pass(permitFor)
		w.sweep(false)
		if v := w.complete(me, w.sent(l.Hold())).Verdict; v != notifier.VerdictFenced {
			w.Errorf("got %v, want fenced", v)
		}
		w.wantState(l.ID, notifier.StateUnknown, notifier.ReasonWorkerLost, 1)
	}},
	{"after the sweep and another's end it is fenced", func(w *world) {
		l := w.leased(sendFirst)
		w.pass(leaseFor)
		w.sweep(false)
		if v := w.complete(me, w.sent(l.Hold())).Verdict; v != notifier.VerdictFenced {
			w.Errorf("waiting again: got %v, want fenced", v)
		}
		other := w.again(you)
		w.complete(you, w.sent(other.Hold()))
		if v := w.complete(me, w.sent(l.Hold())).Verdict; v != notifier.VerdictFenced {
			w.Errorf("finished: got %v, want fenced", v)
		}
		w.wantState(l.ID, notifier.StateSent, notifier.ReasonNone, 2)
	}},
	{"after a return it is fenced", func(w *world) {
		l := w.leased(sendFirst)
		w.giveBack(me, notifier.Return{Hold: l.Hold(), Record: true})
		if v := w.complete(me, w.sent(l.Hold())).Verdict; v != notifier.VerdictFenced {
			w.Errorf("got %v, want fenced", v)
		}
	}},
	{"a lapsed lease that was not swept may still be completed", func(w *world) {
		l := w.leased(sendFirst)
		w.pass(10 * leaseFor)
		if v := w.complete(me, w.sent(l.Hold())).Verdict; v != notifier.VerdictDone {
			w.Errorf("got %v, want done", v)
		}
	}},
	{"an end without a call has no attempt and no effect", func(w *world) {
		l := w.leased(claimFirst)
		w.complete(me, notifier.Completion{Hold: l.Hold(), State: notifier.StateSuppressed, Reason: notifier.ReasonCapped})
		w.wantState(l.ID, notifier.StateSuppressed, notifier.ReasonCapped, 0)
		if d := w.state(l.ID); len(d.Attempts) != 0 {
			w.Errorf("got attempts %+v, want none", d.Attempts)
		}
	}},
	{"a call whose outcome is unknown is a possible effect, a refused one is none", func(w *world) {
		w.accept(w.intent("k", claimFirst, 2))
		l := w.lease(2, me)
		for i := range l {
			w.permit(me, l[i].Hold())
		}
		w.complete(me, notifier.Completion{Hold: l[0].Hold(), State: notifier.StateUnknown, Reason: notifier.ReasonReplyLost, Called: true,
			Attempt: notifier.Attempt{Outcome: notifier.OutcomeUnknown, Reason: notifier.ReasonReplyLost}})
		w.complete(me, notifier.Completion{Hold: l[1].Hold(), State: notifier.StateRejected, Reason: notifier.ReasonInvalidAddress, Called: true,
			Attempt: notifier.Attempt{Outcome: notifier.OutcomeInvalidAddress, Reason: notifier.ReasonInvalidAddress, ProviderStatus: "410"}})
		w.wantState(l[0].ID, notifier.StateUnknown, notifier.ReasonReplyLost, 1)
		w.wantState(l[1].ID, notifier.StateRejected, notifier.ReasonInvalidAddress, 0)
	}},
	{"a state that is no end is refused and writes nothing", func(w *world) {
		w.accept(w.intent("k", sendFirst, 2))
		l := w.lease(2, me)
		for _, s := range []notifier.State{notifier.StatePending, notifier.StateSending, ""} {
			if _, err := w.l.Complete(w.ctx, me, []notifier.Completion{w.sent(l[0].Hold()), {Hold: l[1].Hold(), State: s}}); err == nil {
				w.Errorf("state %q: got no error", s)
			}
		}
		w.wantState(l[0].ID, notifier.StateSending, notifier.ReasonNone, 1)
	}},
	{"an unchanged clock and a clock set back do not matter", func(w *world) {
		l := w.permitted()
		w.pass(-time.Hour)
		if v := w.complete(me, w.sent(l.Hold())).Verdict; v != notifier.VerdictDone {
			w.Errorf("got %v, want done", v)
		}
	}},
}
