package ledgertest

import (
	"time"

	"github.com/seed-4b260dfd/notifier"
)

func lateSent(l *notifier.Leased, at time.Time) notifier.Evidence {
	return notifier.Evidence{Hold: l.Hold(), Kind: notifier.EvidenceLate, Attempt: notifier.Attempt{
		StartedAt: at, Outcome: notifier.OutcomeSent, ProviderStatus: "200", ProviderID: "p-late",
	}}
}

func lateUnsent(l *notifier.Leased) notifier.Evidence {
	return notifier.Evidence{Hold: l.Hold(), Kind: notifier.EvidenceLateUnsent, Attempt: notifier.Attempt{
		Outcome: notifier.OutcomeNotSent, Reason: notifier.ReasonGate,
	}}
}

// lostPermit accepts one claim-first delivery, whose owner goes missing under
// its permit.
func (w *world) lostPermit() notifier.Leased {
	w.Helper()
	l := w.permitted()
	w.pass(permitFor)
	w.sweep(false)
	w.wantState(l.ID, notifier.StateUnknown, notifier.ReasonWorkerLost, 1)
	return l
}

var evidenceRows = []row{
	{"an unknown that was sent after all is shown as sent", func(w *world) {
		l := w.lostPermit()
		started := w.clock.Now()
		w.pass(time.Second)
		w.witness(me, lateSent(&l, started))
		w.wantState(l.ID, notifier.StateSent, notifier.ReasonNone, 1)
		at := w.clock.Now()
		got := w.state(l.ID).Attempts
		diff(w, "late attempt", got[len(got)-1], notifier.AttemptView{
			Fence: l.Fence, StartedAt: &started, FinishedAt: &at, Outcome: "sent", ProviderStatus: "200", ProviderID: "p-late",
			Worker: string(me), Late: true,
		})
		if n := w.read(l.ID.Notification); n.State != notifier.StateSent || n.Counts[notifier.StateSent] != 1 {
			w.Errorf("got %q, %v; want sent", n.State, n.Counts)
		}
	}},
	{"proof that nothing was sent takes the effect away, and leaves it unknown", func(w *world) {
		l := w.lostPermit()
		w.witness(me, lateUnsent(&l))
		w.wantState(l.ID, notifier.StateUnknown, notifier.ReasonWorkerLost, 0)
	}},
	{"a late refusal settles nothing", func(w *world) {
		l := w.lostPermit()
		e := lateSent(&l, w.clock.Now())
		e.Attempt.Outcome = notifier.OutcomeRejected
		w.witness(me, e)
		w.wantState(l.ID, notifier.StateUnknown, notifier.ReasonWorkerLost, 1)
	}},
	{"it makes nothing due and stops nothing", func(w *world) {
		l := w.leased(sendFirst)
		w.pass(leaseFor)
		w.sweep(false)
		w.witness(me, lateSent(&l, w.clock.Now()))
		w.wantState(l.ID, notifier.StatePending, notifier.ReasonDue, 1)
		next := w.again(you)
		w.complete(you, w.sent(next.Hold()))
		w.witness(me, lateSent(&l, w.clock.Now()))
		w.wantState(l.ID, notifier.StateSent, notifier.ReasonNone, 2)
		late := 0
		for _, a := range w.state(l.ID).Attempts {
			if a.Late {
				late++
			}
		}
		if late != 1 {
			w.Errorf("got %d late attempts, want the one that was kept, once", late)
		}
	}},
	{"a lapsed send-first attempt that sent nothing is no effect", func(w *world) {
		l := w.leased(sendFirst)
		w.pass(leaseFor)
		w.sweep(false)
		w.witness(me, lateUnsent(&l))
		w.wantState(l.ID, notifier.StatePending, notifier.ReasonDue, 0)
	}},
	{"a timeline is in the order of the fences", func(w *world) {
		l := w.leased(sendFirst)
		w.pass(leaseFor)
		w.sweep(false)
		next := w.again(you)
		w.giveBack(you, refused(next.Hold()))
		w.pass(time.Second)
		w.witness(me, lateSent(&l, w.clock.Now()))
		w.again(me)
		type step struct {
			Fence   int64
			Outcome string
			Late    bool
		}
		var got []step
		for _, a := range w.state(l.ID).Attempts {
			got = append(got, step{a.Fence, a.Outcome, a.Late})
		}
		diff(w, "timeline", got, []step{{1, "unknown", false}, {1, "sent", true}, {2, "not_sent", false}, {3, "", false}})
	}},
}
