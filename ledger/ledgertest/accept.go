package ledgertest

import (
	"encoding/json"
	"strconv"
	"sync"
	"time"

	"github.com/seed-4b260dfd/notifier"
)

var acceptRows = []row{
	{"a new intent is stored and waits", func(w *world) {
		in := w.intent("k", sendFirst, 2)
		s := w.accept(in)[0]
		diff(w, "stored", s, notifier.Stored{ID: s.ID, Fingerprint: in.Fingerprint, Parts: in.Parts, AcceptedAt: w.clock.Now()})
		n := w.read(s.ID)
		if n.State != notifier.StatePending || n.Counts[notifier.StatePending] != 2 || n.Repeats != 0 {
			w.Errorf("got %q, %v, %d repeats; want two pending and none", n.State, n.Counts, n.Repeats)
		}
		w.wantState(notifier.DeliveryID{Notification: s.ID, Ordinal: 1}, notifier.StatePending, notifier.ReasonDue, 0)
	}},
	{"a copy with the same fingerprint is a repeat", func(w *world) {
		first := w.accept(w.intent("k", sendFirst, 1))[0]
		w.pass(90 * time.Second)
		again := w.intent("k", claimFirst, 3)
		again.Parts = map[string]string{"to": "other"}
		s := w.accept(again)[0]
		first.Replayed, first.FirstAge = true, 90*time.Second
		diff(w, "stored", s, first)
		if n := w.read(s.ID); n.Repeats != 1 || len(n.Deliveries) != 1 || n.Order != sendFirst {
			w.Errorf("got %d repeats, %d deliveries, %q; want the first copy and one repeat", n.Repeats, len(n.Deliveries), n.Order)
		}
		if got := w.lease(10, me); len(got) != 1 {
			w.Errorf("leased %d, want the first copy's one", len(got))
		}
	}},
	{"a copy with another fingerprint is told apart and counted as no repeat", func(w *world) {
		first := w.accept(w.intent("k", sendFirst, 1))[0]
		other := w.intent("k", sendFirst, 1)
		other.Fingerprint, other.Parts = [32]byte{9}, map[string]string{"data": "cc"}
		s := w.accept(other)[0]
		first.Replayed = true
		diff(w, "stored", s, first)
		if n := w.read(s.ID); n.Repeats != 0 {
			w.Errorf("got %d repeats, want 0", n.Repeats)
		}
	}},
	{"one key twice in a batch makes one", func(w *world) {
		s := w.accept(w.intent("k", sendFirst, 1), w.intent("other", sendFirst, 1), w.intent("k", sendFirst, 1))
		if s[0].Replayed || s[1].Replayed || !s[2].Replayed || s[2].ID != s[0].ID || s[1].ID == s[0].ID {
			w.Errorf("got %+v, want the third to repeat the first", s)
		}
	}},
	{"another tenant's key is another key", func(w *world) {
		mine := w.accept(w.intent("k", sendFirst, 1))[0]
		in := w.intent("k", sendFirst, 1)
		in.Tenant = "other"
		if s := w.accept(in)[0]; s.Replayed || s.ID == mine.ID {
			w.Errorf("got %+v, want a new notification", s)
		}
	}},
	{"concurrent copies make one", concurrentAccept},
	{"a finished delivery's key is a repeat", func(w *world) {
		l := w.leased(sendFirst)
		w.complete(me, w.sent(l.Hold()))
		if s := w.accept(w.intent("k", sendFirst, 1))[0]; !s.Replayed || s.ID != l.ID.Notification {
			w.Errorf("got %+v, want a repeat", s)
		}
		w.wantNone("finished deliveries", w.lease(10, me))
	}},
	{"a key is remembered past acceptance, send time and expiry", func(w *world) {
		in := w.intent("k", sendFirst, 1)
		in.SendAt, in.ExpiresAt = w.clock.Now().Add(2*time.Hour), w.clock.Now().Add(time.Hour)
		first := w.accept(in)[0]
		w.pass(2 * time.Hour)
		w.expire()
		w.pass(keepFor - time.Microsecond)
		if s := w.accept(w.intent("k", sendFirst, 1))[0]; !s.Replayed || s.ID != first.ID {
			w.Errorf("got %+v just before the end of the key's time, want a repeat", s)
		}
		w.pass(time.Microsecond)
		s := w.accept(w.intent("k", sendFirst, 1))[0]
		if s.Replayed || s.ID == first.ID {
			w.Errorf("got %+v after the key's time, want a new notification", s)
		}
		if n, err := w.l.ByKey(w.ctx, tenant, "k"); err != nil || n.ID != s.ID {
			w.Errorf("by key: got %v, %v; want the newest", n, err)
		}
		if n := w.read(first.ID); n.Repeats != 1 {
			w.Errorf("the older one has %d repeats, want 1", n.Repeats)
		}
	}},
	{"a key whose delivery is still in the queue is remembered past its time", func(w *world) {
		in := w.intent("k", sendFirst, 1)
		in.ExpiresAt = time.Time{}
		first := w.accept(in)[0]
		w.pass(2 * keepFor)
		if s := w.accept(w.intent("k", sendFirst, 1))[0]; !s.Replayed || s.ID != first.ID {
			w.Errorf("got %+v, want a repeat", s)
		}
	}},
	{"old keys are forgotten by the sweep, and no others", func(w *world) {
		for i := range 250 {
			w.accept(w.intent(strconv.Itoa(i), sendFirst, 1))
		}
		open := w.accept(w.intent("open", sendFirst, 1))[0].ID
		for _, l := range w.lease(250, me) {
			w.complete(me, w.sent(l.Hold()))
		}
		w.pass(keepFor + expiry)
		fresh := w.accept(w.intent("fresh", sendFirst, 1))[0].ID
		for range 5 {
			w.sweep(false)
		}
		if _, err := w.l.ByKey(w.ctx, tenant, "7"); !notFound(err) {
			w.Errorf("an old key: got %v, want not found", err)
		}
		for key, id := range map[string]notifier.ID{"open": open, "fresh": fresh} {
			if n, err := w.l.ByKey(w.ctx, tenant, key); err != nil || n.ID != id {
				w.Errorf("key %q: got %v, %v; want it remembered", key, n, err)
			}
		}
	}},
	{"a replay-only intent makes nothing", func(w *world) {
		in := notifier.Intent{Tenant: tenant, Key: "k", Fingerprint: [32]byte{1, 2, 3}, ReplayOnly: true}
		if s := w.accept(in)[0]; s.Replayed || !s.ID.IsZero() {
			w.Errorf("got %+v for a key that nobody used, want nothing", s)
		}
		first := w.accept(w.intent("k", sendFirst, 1))[0]
		if s := w.accept(in)[0]; !s.Replayed || s.ID != first.ID {
			w.Errorf("got %+v, want the first copy", s)
		}
		if n := w.read(first.ID); n.Repeats != 1 {
			w.Errorf("got %d repeats, want 1", n.Repeats)
		}
	}},
	{"an intent without a delivery is refused", func(w *world) {
		if _, err := w.l.Accept(w.ctx, []notifier.Intent{w.intent("k", sendFirst, 0)}); err == nil {
			w.Error("got no error")
		}
		if _, err := w.l.ByKey(w.ctx, tenant, "k"); !notFound(err) {
			w.Errorf("got %v, want nothing stored", err)
		}
	}},
	{"a send time in the future waits for it", func(w *world) {
		in := w.intent("k", sendFirst, 1)
		in.SendAt = w.clock.Now().Add(10 * time.Minute)
		id := notifier.DeliveryID{Notification: w.accept(in)[0].ID}
		w.wantState(id, notifier.StatePending, notifier.ReasonScheduled, 0)
		if at := w.state(id).NextAttemptAt; at == nil || !at.Equal(in.SendAt) {
			w.Errorf("next attempt at %v, want %v", at, in.SendAt)
		}
		w.pass(10*time.Minute - time.Microsecond)
		w.wantNone("scheduled deliveries", w.lease(10, me))
		w.pass(time.Microsecond)
		w.wantState(id, notifier.StatePending, notifier.ReasonDue, 0)
		if l := w.again(me); !l.SendAt.Equal(in.SendAt) {
			w.Errorf("send at %v, want %v", l.SendAt, in.SendAt)
		}
	}},
	{"a send time in the past is now", func(w *world) {
		in := w.intent("k", sendFirst, 1)
		in.SendAt = w.clock.Now().Add(-time.Minute)
		w.accept(in)
		if l := w.again(me); !l.SendAt.Equal(l.AcceptedAt) {
			w.Errorf("send at %v, want the acceptance at %v", l.SendAt, l.AcceptedAt)
		}
	}},
	{"ids grow, also when the clock steps back", func(w *world) {
		var last notifier.ID
		for i := range 50 {
			id := w.accept(w.intent(strconv.Itoa(i), sendFirst, 1))[0].ID
			if string(id[:]) <= string(last[:]) {
				w.Fatalf("id %v does not follow %v", id, last)
			}
			last = id
			w.pass(time.Duration(i%3-1) * time.Second)
		}
	}},
}

