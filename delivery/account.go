package delivery

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed-4b260dfd/notifier"
	"github.com/seed-4b260dfd/notifier/channels"
)

// account hands out the slots of one account: a call in flight each. Slots are
// filled one by one as they come free; nothing waits for a batch to end.
type account struct {
	kind    notifier.Channel
	name    string
	channel channels.Channel
	slots   int
	wake    chan struct{}
	// room holds a token for each permit that was asked for and whose call has
	// not passed its gate: what a crash turns into unknowns that were never sent.
	room chan struct{}

	// paused says that a pause holds for all that this account could send.
	paused  atomic.Bool
	breaker breaker
	budget  budget
	brake   brake

	mu sync.Mutex
	// pace is nil for an account without a limit of calls a second.
	pace *pace
	// lacks is what of it the dispatcher is to ask for.
	lacks *sequence
	// used counts the slots taken by each priority.
	used map[notifier.Priority]int
	// due is when each lane should next be looked at; no entry: nothing is
	// known to wait there.
	due map[notifier.Priority]time.Time
}

func newAccount(kind notifier.Channel, name string, a Account) *account {
	slots := a.MaxInFlight
	if slots <= 0 {
		slots = DefaultMaxInFlight
	}
	return &account{
		kind: kind, name: name, channel: a.Channel, slots: slots,
		wake:    make(chan struct{}, 1),
		room:    make(chan struct{}, permitBatch),
		breaker: breaker{Breaker: a.Breaker}, budget: budget{share: a.RetryBudget},
		pace: newPace(string(kind)+"/"+name, a.MaxPerSecond),
		used: map[notifier.Priority]int{}, due: map[notifier.Priority]time.Time{},
	}
}

// poke has the dispatcher look again.
func (a *account) poke() {
	select {
	case a.wake <- struct{}{}:
	default:
	}
}

// dueAt notes that a lane has something due at t.
func (a *account) dueAt(p notifier.Priority, t time.Time) {
	a.mu.Lock()
	known, ok := a.due[p]
	if !ok || t.Before(known) {
		a.due[p] = t
	}
	a.mu.Unlock()
	if !ok || t.Before(known) {
		a.poke()
	}
}

func (a *account) dueIn(p notifier.Priority, d time.Duration) { a.dueAt(p, time.Now().Add(d)) }

// spare is how many slots are free, whoever may take them.
func (a *account) spare() int {
	free := a.slots
	for _, n := range a.used {
		free -= n
	}
	return free
}

// free is how many slots a lane may take now. High has a quarter of the slots
// to itself; every lane below it that has something due keeps an eighth, so
// that none starves.
func (a *account) free(p notifier.Priority, now time.Time) int {
	free := a.spare()
	if a.slots < 4 {
		return free
	}
	for _, other := range notifier.Priorities {
		if other == p {
			continue
		}
		keep := 0
		switch t, waits := a.due[other]; {
		case other == notifier.PriorityHigh:
			keep = a.slots / 4
		case waits && !t.After(now):
			keep = max(1, a.slots/8)
		}
		free -= max(0, keep-a.used[other])
	}
	return free
}

// reserve takes a slot for a delivery that is being accepted, when one is free
// and nothing older waits in its lane.
func (a *account) reserve(p notifier.Priority) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := time.Now()
	if t, waits := a.due[p]; waits && !t.After(now) {
		return false
	}
	if a.breaker.shut(now) || a.free(p, now) < 1 {
		return false
	}
	if a.pace != nil {
		if a.pace.ready(p, now) < 1 {
			return false
		}
		a.pace.use(p, 1, now)
	}
	a.used[p]++
	return true
}

// release frees a slot.
func (a *account) release(p notifier.Priority) {
	a.mu.Lock()
	a.used[p]--
	waits := len(a.due) > 0
	a.mu.Unlock()
	if waits {
		a.poke()
	}
}

// hasRoom reports whether a slot is free, and nothing holds it so.
func (a *account) hasRoom() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.spare() > 0 && !a.paused.Load() && !a.breaker.shut(time.Now())
}

