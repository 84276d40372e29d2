package ledgertest

import (
	"time"

	"github.com/seed-4b260dfd/notifier"
)

// lost is the return of a send-first call whose reply was lost.
func lost(h notifier.Hold) notifier.Return {
	return notifier.Return{
		Hold: h, Reason: notifier.ReasonBackoff, After: time.Second, Try: true, Maybe: true, Fail: true, Record: true,
		Attempt: notifier.Attempt{Outcome: notifier.OutcomeUnknown, Reason: notifier.ReasonReplyLost},
	}
}

// refused is the return of a call that was refused with an error that may pass.
func refused(h notifier.Hold) notifier.Return {
	return notifier.Return{
		Hold: h, Reason: notifier.ReasonBackoff, After: time.Second, Try: true, Fail: true, Record: true, Unsent: true,
		Attempt: notifier.Attempt{Outcome: notifier.OutcomeNotSent, Reason: notifier.ReasonUnreachable},
	}
}

var returnRows = []row{
	{"whatever the provider said, its return is written down", func(w *world) {
		l := w.leased(sendFirst)
		b := notifier.Return{Hold: l.Hold(), Reason: notifier.ReasonBackoff, Maybe: true, Record: true,
			Attempt: notifier.Attempt{ProviderStatus: foul, ProviderID: foul}}
		if s := w.giveBack(me, b); s.Verdict != notifier.VerdictDone {
			w.Errorf("got %+v, want it done", s)
		}
		w.witness(you, notifier.Evidence{Hold: l.Hold(), Kind: notifier.EvidenceLate, Attempt: b.Attempt})
		if n := len(w.state(l.ID).Attempts); n != 2 {
			w.Errorf("got %d attempts, want 2", n)
		}
	}},
	{"a lease comes back with reason and time", func(w *world) {
		l := w.leased(sendFirst)
		got := w.giveBack(me, notifier.Return{Hold: l.Hold(), Reason: notifier.ReasonThrottled, After: time.Minute})
		diff(w, "settled", got, notifier.Settled{Verdict: notifier.VerdictDone, State: notifier.StatePending, Reason: notifier.ReasonThrottled})
		w.wantState(l.ID, notifier.StatePending, notifier.ReasonThrottled, 0)
		if at := w.state(l.ID).NextAttemptAt; at == nil || !at.Equal(w.clock.Now().Add(time.Minute)) {
			w.Errorf("next attempt at %v, want in a minute", at)
		}
		w.pass(time.Minute - time.Microsecond)
		w.wantNone("deliveries before their time", w.lease(10, me))
		w.pass(time.Microsecond)
		w.wantState(l.ID, notifier.StatePending, notifier.ReasonDue, 0)
		w.again(me)
	}},
	{"an event is kept in the timeline, a return without one is not", func(w *world) {
		l := w.leased(sendFirst)
		b := refused(l.Hold())
		b.Attempt.StartedAt, b.Attempt.ProviderStatus, b.Attempt.ProviderID = w.clock.Now(), "503", "p"
		started := w.clock.Now()
		w.pass(time.Second)
		finished := w.clock.Now()
		w.giveBack(me, b)
		w.pass(time.Second)
		w.giveBack(you, notifier.Return{Hold: w.hold(you), Reason: notifier.ReasonCap})
		diff(w, "attempts", w.state(l.ID).Attempts, []notifier.AttemptView{{
			Fence: 1, StartedAt: &started, FinishedAt: &finished, Outcome: "not_sent", Reason: notifier.ReasonUnreachable,
			ProviderStatus: "503", ProviderID: "p", Worker: string(me),
		}})
	}},
	{"what may have arrived counts as an effect", func(w *world) {
		l := w.leased(sendFirst)
		w.giveBack(me, lost(l.Hold()))
		w.wantState(l.ID, notifier.StatePending, notifier.ReasonBackoff, 1)
	}},
	{"what may have arrived is recorded, asked for or not", func(w *world) {
		l := w.leased(sendFirst)
		b := lost(l.Hold())
		b.Record = false
		w.giveBack(me, b)
		w.wantState(l.ID, notifier.StatePending, notifier.ReasonBackoff, 1)
		w.wantSpent(w.clock.Now(), unit(&l, 1, w.clock.Now()))
	}},
	{"said again it was done already, also when another has it now", func(w *world) {
		l := w.leased(sendFirst)
		w.giveBack(me, lost(l.Hold()))
		diff(w, "settled", w.giveBack(me, lost(l.Hold())), notifier.Settled{Verdict: notifier.VerdictAlready, State: notifier.StatePending})
		w.pass(time.Second)
		w.again(you)
		if v := w.giveBack(me, lost(l.Hold())).Verdict; v != notifier.VerdictAlready {
			w.Errorf("got %v, want already", v)
		}
		if d := w.state(l.ID); d.PossibleEffects != 2 || len(d.Attempts) != 2 {
			w.Errorf("got %+v, want the effect that may have been, and the attempt under way", d)
		}
	}},
	{"a return without an event said again was done already", func(w *world) {
		l := w.leased(sendFirst)
		w.giveBack(me, notifier.Return{Hold: l.Hold()})
		if v := w.giveBack(me, notifier.Return{Hold: l.Hold()}).Verdict; v != notifier.VerdictAlready {
			w.Errorf("got %v, want already", v)
		}
	}},
	{"another's, another fence's and a swept one are fenced", func(w *world) {
		l := w.leased(sendFirst)
		if v := w.giveBack(you, lost(l.Hold())).Verdict; v != notifier.VerdictFenced {
			w.Errorf("another's: got %v, want fenced", v)
		}
		if v := w.giveBack(me, lost(notifier.Hold{ID: l.ID, Fence: 9})).Verdict; v != notifier.VerdictFenced {
			w.Errorf("another fence: got %v, want fenced", v)
		}
		w.pass(leaseFor)
		w.sweep(false)
		if v := w.giveBack(me, lost(l.Hold())).Verdict; v != notifier.VerdictFenced {
			w.Errorf("swept: got %v, want fenced", v)
		}
		w.again(you)
		if v := w.giveBack(me, lost(l.Hold())).Verdict; v != notifier.VerdictFenced {
			w.Errorf("swept and leased again: got %v, want fenced", v)
		}
		w.wantState(l.ID, notifier.StateSending, notifier.ReasonNone, 2)
	}},
	{"after an end it is fenced", func(w *world) {
		l := w.leased(sendFirst)
		w.complete(me, w.sent(l.Hold()))
		if v := w.giveBack(me, lost(l.Hold())).Verdict; v != notifier.VerdictFenced {
			w.Errorf("got %v, want fenced", v)
		}
	}},
	{"a permit comes back only with proof that nothing was sent", func(w *world) {
		l := w.permitted()
		b := refused(l.Hold())
		b.Unsent = false
		if v := w.giveBack(me, b).Verdict; v != notifier.VerdictFenced {
			w.Errorf("without proof: got %v, want fenced", v)
		}
		w.wantState(l.ID, notifier.StateSending, notifier.ReasonNone, 1)
		if v := w.giveBack(me, refused(l.Hold())).Verdict; v != notifier.VerdictDone {
			w.Errorf("with proof: got %v, want done", v)
		}
		w.wantState(l.ID, notifier.StatePending, notifier.ReasonBackoff, 0)
		w.pass(time.Second)
		next := w.again(you)
		if next.Fence != 2 || w.permit(me, next.Hold()) || !w.permit(you, next.Hold()) {
			w.Error("the next permit is not the new holder's alone")
		}
		w.complete(you, w.sent(next.Hold()))
		w.wantState(l.ID, notifier.StateSent, notifier.ReasonNone, 1)
	}},
	{"a permit that was swept does not come back", func(w *world) {
		l := w.permitted()
		w.pass(permitFor)
		w.sweep(false)
		if v := w.giveBack(me, refused(l.Hold())).Verdict; v != notifier.VerdictFenced {
			w.Errorf("got %v, want fenced", v)
		}
		w.wantState(l.ID, notifier.StateUnknown, notifier.ReasonWorkerLost, 1)
	}},
	{"used-up tries end it dead, and said again that is the answer", func(w *world) {
		l := w.leased(sendFirst)
		for range maxAttempts - 1 {
			w.giveBack(me, refused(l.Hold()))
			w.pass(time.Second)
			l = w.again(me)
		}
		want := notifier.Settled{Verdict: notifier.VerdictClosed, State: notifier.StateDead, Reason: notifier.ReasonAttemptsUsed}
		diff(w, "settled", w.giveBack(me, refused(l.Hold())), want)
		want.Verdict = notifier.VerdictAlready
		diff(w, "again", w.giveBack(me, refused(l.Hold())), want)
		w.wantState(l.ID, notifier.StateDead, notifier.ReasonAttemptsUsed, 0)
		if n := len(w.state(l.ID).Attempts); n != maxAttempts {
			w.Errorf("got %d attempts, want %d", n, maxAttempts)
		}
		w.wantNone("dead deliveries", w.lease(10, me))
	}},
	{"attempts that were refused with later use nothing up", func(w *world) {
		l := w.leased(sendFirst)
		for range 3 * maxAttempts {
			b := refused(l.Hold())
			b.Try = false
			if v := w.giveBack(me, b).Verdict; v != notifier.VerdictDone {
				w.Fatalf("got %v, want done", v)
			}
			w.pass(time.Second)
			l = w.again(me)
		}
	}},
	{"used-up unknowns end it unknown, before used-up tries", func(w *world) {
		l := w.leased(sendFirst)
		w.giveBack(me, refused(l.Hold()))
		w.pass(time.Second)
		w.giveBack(me, lost(w.hold(me)))
		w.pass(time.Second)
		got := w.giveBack(me, lost(w.hold(me))) // the third try, and the second unknown
		diff(w, "settled", got, notifier.Settled{Verdict: notifier.VerdictClosed, State: notifier.StateUnknown, Reason: notifier.ReasonUnknownsUsed})
		w.wantState(l.ID, notifier.StateUnknown, notifier.ReasonUnknownsUsed, maxUnknown)
	}},
	{"a cancelled one ends cancelled, whatever may have arrived", func(w *world) {
		l := w.leased(sendFirst)
		w.cancel(l.ID)
		got := w.giveBack(me, lost(l.Hold()))
		diff(w, "settled", got, notifier.Settled{Verdict: notifier.VerdictClosed, State: notifier.StateCancelled, Reason: notifier.ReasonCaller})
		w.wantState(l.ID, notifier.StateCancelled, notifier.ReasonCaller, 1)
	}},
	{"a cancelled permit that sent nothing ends cancelled without an effect", func(w *world) {
		l := w.permitted()
		w.cancel(l.ID)
		if v := w.giveBack(me, refused(l.Hold())); v.Verdict != notifier.VerdictClosed || v.State != notifier.StateCancelled {
			w.Errorf("got %+v, want cancelled", v)
		}
		w.wantState(l.ID, notifier.StateCancelled, notifier.ReasonCaller, 0)
	}},
}
