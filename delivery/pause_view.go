package delivery

import (
	"context"
	"errors"

	"github.com/seed-4b260dfd/notifier"
)

// A delivery in a lane that is paused as a whole is not touched, and its row
// says that it is due. Who reads it is told that it is paused.

// Notification reads a notification as the ledger does, with the pauses in force.
func (e *Engine) Notification(ctx context.Context, tenant string, id notifier.ID) (*notifier.Notification, error) {
	n, err := e.cfg.Ledger.Notification(ctx, tenant, id)
	if err != nil {
		return nil, unreadable(err)
	}
	e.showPauses(n)
	return n, nil
}

// ByKey reads a notification as the ledger does, with the pauses in force.
func (e *Engine) ByKey(ctx context.Context, tenant, key string) (*notifier.Notification, error) {
	n, err := e.cfg.Ledger.ByKey(ctx, tenant, key)
	if err != nil {
		return nil, unreadable(err)
	}
	e.showPauses(n)
	return n, nil
}

// unreadable is the caller's word for a ledger that could not be read.
func unreadable(err error) error {
	if own := (*notifier.Error)(nil); errors.As(err, &own) {
		return err
	}
	return &notifier.Error{Code: notifier.CodeLedgerUnavailable, Err: err, Message: "the ledger cannot be read now; ask again"}
}

// showPauses marks what would be attempted now and is not. When the pause has
// no end the next attempt has no time either.
func (e *Engine) showPauses(n *notifier.Notification) {
	if len(e.pauses.list()) == 0 {
		return
	}
	for i := range n.Deliveries {
		d := &n.Deliveries[i]
		if d.State != notifier.StatePending || d.Reason != notifier.ReasonDue && d.Reason != notifier.ReasonPaused {
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

// Backlog counts as the ledger does. The backlog of a channel all of whose
// accounts are paused is paused; of one with some accounts paused the ledger
// counts what it has not handed out as due.
func (e *Engine) Backlog(ctx context.Context) ([]notifier.Backlog, error) {
	list, err := e.cfg.Ledger.Backlog(ctx)
	if err != nil || len(e.pauses.list()) == 0 {
		return list, err
	}
	open := map[notifier.Channel]bool{}
	for key, a := range e.accounts {
		open[key.channel] = open[key.channel] || !a.paused.Load()
	}
	var out []notifier.Backlog
	paused := map[notifier.Channel]int{}
	for _, b := range list {
		running, configured := open[b.Channel]
		if running || !configured || b.State != notifier.StatePending {
			out = append(out, b)
			continue
		}
		if b.Reason == notifier.ReasonDue || b.Reason == notifier.ReasonPaused {
			paused[b.Channel] += b.Count
			continue
		}
		out = append(out, b)
	}
	for ch, n := range paused {
		out = append(out, notifier.Backlog{Channel: ch, State: notifier.StatePending, Reason: notifier.ReasonPaused, Count: n})
	}
	return out, nil
}

// Unknowns counts as the ledger does.
func (e *Engine) Unknowns(ctx context.Context) ([]notifier.Unknowns, error) {
	return e.cfg.Ledger.Unknowns(ctx)
}
