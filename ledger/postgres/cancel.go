package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

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
	err := l.begin(ctx, func(tx pgx.Tx, now time.Time) error {
		out = nil
		theirs, ended, err := standing(ctx, tx, tenant, ids)
		if err != nil {
			return err
		}
		var open []notifier.DeliveryID
		for _, id := range ids {
			if theirs[id] {
				open = append(open, id)
			}
		}
		rows, err := l.lock(ctx, tx, open)
		if err != nil {
			return err
		}
		if err := lockLater(ctx, tx, open, rows); err != nil {
			return err
		}
		c := changes{l: l, now: now}
		for _, id := range open {
			out = append(out, c.cancel(id, rows[id], ended[id], reason))
			if h := rows[id]; h != nil && h.status == statusPending {
				delete(rows, id) // an id may stand twice
				ended[id] = notifier.StateCancelled
			}
		}
		return c.run(ctx, tx)
	})
	if err != nil {
		return nil, fmt.Errorf("cancel: %w", err)
	}
	return out, nil
}

// standing says which deliveries are the tenant's, and how those that are
// finished ended.
func standing(ctx context.Context, tx pgx.Tx, tenant string, ids []notifier.DeliveryID) (theirs map[notifier.DeliveryID]bool, ended map[notifier.DeliveryID]notifier.State, err error) {
	const find = `SELECT d.nid, d.ch, coalesce(o.state, '') FROM unnest($1::uuid[], $2::int[]) AS s(nid, ch)
		JOIN notification n ON n.nid = s.nid AND n.tenant = $3
		JOIN delivery d ON d.nid = s.nid AND d.ch = s.ch
		LEFT JOIN outcome o ON o.nid = s.nid AND o.ch = s.ch`
	nids, chs := split(ids)
	rows, err := tx.Query(ctx, find, nids, chs, tenant)
	if err != nil {
		return nil, nil, err
	}
	theirs, ended = make(map[notifier.DeliveryID]bool), make(map[notifier.DeliveryID]notifier.State)
	var nid [16]byte
	var id notifier.DeliveryID
	var state notifier.State
	_, err = pgx.ForEachRow(rows, []any{&nid, &id.Ordinal, &state}, func() error {
		id.Notification = nid
		theirs[id] = true
		if state != "" {
			ended[id] = state
		}
		return nil
	})
	return theirs, ended, err
}

func split(ids []notifier.DeliveryID) (nids [][16]byte, chs []int32) {
	for _, id := range ids {
		nids, chs = append(nids, id.Notification), append(chs, int32(id.Ordinal))
	}
	return nids, chs
}

// lockLater adds the rows of later, locked.
func lockLater(ctx context.Context, tx pgx.Tx, ids []notifier.DeliveryID, into map[notifier.DeliveryID]*held) error {
	const lock = `SELECT ` + laterColumns + ` FROM unnest($1::uuid[], $2::int[]) AS s(nid, ch)
		CROSS JOIN LATERAL (SELECT * FROM later WHERE later.nid = s.nid AND later.ch = s.ch FOR UPDATE) q`
	nids, chs := split(ids)
	rows, err := tx.Query(ctx, lock, nids, chs)
	if err != nil {
		return err
	}
	return collectHeld(rows, func(h *held) { into[h.id] = h })
}

func (c *changes) cancel(id notifier.DeliveryID, h *held, ended notifier.State, reason notifier.Reason) notifier.Cancelled {
	const flag = `UPDATE q SET cancel = CASE WHEN cancel = '' THEN $4 ELSE cancel END WHERE lane = $1 AND nid = $2 AND ch = $3`
	switch {
	case h == nil:
		return notifier.Cancelled{ID: id, State: ended}
	case h.status == statusPending, h.status == statusLeased && h.order == notifier.OrderClaimFirst:
		c.finish(h, ledger.ClosedCancel, notifier.StateCancelled, reason)
		h.status = statusPending // finished: not to be ended twice
		return notifier.Cancelled{ID: id, State: notifier.StateCancelled}
	}
	c.batch.Queue(flag, h.lane, [16]byte(id.Notification), id.Ordinal, reason)
	return notifier.Cancelled{ID: id, TooLate: true, State: notifier.StateSending}
}
