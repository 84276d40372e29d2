package ledgertest

import (
	"strconv"
	"sync"
	"time"

	"github.com/seed-4b260dfd/notifier"
)

var leaseRows = []row{
	{"a due delivery is leased whole, with fence, owner and time", func(w *world) {
		in := w.intent("k", claimFirst, 1)
		s := w.accept(in)[0]
		accepted := w.clock.Now()
		w.pass(time.Second)
		want := in.Deliveries[0]
		want.ID = notifier.DeliveryID{Notification: s.ID}
		want.Tenant, want.Key, want.Type, want.Recipient, want.Order = in.Tenant, in.Key, in.Type, in.Recipient, in.Order
		want.AcceptedAt, want.SendAt, want.ExpiresAt = accepted, accepted, in.ExpiresAt
		diff(w, "leased", w.again(me), notifier.Leased{Delivery: want, Fence: 1, LeasedAt: w.clock.Now()})
		d := w.state(want.ID)
		if d.State != notifier.StateSending || len(d.Attempts) != 1 || d.Attempts[0].Worker != string(me) || d.Attempts[0].Outcome != "" {
			w.Errorf("got %+v, want it sending, with an attempt of mine under way", d)
		}
	}},
	{"two deliveries keep their own rule for an unreachable store", func(w *world) {
		a, b := w.intent("a", sendFirst, 1), w.intent("b", sendFirst, 1)
		b.Deliveries[0].Terms.RedisDown = notifier.RedisDownWait
		w.accept(a, b)
		got := w.lease(2, me)
		if got[0].Terms.RedisDown != notifier.RedisDownProceed || got[1].Terms.RedisDown != notifier.RedisDownWait {
			w.Errorf("got %q and %q, want proceed and wait", got[0].Terms.RedisDown, got[1].Terms.RedisDown)
		}
	}},
	{"a leased delivery is not leased again", func(w *world) {
		w.leased(sendFirst)
		w.wantNone("leased deliveries", w.lease(10, you))
		w.pass(2 * leaseFor)
		w.wantNone("lapsed but unswept deliveries", w.lease(10, you))
	}},
	{"what is due first goes first, and older ids before newer", func(w *world) {
		var ids []notifier.ID
		for i, after := range []time.Duration{20 * time.Second, 10 * time.Second, 10 * time.Second, 0} {
			in := w.intent(strconv.Itoa(i), sendFirst, 1)
			in.SendAt = w.clock.Now().Add(after)
			ids = append(ids, w.accept(in)[0].ID)
		}
		w.pass(time.Minute)
		var got []notifier.ID
		for _, l := range append(w.lease(2, me), w.lease(10, me)...) {
			got = append(got, l.ID.Notification)
		}
		diff(w, "order", got, []notifier.ID{ids[3], ids[1], ids[2], ids[0]})
	}},
	{"at most the limit", func(w *world) {
		w.accept(w.intent("k", sendFirst, 5))
		if got := w.lease(3, me); len(got) != 3 {
			w.Errorf("leased %d, want 3", len(got))
		}
		w.wantNone("deliveries under a limit of 0", w.lease(0, me))
		if got := w.lease(3, me); len(got) != 2 {
			w.Errorf("leased %d, want the 2 that are left", len(got))
		}
	}},
	{"only of the lane", func(w *world) {
		others := []notifier.Lane{
			{Channel: notifier.ChannelEmail, Account: "shop", Priority: notifier.PriorityNormal},
			{Channel: notifier.ChannelAPNs, Account: "other", Priority: notifier.PriorityNormal},
			{Channel: notifier.ChannelAPNs, Account: "shop", Priority: notifier.PriorityBulk},
		}
		in := w.intent("k", sendFirst, len(others))
		for i := range others {
			in.Deliveries[i].Lane = others[i]
		}
		w.accept(in)
		w.wantNone("deliveries of other lanes", w.lease(10, me))
		for i, o := range others {
			got, err := w.l.Lease(w.ctx, o, 10, me)
			if err != nil || len(got) != 1 || int(got[0].ID.Ordinal) != i || got[0].Lane != o {
				w.Errorf("lane %v: got %+v, %v; want delivery %d", o, got, err, i)
			}
		}
	}},
	{"the fence grows over returns and sweeps", func(w *world) {
		l := w.leased(claimFirst)
		w.giveBack(me, notifier.Return{Hold: l.Hold()})
		if l = w.again(me); l.Fence != 2 {
			w.Errorf("got fence %d after a return, want 2", l.Fence)
		}
		w.pass(leaseFor)
		w.sweep(false)
		if l = w.again(you); l.Fence != 3 {
			w.Errorf("got fence %d after a sweep, want 3", l.Fence)
		}
	}},
	{"not past its expiry", func(w *world) {
		w.pending(sendFirst)
		w.pass(expiry)
		w.wantNone("expired deliveries", w.lease(10, me))
	}},
	{"not when cancelled", func(w *world) {
		w.cancel(w.pending(sendFirst))
		w.wantNone("cancelled deliveries", w.lease(10, me))
	}},
	{"counts of earlier attempts come along", func(w *world) {
		l := w.leased(sendFirst)
		w.giveBack(me, notifier.Return{Hold: l.Hold(), Try: true, Maybe: true, Fail: true, Record: true})
		l = w.again(me)
		w.giveBack(me, notifier.Return{Hold: l.Hold(), Fail: true})
		if l = w.again(me); l.Tries != 1 || l.Maybe != 1 || l.Fails != 2 {
			w.Errorf("got tries %d, maybe %d, fails %d; want 1, 1, 2", l.Tries, l.Maybe, l.Fails)
		}
	}},
	{"two leasers never share one", func(w *world) {
		for i := range 100 {
			w.accept(w.intent(strconv.Itoa(i), sendFirst, 1))
		}
		var mu sync.Mutex
		seen := map[notifier.DeliveryID]int{}
		var all sync.WaitGroup
		for i := range 4 {
			all.Go(func() {
				for {
					got, err := w.l.Lease(w.ctx, lane, 7, notifier.Owner(strconv.Itoa(i)))
					if err != nil {
						w.Errorf("lease: %v", err)
					}
					if len(got) == 0 {
						return
					}
					mu.Lock()
					for _, l := range got {
						seen[l.ID]++
					}
					mu.Unlock()
				}
			})
		}
		all.Wait()
		if len(seen) != 100 {
			w.Errorf("leased %d deliveries, want 100", len(seen))
		}
		for id, n := range seen {
			if n != 1 {
				w.Errorf("%v was leased %d times", id, n)
			}
		}
	}},
	{"lanes say when the first of each is due", func(w *world) {
		now := w.clock.Now()
		bulk := lane
		bulk.Priority = notifier.PriorityBulk
		high := lane
		high.Priority = notifier.PriorityHigh
		for i, x := range []struct {
			lane notifier.Lane
			at   time.Duration
		}{{lane, 0}, {bulk, time.Hour / 2}, {bulk, time.Minute}, {high, 0}} {
			in := w.intent(strconv.Itoa(i), sendFirst, 1)
			in.SendAt, in.Deliveries[0].Lane = now.Add(x.at), x.lane
			w.accept(in)
		}
		if _, err := w.l.Lease(w.ctx, high, 1, me); err != nil {
			w.Fatal(err)
		}
		got, err := w.l.Lanes(w.ctx)
		if err != nil {
			w.Fatal(err)
		}
		// All of high is leased: a sweep has to come before it is due.
		diff(w, "lanes", got, map[notifier.Lane]time.Time{
			lane: now, bulk: now.Add(time.Minute), high: now.Add(leaseFor + time.Second),
		})
	}},
	{"lanes without anything open are not listed", func(w *world) {
		l := w.leased(sendFirst)
		w.complete(me, w.sent(l.Hold()))
		if got, err := w.l.Lanes(w.ctx); err != nil || len(got) != 0 {
			w.Errorf("got %v, %v; want none", got, err)
		}
	}},
}

