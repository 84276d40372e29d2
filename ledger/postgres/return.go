package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/seed-4b260dfd/notifier"
	"github.com/seed-4b260dfd/notifier/ledger"
)

// lockSQL locks queue rows by their key.
const lockSQL = `SELECT ` + heldColumns + ` FROM unnest($1::smallint[], $2::uuid[], $3::int[]) AS s(lane, nid, ch)
	CROSS JOIN LATERAL (SELECT * FROM q WHERE q.lane = s.lane AND q.nid = s.nid AND q.ch = s.ch FOR UPDATE) q`

// Return hands leases back (T7), and with Unsent permits (T7'). A delivery
// whose attempts are used up, or that was cancelled meanwhile, ends by it. A
// permit that comes back without Unsent is refused as fenced: the sweep ends it.
//
// It is a new committed write that depends on the row, whatever became of the
// permit before: its acknowledgement says that the row stands as it was read,
// on a standby too.
func (l *Ledger) Return(ctx context.Context, owner notifier.Owner, back []notifier.Return) ([]notifier.Settled, error) {
	if len(back) == 0 {
		return nil, nil
	}
	out := make([]notifier.Settled, len(back))
	err := l.begin(ctx, func(tx pgx.Tx, now time.Time) error {
		ids := make([]notifier.DeliveryID, len(back))
		for i := range back {
			ids[i] = back[i].ID
		}
		rows, err := l.lock(ctx, tx, ids)
		if err != nil {
			return err
		}
		c := changes{l: l, now: now}
		for i := range back {
			h := rows[back[i].ID]
			if out[i], err = l.giveBack(ctx, tx, &c, owner, &back[i], h); err != nil {
				return fmt.Errorf("return %v: %w", back[i].ID, err)
			}
			if out[i].Verdict != notifier.VerdictFenced && out[i].Verdict != notifier.VerdictAlready {
				delete(rows, back[i].ID) // said twice in one batch, the second is already done
				if err := c.run(ctx, tx); err != nil {
					return fmt.Errorf("return %v: %w", back[i].ID, err)
				}
				c.batch = pgx.Batch{}
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("return: %w", err)
	}
	return out, nil
}

// lock locks the rows of deliveries that are in q, in the order of its key.
func (l *Ledger) lock(ctx context.Context, tx pgx.Tx, ids []notifier.DeliveryID) (map[notifier.DeliveryID]*held, error) {
	lanes, err := l.lookup(ctx, tx, ids)
	if err != nil {
		return nil, err
	}
	var c holdColumns
	for _, i := range keyOrder(lanes, ids) {
		if lanes[i] >= 0 {
			c.add(lanes[i], notifier.Hold{ID: ids[i]})
		}
	}
	rows, err := tx.Query(ctx, lockSQL, c.lane, c.nid, c.ch)
	if err != nil {
		return nil, err
	}
	out := make(map[notifier.DeliveryID]*held)
	return out, collectHeld(rows, func(h *held) { out[h.id] = h })
}

func (l *Ledger) giveBack(ctx context.Context, tx pgx.Tx, c *changes, owner notifier.Owner, b *notifier.Return, h *held) (notifier.Settled, error) {
	mine := h != nil && h.fence == b.Fence && h.owner == owner
	if !mine || h.status != statusLeased && (h.status != statusSending || !b.Unsent) {
		return l.returnedBefore(ctx, tx, owner, b.Hold, h)
	}
	h.tries += count(b.Try)
	h.maybe += count(b.Maybe)
	h.fails += count(b.Fail)
	if b.Record || b.Maybe { // what may have arrived is recorded in any case: caps are filled from it
		c.record(h, ledger.EndedReturned, b.Attempt.Outcome.String(), b.Attempt, b.Maybe)
	}
	t, err := l.words.termsFor(ctx, tx, h.terms, "")
	if err != nil {
		return notifier.Settled{}, err
	}
	state, reason := ledger.Next(t.Retry, h.tries, h.maybe, h.cancel)
	if state != notifier.StatePending {
		c.finish(h, ledger.ClosedReturn, state, reason)
		return notifier.Settled{Verdict: notifier.VerdictClosed, State: state, Reason: reason}, nil
	}
	if b.Reason != notifier.ReasonNone {
		reason = b.Reason
	}
	c.requeue(h, ledger.EndedReturned, reason, b.After)
	return notifier.Settled{Verdict: notifier.VerdictDone, State: state, Reason: reason}, nil
}

// returnedBefore tells a return that was made before from one that comes too
// late. h is the delivery's row in q as it is now, nil when it has none.
func (l *Ledger) returnedBefore(ctx context.Context, tx pgx.Tx, owner notifier.Owner, b notifier.Hold, h *held) (notifier.Settled, error) {
	const (
		waiting  = `SELECT fence, owner, ended FROM later WHERE nid = $1 AND ch = $2`
		recorded = `SELECT EXISTS (SELECT 1 FROM attempt_end WHERE nid = $1 AND ch = $2 AND fence = $3 AND owner = $4 AND ended = 'returned')`
	)
	fenced := notifier.Settled{Verdict: notifier.VerdictFenced}
	nid, ch := [16]byte(b.ID.Notification), b.ID.Ordinal
	if h == nil {
		rows, err := tx.Query(ctx, waiting, nid, ch)
		if err != nil {
			return fenced, err
		}
		var r held
		if _, err := pgx.ForEachRow(rows, []any{&r.fence, &r.owner, &r.ended}, func() error { h = &r; return nil }); err != nil {
			return fenced, err
		}
	}
	if h == nil {
		return l.settledBefore(ctx, tx, owner, b, ledger.ClosedReturn)
	}
	already := notifier.Settled{Verdict: notifier.VerdictAlready, State: notifier.StatePending}
	if h.status != statusPending {
		already.State = notifier.StateSending // somebody has leased it since
	}
	if h.status == statusPending && h.ended == ledger.EndedReturned && h.fence == b.Fence && h.owner == owner {
		return already, nil
	}
	var before bool
	if err := tx.QueryRow(ctx, recorded, nid, ch, b.Fence, owner).Scan(&before); err != nil || !before {
		return fenced, err
	}
	return already, nil
}
