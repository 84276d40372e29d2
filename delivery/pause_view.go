package delivery

import (
	"context"
	"errors"
	"time"

	"github.com/seed-4b260dfd/notifier"
)

// A delivery in a lane that is paused as a whole, or whose account makes no
// calls, is not touched, and its row says that it is due. Who reads it is told
// what it waits for.

// Notification reads a notification as the ledger does, with the pauses in force.
func (e *Engine) Notification(ctx context.Context, tenant string, id notifier.ID) (*notifier.Notification, error) {
	n, err := e.cfg.Ledger.Notification(ctx, tenant, id)
	if err != nil {
		return nil, unreadable(err)
	}
	e.showWaits(n)
	return n, nil
}

// ByKey reads a notification as the ledger does, with the pauses in force.
func (e *Engine) ByKey(ctx context.Context, tenant, key string) (*notifier.Notification, error) {
	n, err := e.cfg.Ledger.ByKey(ctx, tenant, key)
	if err != nil {
		return nil, unreadable(err)
	}
	e.showWaits(n)
	return n, nil
}

// unreadable is the caller's word for a ledger that could not be read.
func unreadable(err error) error {
	if own := (*notifier.Error)(nil); errors.As(err, &own) {
		return err
	}
	return &notifier.Error{Code: notifier.CodeLedgerUnavailable, Err: err, Message: "the ledger cannot be read now; ask again"}
}

// showWaits marks what would be attempted now and is not. When what it waits for
// has no end that is known, the next attempt has no time either.
func (e *Engine) showWaits(n *notifier.Notification) {
	for i := range n.Deliveries {
		if d := &n.Deliveries[i]; d.State == notifier.StatePending {
			e.showHold(d)
		}
	}
	if len(e.pauses.list()) == 0 {
		return
	}
	for i := range n.Deliveries {
		d := &n.Deliveries[i]
		if d.State != notifier.StatePending || !startable(d.Reason) && d.Reason != notifier.ReasonPaused {
			continue
		}
		until, paused := e.pauses.hold(&notifier.Delivery{
			Tenant: n.Tenant, Type: n.Type, Order: n.Order, Lane: notifier.Lane{Channel: d.Channel, Account: d.Account},
		})
		if !paused {
			continue
		}
		d.Reason, d.NextAttemptAt = notifier.ReasonPaused, nil
		if !until.IsZero() {
			d.NextAttemptAt = &until
		}
	}
}

// startable reports whether a delivery with a reason waits for nothing else
// than its account.
func startable(r notifier.Reason) bool {
	return r == notifier.ReasonDue || r == notifier.ReasonBreaker || r == notifier.ReasonBadCredentials
}

// showHold marks a delivery whose time has come and whose account makes no
// calls, as this node sees it.
func (e *Engine) showHold(d *notifier.DeliveryState) {
	a := e.accounts[accountKey{d.Channel, d.Account}]
	if a == nil {
		return
	}
	now := time.Now()
	why, until := a.breaker.hold(now)
	if why == notifier.ReasonNone || !startable(d.Reason) && (d.NextAttemptAt == nil || d.NextAttemptAt.After(now)) {
		return
	}
	d.Reason, d.NextAttemptAt = why, nil
	if !until.IsZero() {
		d.NextAttemptAt = &until
	}
}

// Backlog counts as the ledger does. What is due on a channel none of whose
// accounts makes calls waits for what they wait for; on one with some that do,
// the ledger counts what it has not handed out as due.
func (e *Engine) Backlog(ctx context.Context) ([]notifier.Backlog, error) {
	list, err := e.cfg.Ledger.Backlog(ctx)
	if err != nil {
		return nil, err
	}
	type bucket struct {
		channel notifier.Channel
		reason  notifier.Reason
	}
	var out []notifier.Backlog
	waiting := map[bucket]int{}
	held := e.heldChannels(time.Now())
	for _, b := range list {
		why := held[b.Channel]
		if why == notifier.ReasonNone || b.State != notifier.StatePending || !startable(b.Reason) && b.Reason != why {
			out = append(out, b)
			continue
		}
		waiting[bucket{b.Channel, why}] += b.Count
	}
	for k, n := range waiting {
		out = append(out, notifier.Backlog{Channel: k.channel, State: notifier.StatePending, Reason: k.reason, Count: n})
	}
	return out, nil
}

// heldChannels are the channels none of whose accounts is leased for, with what they
// wait for: a breaker rather than a pause.
func (e *Engine) heldChannels(now time.Time) map[notifier.Channel]notifier.Reason {
	held, running := map[notifier.Channel]notifier.Reason{}, map[notifier.Channel]bool{}
	for key, a := range e.accounts {
		why, _ := a.breaker.hold(now)
		switch {
		case why != notifier.ReasonNone:
			held[key.channel] = why
		case a.paused.Load():
			if held[key.channel] == notifier.ReasonNone {
				held[key.channel] = notifier.ReasonPaused
			}
		default:
			running[key.channel] = true
		}
	}
	for ch := range running {
		delete(held, ch)
	}
	return held
}

// Unknowns counts as the ledger does.
func (e *Engine) Unknowns(ctx context.Context) ([]notifier.Unknowns, error) {
	return e.cfg.Ledger.Unknowns(ctx)
}
