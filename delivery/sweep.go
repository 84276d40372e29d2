package delivery

import (
	"context"
	"fmt"
	"time"

	"github.com/seed-4b260dfd/notifier"
	"github.com/seed-4b260dfd/notifier/caps"
	"github.com/seed-4b260dfd/notifier/claims"
)

const (
	sweepEvery = time.Second
	sweepBatch = 500
)

// recover readies the ledger before the first lease: the leases of the dead
// are closed by their order, and the caps learn what has reached whom. In that
// order, since what the sweep calls unknown counts.
func (e *Engine) recover(ctx context.Context) error {
	if err := e.sweep(ctx, e.cfg.SoleOwner); err != nil {
		return err
	}
	if !e.cfg.SoleOwner {
		return nil // the store has its caps, or storeLoop fills them
	}
	filled := 0
	longest := e.longestWindow()
	if longest == 0 {
		return nil
	}
	err := e.cfg.Ledger.Spent(ctx, time.Now().Add(-longest), func(s notifier.Spent) error {
		filled++
		c := caps.Cap{Name: s.Cap.Name, Key: s.Cap.Key, Slot: s.Cap.Slot, Limit: s.Cap.Limit, Window: s.Cap.Window}
		return e.cfg.Caps.Fill(ctx, c, s.Unit, s.Holder.String(), s.SpentAt)
	})
	if err != nil {
		return fmt.Errorf("fill the caps: %w", err)
	}
	if filled > 0 {
		e.log.Info("caps filled from the ledger", "units", filled)
	}
	return nil
}

// maxWindow bounds how far back the caps are filled when a type that had a cap
// is no longer loaded.
const maxWindow = 31 * 24 * time.Hour

// longestWindow is the longest window of a cap that a delivery may be held to.
func (e *Engine) longestWindow() time.Duration {
	longest := time.Duration(0)
	for _, t := range e.cfg.Policies.Types() {
		for _, c := range e.cfg.Policies.Policy(t).Caps {
			longest = max(longest, c.Window)
		}
	}
	return min(longest, maxWindow)
}

// sweepLoop closes lapsed leases and ends what has expired, every second.
func (e *Engine) sweepLoop(ctx context.Context) {
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for {
		if err := e.sweep(ctx, false); err != nil && ctx.Err() == nil {
			e.log.Error("sweep", "err", err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

func (e *Engine) sweep(ctx context.Context, all bool) error {
	for {
		swept, err := e.cfg.Ledger.Sweep(ctx, sweepBatch, all)
		if err != nil {
			return fmt.Errorf("sweep the leases: %w", err)
		}
		for i := range swept {
			e.swept(ctx, &swept[i])
		}
		if len(swept) < sweepBatch {
			break
		}
	}
	for {
		expired, err := e.cfg.Ledger.Expire(ctx, sweepBatch)
		if err != nil {
			return fmt.Errorf("end what has expired: %w", err)
		}
		for i := range expired {
			s := &expired[i]
			e.finished(s.Type, s.Lane.Channel, s.ID.Notification, s.State, s.Reason)
		}
		if len(expired) < sweepBatch {
			return nil
		}
	}
}

// swept takes note of one lapsed lease or permit.
func (e *Engine) swept(ctx context.Context, s *notifier.Swept) {
	e.metrics.leasesLapsed.WithLabelValues(s.Type, string(s.Order)).Inc()
	e.log.Warn("a lease lapsed", "delivery", s.ID.String(), "fence", s.Fence, "state", string(s.State), "reason", string(s.Reason))
	if s.Repeats {
		e.metrics.possibleRepeats.WithLabelValues(s.Type, string(s.Lane.Channel), causeLeaseLapsed).Inc()
	}
	if !s.State.Finished() {
		if a := e.accounts[accountKey{s.Lane.Channel, s.Lane.Account}]; a != nil {
			a.dueAt(s.Lane.Priority, time.Now())
		}
		return
	}
	if s.Order == notifier.OrderClaimFirst && s.State == notifier.StateUnknown {
		// The witness learns it too: should the ledger go back in time, this
		// message is not sent a second time.
		c := claims.Claim{Key: s.EffectKey, Fence: s.Fence, Owner: string(e.owner)}
		// As a debt: a store that does not answer must not hold up the sweep. The
		// claim that was held since the permit says as much for a while.
		e.debts.add(c, notifier.OutcomeUnknown, true, s.Tombstone)
		if !e.store.down() {
			e.pay(ctx, c)
		}
	}
	e.finished(s.Type, s.Lane.Channel, s.ID.Notification, s.State, s.Reason)
}

// finished counts a delivery's end and wakes who waits for it.
func (e *Engine) finished(typ string, ch notifier.Channel, id notifier.ID, s notifier.State, r notifier.Reason) {
	if !s.Finished() {
		return
	}
	e.metrics.finished.WithLabelValues(typ, string(ch), string(s), string(r)).Inc()
	e.waiters.wake(id)
}
