package ledgertest

import (
	"time"

	"github.com/seed-4b260dfd/notifier"
)

func (w *world) unsettled(since time.Time) []notifier.Unsettled {
	w.Helper()
	got, err := w.l.Unsettled(w.ctx, since, 10)
	if err != nil {
		w.Fatalf("unsettled: %v", err)
	}
	return got
}

// lostWith accepts one claim-first delivery under a rule, whose owner goes
// missing under its permit.
func (w *world) lostWith(rule notifier.UnknownRule) notifier.Leased {
	w.Helper()
	in := w.intent("k", claimFirst, 1)
	in.Deliveries[0].Terms.Unknown = rule
	w.accept(in)
	l := w.again(me)
	if !w.permit(me, l.Hold()) {
		w.Fatal("no permit")
	}
	w.pass(permitFor)
	w.sweep(false)
	return l
}

func lookedUp(l *notifier.Leased, kind notifier.EvidenceKind, o notifier.Outcome) notifier.Evidence {
	return notifier.Evidence{Hold: l.Hold(), Kind: kind, Attempt: notifier.Attempt{Outcome: o, ProviderID: "p-1"}}
}

var unsettledRows = []row{
	{"what ended unknown and is to be looked up is found, whole", func(w *world) {
		l := w.lostWith(notifier.UnknownLookup)
		at := w.clock.Now()
		got := w.unsettled(at)
		if len(got) != 1 {
			w.Fatalf("got %d, want 1", len(got))
		}
		want := notifier.Unsettled{Delivery: l.Delivery, Fence: l.Fence, FinishedAt: at}
		want.ExpiresAt = got[0].ExpiresAt // nobody asks for it
		diff(w, "unsettled", got[0], want)
		if n := len(w.unsettled(at.Add(time.Microsecond))); n != 0 {
			w.Errorf("got %d that ended before, want none", n)
		}
	}},
	{"another rule is left alone", func(w *world) {
		w.lostWith(notifier.UnknownStop)
		if n := len(w.unsettled(time.Time{})); n != 0 {
			w.Errorf("got %d, want none", n)
		}
	}},
	{"what the provider has is shown as sent, and not asked about again", func(w *world) {
		l := w.lostWith(notifier.UnknownLookup)
		w.witness(me, lookedUp(&l, notifier.EvidenceLookup, notifier.OutcomeSent))
		w.wantState(l.ID, notifier.StateSent, notifier.ReasonNone, 1)
		if n := len(w.unsettled(time.Time{})); n != 0 {
			w.Errorf("got %d, want none", n)
		}
	}},
	{"what the provider does not know stays unknown, and is not asked about again", func(w *world) {
		l := w.lostWith(notifier.UnknownLookup)
		before := len(w.state(l.ID).Attempts)
		w.witness(me, lookedUp(&l, notifier.EvidenceLookupNone, notifier.OutcomeUnknown))
		w.wantState(l.ID, notifier.StateUnknown, notifier.ReasonWorkerLost, 1)
		if n := len(w.unsettled(time.Time{})); n != 0 {
			w.Errorf("got %d, want none", n)
		}
		if n := len(w.state(l.ID).Attempts); n != before {
			w.Errorf("got %d attempts, want %d: asking is none", n, before)
		}
	}},
	{"a late answer settles it without anybody asking", func(w *world) {
		l := w.lostWith(notifier.UnknownLookup)
		w.witness(me, lateSent(&l, w.clock.Now()))
		if n := len(w.unsettled(time.Time{})); n != 0 {
			w.Errorf("got %d, want none", n)
		}
	}},
}
