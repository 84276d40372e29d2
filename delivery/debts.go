package delivery

import (
	"context"
	"sync"
	"time"

	"github.com/seed-4b260dfd/notifier"
	"github.com/seed-4b260dfd/notifier/claims"
)

// debts are words that the store of claims did not take: claims to be given
// back, tombstones to be left. They are said again once it answers, because a
// claim that nobody gives back holds up the next attempt for its whole life.
//
// They are in memory, bounded, and worth what a process is: one that dies, or
// owes too much, leaves its claims to end by themselves.
type debts struct {
	mu   sync.Mutex
	owed map[claims.Claim]debt
}

type debt struct {
	// outcome is the tombstone's; without one the claim is given back.
	outcome string
	// until is when the claim or the tombstone would have ended anyhow.
	until time.Time
}

const (
	// maxDebts bounds the memory: some megabytes.
	maxDebts = 20_000
	debtsPay = time.Second
)

// add notes a word that was not taken. A tombstone is never forgotten for a
// claim that is to be given back.
func (d *debts) add(c claims.Claim, outcome notifier.Outcome, settle bool, lasts time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	owes := debt{until: time.Now().Add(lasts)}
	if settle {
		owes.outcome = outcome.String()
	}
	was, known := d.owed[c]
	switch {
	case known && was.outcome != "" && !settle:
		return
	case !known && len(d.owed) >= maxDebts:
		return
	case d.owed == nil:
		d.owed = map[claims.Claim]debt{}
	}
	d.owed[c] = owes
}

func (d *debts) find(c claims.Claim) (debt, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	owes, ok := d.owed[c]
	return owes, ok
}

// all is what is owed now, without what has ended by itself.
func (d *debts) all() map[claims.Claim]debt {
	d.mu.Lock()
	defer d.mu.Unlock()
	now, all := time.Now(), make(map[claims.Claim]debt, len(d.owed))
	for c, owes := range d.owed {
		if owes.until.After(now) {
			all[c] = owes
		} else {
			delete(d.owed, c)
		}
	}
	return all
}

// paid forgets a debt, unless another word has taken its place meanwhile.
func (d *debts) paid(c claims.Claim, was debt) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.owed[c] == was {
		delete(d.owed, c)
	}
}

// pay says again what is owed for a claim, and reports whether something was
// and the store took it.
func (e *Engine) pay(ctx context.Context, c claims.Claim) bool {
	owes, ok := e.debts.find(c)
	if !ok {
		return false
	}
	ctx, cancel := e.aside(ctx)
	defer cancel()
	var err error
	if left := time.Until(owes.until); owes.outcome == "" {
		err = e.cfg.Claims.Release(ctx, c)
	} else if left > 0 {
		err = e.cfg.Claims.Settle(ctx, c, owes.outcome, left)
	}
	e.store.note(err)
	if err == nil {
		e.debts.paid(c, owes)
	}
	return err == nil
}

// debtLoop pays every second, until ctx ends; then once more, as far as that
// goes without waiting for a store that is away.
func (e *Engine) debtLoop(ctx context.Context) {
	tick := time.NewTicker(debtsPay)
	defer tick.Stop()
	for ended := false; !ended; {
		select {
		case <-tick.C:
		case <-ctx.Done():
			ended = true
		}
		for c := range e.debts.all() {
			e.pay(context.WithoutCancel(ctx), c)
			if e.store.down() {
				break
			}
		}
	}
}
