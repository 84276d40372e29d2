package delivery

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-4b260dfd/notifier"
)

func TestAccount_Free(t *testing.T) {
	t.Parallel()
	now := time.Now()
	due := func(p ...notifier.Priority) map[notifier.Priority]time.Time {
		m := map[notifier.Priority]time.Time{}
		for _, p := range p {
			m[p] = now
		}
		return m
	}
	const high, normal, bulk = notifier.PriorityHigh, notifier.PriorityNormal, notifier.PriorityBulk
	for _, tc := range []struct {
		name string
		used map[notifier.Priority]int
		due  map[notifier.Priority]time.Time
		lane notifier.Priority
		want int
	}{
		{"high alone takes all", nil, due(high), high, 16},
		{"a quarter is high's", nil, due(normal), normal, 12},
		{"what high uses of its quarter is not kept twice", map[notifier.Priority]int{high: 4}, due(normal), normal, 12},
		{"high leaves an eighth to a lane that waits", nil, due(high, normal), high, 14},
		{"and to each that does", nil, due(high, normal, bulk), high, 12},
		{"normal leaves bulk its eighth", nil, due(normal, bulk), normal, 10},
		{"bulk with its eighth in use is kept no more", map[notifier.Priority]int{bulk: 2}, due(normal, bulk), normal, 10},
		{"nothing is left", map[notifier.Priority]int{normal: 12}, due(normal), normal, 0},
		{"high still has its quarter", map[notifier.Priority]int{normal: 12}, due(high), high, 4},
	} {
		a := newAccount(notifier.ChannelAPNs, "shop", Account{MaxInFlight: 16})
		if tc.used != nil {
			a.used = tc.used
		}
		a.due = tc.due
		if got := a.free(tc.lane, now); got != tc.want {
			t.Errorf("%s: got %d, want %d", tc.name, got, tc.want)
		}
	}
}

func TestAccount_ReserveDoesNotOvertake(t *testing.T) {
	t.Parallel()
	a := newAccount(notifier.ChannelAPNs, "shop", Account{MaxInFlight: 8})
	if !a.reserve(notifier.PriorityNormal) {
		t.Fatal("got no slot of an idle account")
	}
	a.release(notifier.PriorityNormal)
	a.dueAt(notifier.PriorityNormal, time.Now().Add(-time.Second))
	if a.reserve(notifier.PriorityNormal) {
		t.Error("got a slot while something older waits in the lane")
	}
	if !a.reserve(notifier.PriorityHigh) {
		t.Error("got no slot in a lane where nothing waits")
	}
}

func TestAccount_NextSleepsUntilTheFirstDue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := newAccount(notifier.ChannelAPNs, "shop", Account{MaxInFlight: 8})
		if _, n, sleep := a.next(); n != 0 || sleep != pollEvery {
			t.Errorf("idle: got %d slots and %v, want none and %v", n, sleep, pollEvery)
		}
		a.dueIn(notifier.PriorityBulk, 300*time.Millisecond)
		if _, n, sleep := a.next(); n != 0 || sleep != 300*time.Millisecond {
			t.Errorf("scheduled: got %d slots and %v, want none and 300ms", n, sleep)
		}
		<-time.After(300 * time.Millisecond)
		p, n, _ := a.next()
		if p != notifier.PriorityBulk || n != 6 {
			t.Errorf("due: got %d slots for %s, want 6 for bulk: a quarter is high's", n, p)
		}
		a.fill(p, n, 2)
		if a.used[p] != 2 {
			t.Errorf("got %d slots in use after a lease of 2, want 2", a.used[p])
		}
		if _, n, _ := a.next(); n != 0 {
			t.Errorf("got %d slots for a lane that gave less than was asked, want none", n)
		}
		a.dueIn(p, 0)
		_, n, _ = a.next()
		a.fill(p, n, n)
		if _, known := a.due[p]; !known {
			t.Error("a lane that gave all that was asked is not looked at again")
		}
	})
}