var renewRows = []row{
	{"a lease of mine lasts anew", func(w *world) {
		l := w.leased(sendFirst)
		w.pass(leaseFor - time.Second)
		if !w.renew(me, l.Hold()) {
			w.Error("refused")
		}
		w.pass(leaseFor - time.Second)
		if got := w.sweep(false); len(got) != 0 {
			w.Errorf("swept %+v, want none", got)
		}
		w.pass(time.Second)
		if got := w.sweep(false); len(got) != 1 {
			w.Errorf("swept %d, want 1", len(got))
		}
	}},
	{"a lapsed lease that was not swept is still mine", func(w *world) {
		l := w.leased(sendFirst)
		w.pass(2 * leaseFor)
		if !w.renew(me, l.Hold()) {
			w.Error("refused")
		}
		if got := w.sweep(false); len(got) != 0 {
			w.Errorf("swept %+v, want none", got)
		}
	}},
	{"not another's, another fence's, or one that was swept, returned or finished", func(w *world) {
		l := w.leased(sendFirst)
		if w.renew(you, l.Hold()) || w.renew(me, notifier.Hold{ID: l.ID, Fence: l.Fence + 1}) {
			w.Error("renewed what is not the caller's")
		}
		w.pass(leaseFor)
		w.sweep(false)
		if w.renew(me, l.Hold()) {
			w.Error("renewed a swept lease")
		}
		l = w.again(me)
		w.giveBack(me, notifier.Return{Hold: l.Hold()})
		if w.renew(me, l.Hold()) {
			w.Error("renewed a returned lease")
		}
		l = w.again(me)
		w.complete(me, w.sent(l.Hold()))
		if w.renew(me, l.Hold()) {
			w.Error("renewed a finished delivery's lease")
		}
	}},
	{"never a permit", func(w *world) {
		l := w.permitted()
		if w.renew(me, l.Hold()) {
			w.Error("renewed a permit")
		}
		w.pass(permitFor)
		if got := w.sweep(false); len(got) != 1 || got[0].State != notifier.StateUnknown {
			w.Errorf("swept %+v, want the permit", got)
		}
	}},
	{"each hold has its own answer", func(w *world) {
		w.accept(w.intent("k", sendFirst, 2))
		l := w.lease(2, me)
		got, err := w.l.Renew(w.ctx, me, []notifier.Hold{{ID: l[1].ID, Fence: 9}, l[0].Hold(), l[1].Hold()})
		if err != nil {
			w.Fatal(err)
		}
		diff(w, "answers", got, []bool{false, true, true})
	}},
}
