package ledgertest

import (
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/seed-4b260dfd/notifier"
)

// unit is the cap unit that the suite's deliveries take with an attempt.
func unit(l *notifier.Leased, n int, at time.Time) notifier.Spent {
	return notifier.Spent{
		Cap: l.Terms.Caps[0], Unit: notifier.CapUnit(l.ID.Notification, l.Lane.Channel, n), Holder: l.ID, SpentAt: at,
	}
}

func (w *world) wantSpent(since time.Time, want ...notifier.Spent) {
	w.Helper()
	got := w.spent(since)
	slices.SortFunc(got, func(a, b notifier.Spent) int {
		if d := a.SpentAt.Compare(b.SpentAt); d != 0 {
			return d
		}
		return strings.Compare(a.Holder.String()+a.Unit, b.Holder.String()+b.Unit)
	})
	diff(w, "spent", got, want)
}

var spentRows = []row{
	{"every attempt that may have arrived, numbered", func(w *world) {
		l := w.leased(sendFirst)
		first := w.clock.Now()
		w.pass(time.Second)
		started := w.clock.Now()
		b := lost(l.Hold())
		b.Attempt.StartedAt = started
		w.giveBack(me, b)
		w.pass(time.Second)
		w.giveBack(me, refused(w.hold(me))) // takes no unit
		w.pass(time.Second)
		l = w.again(me)
		w.pass(time.Second)
		c := w.sent(l.Hold())
		w.complete(me, c)
		w.wantSpent(first, unit(&l, 1, started), unit(&l, 2, c.Attempt.StartedAt))
		w.wantSpent(started.Add(time.Microsecond), unit(&l, 2, c.Attempt.StartedAt))
		w.wantSpent(w.clock.Now().Add(time.Second))
	}},
	{"a lapsed send-first lease and a lost permit, at the time of the lease", func(w *world) {
		w.accept(w.intent("s", sendFirst, 1), w.intent("c", claimFirst, 1))
		l := w.lease(2, me)
		at := w.clock.Now()
		w.permit(me, l[1].Hold())
		w.pass(leaseFor)
		w.sweep(false)
		w.wantSpent(at, unit(&l[0], 1, at), unit(&l[1], 1, at))
	}},
	{"what may be on the wire", func(w *world) {
		l := w.leased(sendFirst)
		w.wantSpent(w.clock.Now(), unit(&l, 1, w.clock.Now()))
	}},
	{"of claim-first, only what has a permit", func(w *world) {
		l := w.leased(claimFirst)
		w.wantSpent(w.clock.Now()) // counted now, it would be let through later though the cap is full
		w.permit(me, l.Hold())
		w.wantSpent(w.clock.Now(), unit(&l, 1, w.clock.Now()))
	}},
	{"not what provably sent nothing", func(w *world) {
		l := w.leased(claimFirst)
		w.pass(leaseFor)
		w.sweep(false)
		l = w.again(me)
		w.permit(me, l.Hold())
		w.complete(me, notifier.Completion{Hold: l.Hold(), State: notifier.StateRejected, Reason: notifier.ReasonRefused, Called: true,
			Attempt: notifier.Attempt{Outcome: notifier.OutcomeRejected}})
		w.wantSpent(time.Time{})
	}},
	{"not of deliveries without a cap, and one for each cap of the others", func(w *world) {
		free, two := w.intent("free", sendFirst, 1), w.intent("two", sendFirst, 1)
		free.Deliveries[0].Terms.Caps = nil
		second := notifier.Cap{Name: "all", Key: "everything", Limit: 9, Window: time.Minute, Then: notifier.CapDefer}
		two.Deliveries[0].Terms.Caps = append(two.Deliveries[0].Terms.Caps, second)
		w.accept(free, two)
		for _, l := range w.lease(2, me) {
			w.complete(me, w.sent(l.Hold()))
		}
		got := w.spent(time.Time{})
		if len(got) != 2 || got[0].Cap == got[1].Cap || got[0].Unit != got[1].Unit {
			w.Errorf("got %+v, want one unit of each of two caps", got)
		}
	}},
	{"addresses of one channel share a unit", func(w *world) {
		w.accept(w.intent("k", sendFirst, 2))
		for _, l := range w.lease(2, me) {
			w.complete(me, w.sent(l.Hold()))
		}
		got := w.spent(time.Time{})
		if len(got) != 2 || got[0].Unit != got[1].Unit || got[0].Holder == got[1].Holder {
			w.Errorf("got %+v, want one unit with two holders", got)
		}
	}},
	{"an error of yield ends the walk", func(w *world) {
		w.accept(w.intent("k", sendFirst, 2))
		for _, l := range w.lease(2, me) {
			w.complete(me, w.sent(l.Hold()))
		}
		stop, calls := errors.New("stop"), 0
		err := w.l.Spent(w.ctx, time.Time{}, func(notifier.Spent) error {
			calls++
			return stop
		})
		if !errors.Is(err, stop) || calls != 1 {
			w.Errorf("got %v after %d calls, want stop after 1", err, calls)
		}
	}},
}
