package delivery

import (
	"context"
	"slices"
	"time"

	"github.com/seed-4b260dfd/notifier"
)

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
		sleep, again, err := e.turn(ctx, a)
		switch {
		case err != nil:
			// Whoever wakes this account meanwhile wakes it for a ledger that has
			// just refused: it is given time.
			timer.Reset(leaseRefused)
			select {
			case <-timer.C:
			case <-ctx.Done():
				return
			}
			continue
		case again:
			continue
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

// turn leases once, as far as the account may be leased for, and says whether
// to go on at once or for how long there is nothing to do.
func (e *Engine) turn(ctx context.Context, a *account) (sleep time.Duration, again bool, err error) {
	if ctx.Err() != nil || e.unwritten.Load() > 0 || e.pauses.stale(readClocks()) {
		return pollEvery, false, nil
	}
	all, probe, wait := a.breaker.admits(time.Now())
	switch {
	case probe:
		return e.probe(ctx, a)
	case !all:
		return min(wait, pollEvery), false, nil
	}
	p, n, sleep := a.next()
	if n == 0 {
		if s := a.lacking(); s != nil {
			e.refill(ctx, a, s)
			return 0, true, nil
		}
		return sleep, false, nil
	}
	return 0, true, e.leaseInto(ctx, a, p, n)
}

// leaseInto leases up to n deliveries of a lane and starts them.
func (e *Engine) leaseInto(ctx context.Context, a *account, p notifier.Priority, n int) error {
	leased, since, err := e.lease(a, p, n)
	if err != nil {
		a.fill(p, n, 0)
		return err
	}
	for i := range leased {
		e.start(newWork(e, a, &leased[i], since))
	}
	a.fill(p, n, len(leased))
	return nil
}

// lease leases into slots that have been taken. The lease's clock starts before the ledger is asked: too early, never
// too late.
func (e *Engine) lease(a *account, p notifier.Priority, n int) (leased []notifier.Leased, since reading, err error) {
	faultPoint(leaseBefore, nil)
	since = readClocks()
	ctx, cancel := write()
	defer cancel()
	leased, err = e.cfg.Ledger.Lease(ctx, notifier.Lane{Channel: a.kind, Account: a.name, Priority: p}, n, e.owner)
	if err != nil {
		// If it was written after all, the sweep returns the leases.
		e.log.Error("lease", "channel", string(a.kind), "account", a.name, "err", err)
		a.dueIn(p, leaseRefused)
		return nil, since, err
	}
	if len(leased) > n {
		e.asserts.fail(assertUnasked, leased[n].Hold())
	}
	for i := range leased {
		faultPoint(leaseAfter, &leased[i].Delivery)
	}
	return leased, since, nil
}

// start runs one attempt in a slot that is already taken, and frees the slot.
func (e *Engine) start(w *work) {
	e.inFlight.Go(func() {
		l := w.lease
		defer w.account.release(l.Lane.Priority)
		defer w.endProbe()
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
