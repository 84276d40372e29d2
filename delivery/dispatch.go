package delivery

import (
	"context"
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
	paused atomic.Bool

	mu sync.Mutex
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
		wake: make(chan struct{}, 1),
		room: make(chan struct{}, permitBatch),
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

// free is how many slots a lane may take now. High has a quarter of the slots
// to itself; every lane below it that has something due keeps an eighth, so
// that none starves.
func (a *account) free(p notifier.Priority, now time.Time) int {
	total := 0
	for _, n := range a.used {
		total += n
	}
	free := a.slots - total
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
	if a.free(p, now) < 1 {
		return false
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

// hasRoom reports whether a slot is free, and no pause holds it so.
func (a *account) hasRoom() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	used := 0
	for _, n := range a.used {
		used += n
	}
	return used < a.slots && !a.paused.Load()
}

// next takes slots for the first lane that has something due, and reports how
// many: the caller leases as much and gives back what it did not fill. With
// nothing to lease it returns when to look again.
func (a *account) next() (p notifier.Priority, slots int, sleep time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := time.Now()
	sleep = pollEvery
	if a.paused.Load() {
		return "", 0, sleep
	}
	for _, p := range notifier.Priorities {
		t, waits := a.due[p]
		if !waits {
			continue
		}
		if t.After(now) {
			sleep = min(sleep, t.Sub(now))
			continue
		}
		if n := a.free(p, now); n > 0 {
			// Forgotten before the ledger is asked: what becomes due meanwhile
			// notes itself again.
			delete(a.due, p)
			a.used[p] += n
			return p, n, 0
		}
	}
	return "", 0, sleep
}

// fill gives back the slots that a lease did not fill, and notes that more is
// due when it filled all of them.
func (a *account) fill(p notifier.Priority, asked, got int) {
	a.mu.Lock()
	a.used[p] -= asked - got
	a.mu.Unlock()
	if got == asked {
		a.dueAt(p, time.Now())
	}
}

// pollEvery is how often the ledger is asked what is due, beside what this
// process knows from its own acceptances and returns.
const pollEvery = time.Second

// pollSoon is how often it is asked while it had something due that this
// process has slots for: another node accepts more than it can send, and what
// it accepts next would wait here for the rest of the second.
const pollSoon = 150 * time.Millisecond

// leaseRefused is how long a lane waits after a lease that failed.
const leaseRefused = 200 * time.Millisecond

// dispatch leases for one account as slots come free, until ctx ends.
func (e *Engine) dispatch(ctx context.Context, a *account) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		sleep := pollEvery
		if e.unwritten.Load() == 0 && !e.pauses.stale(readClocks()) {
			var p notifier.Priority
			var n int
			if p, n, sleep = a.next(); n > 0 && ctx.Err() == nil {
				if err := e.leaseInto(ctx, a, p, n); err == nil {
					continue
				}
				// Whoever wakes this account meanwhile wakes it for a ledger
				// that has just refused: it is given time.
				timer.Reset(leaseRefused)
				select {
				case <-timer.C:
				case <-ctx.Done():
					return
				}
				continue
			} else if n > 0 {
				a.fill(p, n, 0)
			}
		}
		timer.Reset(sleep)
		select {
		case <-a.wake:
		case <-timer.C:
		case <-ctx.Done():
			return
		}
	}
}

// leaseInto leases up to n deliveries of a lane and starts them.
func (e *Engine) leaseInto(ctx context.Context, a *account, p notifier.Priority, n int) error {
	faultPoint(leaseBefore, nil)
	// The lease's clock starts before the ledger is asked: too early, never too late.
	since := readClocks()
	wctx, cancel := write()
	defer cancel()
	leased, err := e.cfg.Ledger.Lease(wctx, notifier.Lane{Channel: a.kind, Account: a.name, Priority: p}, n, e.owner)
	if err != nil {
		// If it was written after all, the sweep returns the leases.
		e.log.Error("lease", "channel", string(a.kind), "account", a.name, "err", err)
		a.fill(p, n, 0)
		a.dueIn(p, leaseRefused)
		return err
	}
	if len(leased) > n {
		e.asserts.fail(assertUnasked, leased[n].Hold())
	}
	for i := range leased {
		faultPoint(leaseAfter, &leased[i].Delivery)
		e.start(a, &leased[i], since)
	}
	a.fill(p, n, len(leased))
	return nil
}

// start runs one attempt in a slot that is already taken, and frees the slot.
func (e *Engine) start(a *account, l *notifier.Leased, since reading) {
	e.inFlight.Go(func() {
		defer a.release(l.Lane.Priority)
		w := newWork(e, a, l, since)
		// Not the context of Run: what has been begun is ended in order, and only
		// the call itself is cut off when draining takes too long.
		switch ctx := context.Background(); l.Order {
		case notifier.OrderClaimFirst:
			w.claimFirst(ctx)
		case notifier.OrderSendFirst:
			w.sendFirst(ctx)
		default:
			e.log.Error("unknown order", "delivery", l.ID.String(), "order", string(l.Order))
		}
	})
}

// pollLoop asks the ledger which lanes have something due: after a restart, for
// what other nodes accepted, and for whatever this process did not note itself.
func (e *Engine) pollLoop(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-ctx.Done():
			return
		}
		lanes, err := e.cfg.Ledger.Lanes(ctx)
		if err != nil && ctx.Err() == nil {
			e.log.Error("ask for the lanes", "err", err)
		}
		wait, now := pollEvery, time.Now()
		var orphans []string
		for lane, due := range lanes {
			a := e.accounts[accountKey{lane.Channel, lane.Account}]
			if a == nil {
				orphans = append(orphans, "account:"+string(lane.Channel)+"."+lane.Account)
				continue
			}
			if !e.cfg.SoleOwner && !due.After(now) && a.hasRoom() {
				wait = pollSoon
			}
			a.dueAt(lane.Priority, due)
		}
		if err == nil {
			e.orphaned(orphans)
		}
		timer.Reset(wait)
	}
}

// orphaned notes the accounts that deliveries wait for and that are not
// configured: they wait until the account is back or they expire.
func (e *Engine) orphaned(accounts []string) {
	slices.Sort(accounts)
	accounts = slices.Compact(accounts)
	if last := e.orphans.Swap(&accounts); len(accounts) > 0 && (last == nil || !slices.Equal(*last, accounts)) {
		e.log.Warn("deliveries wait for accounts that are not configured", "accounts", accounts)
	}
}