func concurrentAccept(w *world) {
	const copies = 20
	ids := make([]notifier.Stored, copies)
	var all sync.WaitGroup
	for i := range copies {
		all.Go(func() {
			s, err := w.l.Accept(w.ctx, []notifier.Intent{w.intent("k", sendFirst, 1)})
			if err != nil {
				w.Errorf("accept: %v", err)
				return
			}
			ids[i] = s[0]
		})
	}
	all.Wait()
	fresh := 0
	for _, s := range ids {
		if !s.Replayed {
			fresh++
		}
		if s.ID != ids[0].ID {
			w.Errorf("got two ids for one key")
		}
	}
	if fresh != 1 {
		w.Errorf("%d copies were new, want 1", fresh)
	}
	if n := w.read(ids[0].ID); n.Repeats != copies-1 {
		w.Errorf("got %d repeats, want %d", n.Repeats, copies-1)
	}
}

var acceptLeaseRows = []row{
	{"the first deliveries are leased, as a lease would give them", func(w *world) {
		in := w.intent("k", sendFirst, 3)
		in.Lease = notifier.FirstLease{Owner: me, Count: 2}
		s := w.accept(in)[0]
		if len(s.Leased) != 2 {
			w.Fatalf("got %d leased, want 2", len(s.Leased))
		}
		for i, l := range s.Leased {
			want := in.Deliveries[i]
			want.ID = notifier.DeliveryID{Notification: s.ID, Ordinal: uint16(i)}
			want.Tenant, want.Key, want.Type, want.Recipient, want.Order = in.Tenant, in.Key, in.Type, in.Recipient, in.Order
			want.AcceptedAt, want.SendAt, want.ExpiresAt = w.clock.Now(), w.clock.Now(), in.ExpiresAt
			diff(w, "leased", l, notifier.Leased{Delivery: want, Fence: 1, LeasedAt: w.clock.Now()})
		}
		w.wantState(s.Leased[0].ID, notifier.StateSending, notifier.ReasonNone, 1)
		if l := w.again(you); l.ID.Ordinal != 2 || l.Fence != 1 {
			w.Errorf("got %+v, want the third under fence 1", l)
		}
		if v := w.complete(me, w.sent(s.Leased[1].Hold())); v.Verdict != notifier.VerdictDone {
			w.Errorf("complete: got %v", v)
		}
	}},
	{"and read back the same by a later lease", func(w *world) {
		in := w.intent("k", claimFirst, 1)
		in.Deliveries[0].Content = json.RawMessage(`{"html":"<b>&amp;</b>"}`)
		in.Lease = notifier.FirstLease{Owner: me, Count: 1}
		first := w.accept(in)[0].Leased[0]
		w.giveBack(me, notifier.Return{Hold: first.Hold()})
		l := w.again(you)
		diff(w, "delivery", l.Delivery, first.Delivery)
		if l.Fence != 2 {
			w.Errorf("got fence %d, want 2", l.Fence)
		}
	}},
	{"a scheduled delivery is not leased early", func(w *world) {
		in := w.intent("k", sendFirst, 1)
		in.SendAt, in.Lease = w.clock.Now().Add(time.Minute), notifier.FirstLease{Owner: me, Count: 1}
		s := w.accept(in)[0]
		w.wantNone("scheduled deliveries", s.Leased)
		w.wantState(notifier.DeliveryID{Notification: s.ID}, notifier.StatePending, notifier.ReasonScheduled, 0)
	}},
	{"an expired delivery is not leased", func(w *world) {
		in := w.intent("k", sendFirst, 1)
		in.ExpiresAt, in.Lease = w.clock.Now(), notifier.FirstLease{Owner: me, Count: 1}
		w.wantNone("expired deliveries", w.accept(in)[0].Leased)
		w.wantNone("expired deliveries", w.lease(1, me))
	}},
	{"a repeat leases nothing", func(w *world) {
		in := w.intent("k", sendFirst, 1)
		w.accept(in)
		in.Lease = notifier.FirstLease{Owner: me, Count: 1}
		w.wantNone("deliveries of a repeat", w.accept(in)[0].Leased)
	}},
	{"a lapsed first lease is swept like any other", func(w *world) {
		in := w.intent("k", sendFirst, 1)
		in.Lease = notifier.FirstLease{Owner: me, Count: 1}
		w.accept(in)
		w.pass(leaseFor)
		if got := w.sweep(false); len(got) != 1 || got[0].State != notifier.StatePending {
			w.Errorf("swept %+v, want one that is due again", got)
		}
	}},
}