// next takes slots for the first lane that has something due, and reports how
// many: the caller leases as much and gives back what it did not fill. With
// nothing to lease it returns when to look again. It is for an account whose
// breaker admits everything.
func (a *account) next() (p notifier.Priority, slots int, sleep time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := time.Now()
	sleep = pollEvery
	if a.paused.Load() {
		return "", 0, sleep
	}
	for _, p := range a.order(now) {
		t, waits := a.due[p]
		if !waits {
			continue
		}
		if t.After(now) {
			sleep = min(sleep, t.Sub(now))
			continue
		}
		n := a.free(p, now)
		if n > 0 && a.pace != nil {
			if n = min(n, a.pace.ready(p, now), a.pace.most(p)); n == 0 {
				sleep = min(sleep, a.starve(p, now))
			}
		}
		if n > 0 {
			// Forgotten before the ledger is asked: what becomes due meanwhile
			// notes itself again.
			delete(a.due, p)
			a.used[p] += n
			if a.pace != nil {
				a.pace.use(p, n, now)
			}
			return p, n, 0
		}
	}
	return "", 0, sleep
}

// order is the order in which the lanes are looked at. Where calls are counted by
// the second, one that has waited through many calls of those above goes first.
func (a *account) order(now time.Time) [len(notifier.Priorities)]notifier.Priority {
	lanes := notifier.Priorities
	if a.pace == nil {
		return lanes
	}
	first := a.pace.first(func(p notifier.Priority) bool { return a.waits(p, now) })
	if i := slices.Index(lanes[:], first); i > 0 {
		copy(lanes[1:i+1], lanes[:i])
		lanes[0] = first
	}
	return lanes
}

func (a *account) waits(p notifier.Priority, now time.Time) bool {
	t, waits := a.due[p]
	return waits && !t.After(now)
}

// starve notes which slots a lane lacks that has none ready, and says how long
// to wait for those that it has.
func (a *account) starve(p notifier.Priority, now time.Time) time.Duration {
	if a.lacks == nil {
		a.lacks = a.pace.wants(p, now)
	}
	return a.pace.wait(p, now)
}

// lacking returns what is to be asked for, once.
func (a *account) lacking() *sequence {
	a.mu.Lock()
	defer a.mu.Unlock()
	s := a.lacks
	a.lacks = nil
	return s
}

// pacedProbe uses a slot for a probe, or says how long to wait for one.
func (a *account) pacedProbe(now time.Time) (wait time.Duration, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.pace == nil:
		return 0, true
	case a.pace.ready(notifier.PriorityHigh, now) == 0:
		return a.starve(notifier.PriorityHigh, now), false
	}
	a.pace.use(notifier.PriorityHigh, 1, now)
	return 0, true
}

// waiting returns the lanes that have something due, the highest first, and how
// long there is nothing else to do.
func (a *account) waiting(now time.Time) (lanes []notifier.Priority, sleep time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	sleep = pollEvery
	for _, p := range notifier.Priorities {
		switch t, waits := a.due[p]; {
		case !waits:
		case t.After(now):
			sleep = min(sleep, t.Sub(now))
		default:
			lanes = append(lanes, p)
		}
	}
	return lanes, sleep
}

// takeUpTo takes slots for a lane to probe with, whoever they are kept for.
func (a *account) takeUpTo(p notifier.Priority, most int) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	n := max(0, min(a.spare(), most))
	if n > 0 {
		delete(a.due, p)
		a.used[p] += n
	}
	return n
}

// fill gives back the slots that a lease did not fill, and notes that more is
// due when it filled all of them.
func (a *account) fill(p notifier.Priority, asked, got int) { a.fillFor(p, asked, got, false) }

// fillFor is fill, also for a probe, which uses one slot of the pace whatever it leases.
func (a *account) fillFor(p notifier.Priority, asked, got int, probe bool) {
	a.mu.Lock()
	a.used[p] -= asked - got
	if a.pace != nil && !probe {
		// What was taken for nothing may be used yet, while its time lasts.
		a.pace.shared.move(got - asked)
		if now := time.Now(); got > 0 {
			a.pace.turns(p, got, func(p notifier.Priority) bool { return a.waits(p, now) })
		}
	}
	a.mu.Unlock()
	if got == asked {
		a.dueAt(p, time.Now())
	}
}
