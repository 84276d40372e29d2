package ledgertest

import (
	"strings"
	"time"

	"github.com/seed-4b260dfd/notifier"
)

// many is more deliveries than one sweep makes due.
const many = 6000

func (w *world) pause(p notifier.Pause) notifier.Pause {
	w.Helper()
	if p.Cause == "" {
		p.Cause = notifier.PauseOperator
	}
	got, err := w.l.Pause(w.ctx, p)
	if err != nil {
		w.Fatalf("pause: %v", err)
	}
	return got
}

func (w *world) resume(id string) notifier.Pause {
	w.Helper()
	got, _, err := w.l.Resume(w.ctx, id, "bob", "mended")
	if err != nil {
		w.Fatalf("resume: %v", err)
	}
	return got
}

func (w *world) wantPauses(want ...notifier.Pause) {
	w.Helper()
	got, err := w.l.Pauses(w.ctx)
	if err != nil {
		w.Fatalf("pauses: %v", err)
	}
	diff(w, "pauses in force", got, want)
}

// waits accepts a delivery and hands it back as paused, for an hour.
func (w *world) waits(in notifier.Intent) notifier.DeliveryID {
	w.Helper()
	id := notifier.DeliveryID{Notification: w.accept(in)[0].ID}
	got, err := w.l.Lease(w.ctx, in.Deliveries[0].Lane, 1, me)
	if err != nil || len(got) != 1 {
		w.Fatalf("lease: got %d, %v; want 1", len(got), err)
	}
	w.handBackPaused(got[0].Hold())
	return id
}

func (w *world) handBackPaused(h notifier.Hold) {
	w.Helper()
	w.giveBack(me, notifier.Return{Hold: h, Reason: notifier.ReasonPaused, After: time.Hour})
}

func (w *world) wantPaused(id notifier.DeliveryID) {
	w.Helper()
	w.wantState(id, notifier.StatePending, notifier.ReasonPaused, 0)
}

func (w *world) wantDue(id notifier.DeliveryID) {
	w.Helper()
	w.wantState(id, notifier.StatePending, notifier.ReasonDue, 0)
}

// long is an intent that outlasts an hour of pause.
func (w *world) long(key, typ string) notifier.Intent {
	in := w.intent(key, sendFirst, 1)
	in.Type, in.ExpiresAt = typ, w.clock.Now().Add(10*expiry)
	return in
}

