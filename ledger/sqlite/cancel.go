package sqlite

import (
	"context"
	"fmt"

	"github.com/seed-4b260dfd/notifier"
	"github.com/seed-4b260dfd/notifier/ledger"
)

// Cancel ends what is not on the wire (T9): what waits, and what is leased
// under claim-first, whose permit is then refused. The rest gets a flag that
// keeps it from being attempted again. There is one answer for each id of the
// tenant, in their order; ids that are not the tenant's have none.
func (l *Ledger) Cancel(ctx context.Context, tenant string, ids []notifier.DeliveryID, reason notifier.Reason) ([]notifier.Cancelled, error) {
	if reason == notifier.ReasonNone {
		return nil, fmt.Errorf("cancel: a reason is required")
	}
	if len(ids) == 0 {
		return nil, nil
	}
	var out []notifier.Cancelled
	err := l.write(ctx, func(w *writer) error {
		out = nil
		for _, id := range ids {
			c, err := w.cancel(tenant, id, reason)
			if err != nil {
				return fmt.Errorf("cancel %v: %w", id, err)
			}
			if c != nil {
				out = append(out, *c)
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

func (w *writer) cancel(tenant string, id notifier.DeliveryID, reason notifier.Reason) (*notifier.Cancelled, error) {
	const (
		theirs = `SELECT 1 FROM notification WHERE n = ? AND tenant = ?`
		ended  = `SELECT o.state FROM outcome o CROSS JOIN notification n ON n.n = o.d - o.ch WHERE o.nid = ? AND o.ch = ? AND n.tenant = ?`
		flag   = `UPDATE queue SET cancel = ? WHERE nid = ? AND ch = ? AND cancel = ''`
	)
	nid, ch := id.Notification[:], int64(id.Ordinal)
	h, err := w.find(id)
	if err != nil {
		return nil, err
	}
	if h == nil {
		r, err := w.first(ended, nid, ch, tenant)
		if err != nil || r == nil {
			return nil, err
		}
		return &notifier.Cancelled{ID: id, State: notifier.State(r.str(0))}, nil
	}
	if r, err := w.first(theirs, h.d-ch, tenant); err != nil || r == nil {
		return nil, err
	}
	if h.state == statePending || h.state == stateLeased && h.order == notifier.OrderClaimFirst {
		err := w.finish(h, ledger.ClosedCancel, notifier.StateCancelled, reason)
		return &notifier.Cancelled{ID: id, State: notifier.StateCancelled}, err
	}
	if _, err := w.exec(flag, string(reason), nid, ch); err != nil {
		return nil, err
	}
	return &notifier.Cancelled{ID: id, TooLate: true, State: notifier.StateSending}, nil
}