var pauseRows = []row{
	{"a pause has an id and a time, and is in force", func(w *world) {
		until := w.clock.Now().Add(time.Hour)
		p := notifier.Pause{Type: "digest", Channel: notifier.ChannelAPNs, Account: "shop", Tenant: tenant, Order: claimFirst,
			Cause: notifier.PauseRewound, Why: "it looks wrong", By: "ann", Until: until}
		got := w.pause(p)
		if !strings.HasPrefix(got.ID, notifier.PausePrefix) || len(got.ID) < 20 {
			w.Errorf("got the id %q", got.ID)
		}
		p.ID, p.Since = got.ID, w.clock.Now()
		diff(w, "pause", got, p)
		w.wantPauses(p)
	}},
	{"the same placed again is the first", func(w *world) {
		first := w.pause(notifier.Pause{Type: "digest", Why: "a", By: "ann"})
		w.pass(time.Minute)
		diff(w, "repeat", w.pause(notifier.Pause{Type: "digest", Why: "b", By: "bob"}), first)
		w.wantPauses(first)
		others := []notifier.Pause{first}
		for _, p := range []notifier.Pause{
			{Type: "code"}, {Channel: "digest"}, {Account: "digest"}, {Tenant: "digest"}, {Type: "digest", Order: claimFirst},
			{Type: "digest", Cause: notifier.PauseRewound}, {Type: "digest", Until: w.clock.Now().Add(time.Hour)},
		} {
			w.pass(time.Microsecond)
			others = append(others, w.pause(p))
		}
		w.wantPauses(others...)
	}},
	{"resumed it is over, said again or not, and the same may be placed anew", func(w *world) {
		p := w.pause(notifier.Pause{Type: "digest", Why: "a", By: "ann"})
		other := w.pause(notifier.Pause{Type: "code"})
		w.pass(time.Minute)
		over := p
		over.EndedAt, over.EndedBy, over.EndedWhy = w.clock.Now(), "bob", "mended"
		diff(w, "resumed", w.resume(p.ID), over)
		w.wantPauses(other)
		w.pass(time.Minute)
		again, ended, err := w.l.Resume(w.ctx, p.ID, "carl", "me too")
		if err != nil || ended {
			w.Errorf("resumed again: got ended %v, %v, want that another call did", ended, err)
		}
		diff(w, "resumed again", again, over)
		w.wantPauses(other)
		if anew := w.pause(notifier.Pause{Type: "digest"}); anew.ID == p.ID {
			w.Errorf("got the pause that was resumed, want a new one")
		}
	}},
	{"one that ended by itself was ended by nobody", func(w *world) {
		p := w.pause(notifier.Pause{Type: "digest", Until: w.clock.Now().Add(time.Minute)})
		w.pass(time.Hour)
		got, ended, err := w.l.Resume(w.ctx, p.ID, "bob", "too late")
		if err != nil || ended {
			w.Errorf("got ended %v, %v, want that it was over", ended, err)
		}
		p.EndedAt = p.Until
		diff(w, "resumed", got, p)
		list, err := w.l.PausesEnded(w.ctx, w.clock.Now().Add(-2*time.Hour))
		if err != nil {
			w.Fatal(err)
		}
		diff(w, "ended", list, []notifier.Pause{p})
	}},
	{"those that have ended are listed, the last first", func(w *world) {
		first := w.pause(notifier.Pause{Type: "digest"})
		timed := w.pause(notifier.Pause{Type: "code", Until: w.clock.Now().Add(2 * time.Minute)})
		w.pause(notifier.Pause{Type: "other"})
		w.pass(time.Minute)
		first = w.resume(first.ID)
		w.pass(time.Hour)
		timed.EndedAt = timed.Until
		for since, want := range map[time.Duration][]notifier.Pause{time.Minute: nil, 59 * time.Minute: {timed}, 2 * time.Hour: {timed, first}} {
			got, err := w.l.PausesEnded(w.ctx, w.clock.Now().Add(-since))
			if err != nil {
				w.Fatal(err)
			}
			diff(w, "ended since "+since.String(), got, want)
		}
	}},
	{"an id that never was is not found", func(w *world) {
		p := w.pause(notifier.Pause{Type: "digest"})
		for _, id := range []string{"", "pau_", foul, p.ID + "0", strings.ToUpper(p.ID)} {
			if _, _, err := w.l.Resume(w.ctx, id, "bob", ""); !notFound(err) {
				w.Errorf("resume %q: got %v, want not found", id, err)
			}
		}
		w.wantPauses(p)
	}},
	{"it is over at its end", func(w *world) {
		p := w.pause(notifier.Pause{Type: "digest", Until: w.clock.Now().Add(time.Hour)})
		w.pass(time.Hour - time.Microsecond)
		w.wantPauses(p)
		w.pass(time.Microsecond)
		w.wantPauses()
		if again := w.pause(notifier.Pause{Type: "digest", Until: p.Until}); again.ID == p.ID {
			w.Errorf("got the pause that is over, want a new one")
		}
	}},
	{"what waits for it is paused, and due when the sweep finds it resumed", func(w *world) {
		p := w.pause(notifier.Pause{Type: "digest"})
		id := w.waits(w.long("k", "digest"))
		w.pass(time.Minute)
		w.sweep(false)
		w.wantPaused(id)
		w.wantNone("deliveries that are paused", w.lease(10, me))
		w.resume(p.ID)
		w.wantNone("deliveries before the sweep", w.lease(10, me))
		if got := w.sweep(false); len(got) != 0 {
			w.Errorf("swept %+v, want none", got)
		}
		w.wantDue(id)
		if lanes, err := w.l.Lanes(w.ctx); err != nil || lanes[lane].After(w.clock.Now()) {
			w.Errorf("got the lanes %v, %v; want %v due now", lanes, err, lane)
		}
		if l := w.again(you); l.Tries != 0 || l.Maybe != 0 || l.Fails != 0 {
			w.Errorf("got %d tries, %d maybe, %d fails: waiting used some", l.Tries, l.Maybe, l.Fails)
		}
	}},
	{"resuming releases what it held and no other pause holds", func(w *world) {
		other := w.lane("other")
		byType := w.pause(notifier.Pause{Type: "digest"})
		byTenant := w.pause(notifier.Pause{Tenant: tenant, Type: "code"})
		byAccount := w.pause(notifier.Pause{Channel: other.Channel, Account: other.Account})
		byOrder := w.pause(notifier.Pause{Order: sendFirst, Type: "receipt"})
		digest, code, receipt := w.waits(w.long("a", "digest")), w.waits(w.long("b", "code")), w.waits(w.long("c", "receipt"))
		elsewhere := w.long("d", "digest")
		elsewhere.Deliveries[0].Lane = other
		both := w.waits(elsewhere)
		w.resume(byType.ID)
		w.sweep(false)
		w.wantDue(digest)
		for _, id := range []notifier.DeliveryID{code, receipt, both} {
			w.wantPaused(id)
		}
		for _, p := range []notifier.Pause{byTenant, byAccount, byOrder} {
			w.resume(p.ID)
		}
		w.sweep(false)
		for _, id := range []notifier.DeliveryID{digest, code, receipt, both} {
			w.wantDue(id)
		}
	}},
	{"the end of one pause releases what another, over too, had handed back for longer", func(w *world) {
		p := w.pause(notifier.Pause{Type: "digest"})
		w.pause(notifier.Pause{Tenant: tenant, Until: w.clock.Now().Add(time.Minute)})
		id := w.waits(w.long("k", "digest"))
		w.resume(p.ID)
		w.sweep(false)
		w.wantPaused(id)
		w.pass(time.Minute)
		w.sweep(false)
		w.wantDue(id)
	}},
	{"what is handed back after the sweep is released when resuming is said again", func(w *world) {
		p := w.pause(notifier.Pause{Type: "digest"})
		w.accept(w.long("k", "digest"))
		l := w.again(me)
		w.resume(p.ID)
		w.sweep(false)
		w.handBackPaused(l.Hold())
		w.sweep(false)
		w.wantPaused(l.ID)
		w.resume(p.ID)
		w.sweep(false)
		w.wantDue(l.ID)
	}},
	{"what waits for something else goes on waiting", func(w *world) {
		p := w.pause(notifier.Pause{Type: "digest"})
		w.accept(w.long("k", "digest"))
		w.giveBack(me, notifier.Return{Hold: w.hold(me), Reason: notifier.ReasonCap, After: time.Hour})
		w.resume(p.ID)
		w.sweep(false)
		w.wantNone("deliveries that a cap holds", w.lease(10, me))
	}},
	{"what is paused expires, and then resuming brings nothing back", func(w *world) {
		p := w.pause(notifier.Pause{Type: "order_shipped"})
		id := w.waits(w.intent("k", claimFirst, 1))
		w.pass(expiry)
		if got := w.expire(); len(got) != 1 {
			w.Errorf("expired %d, want 1", len(got))
		}
		w.resume(p.ID)
		w.sweep(false)
		w.wantState(id, notifier.StateExpired, notifier.ReasonTooLate, 0)
		w.wantNone("deliveries that have expired", w.lease(10, me))
	}},
	{"what is paused can be cancelled", func(w *world) {
		w.pause(notifier.Pause{Type: "order_shipped"})
		id := w.waits(w.intent("k", sendFirst, 1))
		w.cancel(id)
		w.wantState(id, notifier.StateCancelled, notifier.ReasonCaller, 0)
	}},
	{"the backlog counts it as paused, and not as due", func(w *world) {
		p := w.pause(notifier.Pause{Type: "digest"})
		w.waits(w.long("k", "digest"))
		want := notifier.Backlog{Channel: lane.Channel, State: notifier.StatePending, Reason: notifier.ReasonPaused, Count: 1}
		got, err := w.l.Backlog(w.ctx)
		if err != nil {
			w.Fatal(err)
		}
		diff(w, "backlog", got, []notifier.Backlog{want})
		w.resume(p.ID)
		w.sweep(false)
		want.Reason, want.OldestDue = notifier.ReasonDue, w.clock.Now()
		if got, err = w.l.Backlog(w.ctx); err != nil {
			w.Fatal(err)
		}
		diff(w, "backlog", got, []notifier.Backlog{want})
	}},
	{"however many wait, the sweeps release all", func(w *world) {
		p := w.pause(notifier.Pause{Tenant: tenant})
		w.accept(w.intent("k", sendFirst, many))
		var back []notifier.Return
		for _, l := range w.lease(many, me) {
			back = append(back, notifier.Return{Hold: l.Hold(), Reason: notifier.ReasonPaused, After: time.Hour})
		}
		if _, err := w.l.Return(w.ctx, me, back); err != nil {
			w.Fatal(err)
		}
		w.resume(p.ID)
		for range 10 {
			w.sweep(false)
		}
		if got := w.lease(many+1, me); len(got) != many {
			w.Errorf("leased %d, want all %d", len(got), many)
		}
	}},
}

// lane is a lane of its own account.
func (w *world) lane(account string) notifier.Lane {
	return notifier.Lane{Channel: lane.Channel, Account: account, Priority: lane.Priority}
}
