package postgres

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/seed-4b260dfd/notifier"
)

// leaseSQL leases from q and from later in one statement (T1, T1b).
//
// ctid = ANY (ARRAY (…)) evaluates the locking subquery once, whatever the
// planner believes about the size of the queue; a join with it could run it
// once per row and lock far more than the limit. Of later, what is due before
// the head of q goes first; the rest of it when q has no more.
const leaseSQL = `WITH t AS MATERIALIZED (SELECT ` + sqlNow + ` AS now),
	head AS MATERIALIZED (SELECT due, nid FROM q WHERE lane = $2 AND status = 0 AND nid >= $3 AND expires_at > (SELECT now FROM t)
		ORDER BY lane, nid, ch LIMIT 1),
	l AS (DELETE FROM later WHERE ctid = ANY (ARRAY (SELECT ctid FROM later
			WHERE lane = $2 AND due <= (SELECT now FROM t) AND due < coalesce((SELECT due FROM head), 'infinity') AND expires_at > (SELECT now FROM t)
			ORDER BY lane, due LIMIT $4 FOR UPDATE SKIP LOCKED))
		RETURNING *),
	h AS (INSERT INTO q (lane, nid, ch, ord, status, capped, fence, owner, ended, leased_at, lease_until, due, expires_at, lease_ms, terms,
			tries, maybe, fails, cancel)
		SELECT lane, nid, ch, ord, 1, capped, fence + 1, $5, '', now, now + lease_ms * interval '1 millisecond', due, expires_at, lease_ms, terms, tries, maybe, fails, cancel
		FROM l, t
		RETURNING nid, ch, ord, fence, expires_at, due, terms, tries, maybe, fails),
	u AS (UPDATE q SET status = 1, fence = fence + 1, permit_fence = NULL, owner = $5, ended = '',
			leased_at = (SELECT now FROM t), lease_until = (SELECT now FROM t) + lease_ms * interval '1 millisecond'
		WHERE ctid = ANY (ARRAY (SELECT ctid FROM q
			WHERE lane = $2 AND status = 0 AND nid >= $3 AND expires_at > (SELECT now FROM t)
			ORDER BY lane, nid, ch LIMIT $4 - (SELECT count(*) FROM l) FOR UPDATE SKIP LOCKED))
		RETURNING nid, ch, ord, fence, expires_at, due, terms, tries, maybe, fails)
	SELECT x.nid, x.ch, x.ord, x.fence, x.expires_at, x.due, x.terms, x.tries, x.maybe, x.fails, t.now, (SELECT nid FROM head),
		EXISTS (SELECT 1 FROM later WHERE lane = $2 AND due <= t.now AND expires_at > t.now)
	FROM (SELECT * FROM h UNION ALL SELECT * FROM u) x CROSS JOIN t`

// Lease leases up to limit due deliveries of a lane, those that are due first
// first (T1).
func (l *Ledger) Lease(ctx context.Context, lane notifier.Lane, limit int, owner notifier.Owner) ([]notifier.Leased, error) {
	if limit <= 0 {
		return nil, nil
	}
	id, err := l.words.laneID(ctx, l.hot, lane)
	if err != nil {
		return nil, err
	}
	from, move, back := l.marks.from(id)
	if move {
		if err := l.move(ctx, id, from); err != nil {
			return nil, fmt.Errorf("move the watermark of lane %v: %w", lane, err)
		}
	}
	if began := time.Now(); back {
		defer func() { l.marks.lookedBack(id, time.Since(began)) }()
	}
	var out []notifier.Leased
	for len(out) < limit {
		got, more, err := l.leaseOnce(ctx, lane, id, from, limit-len(out), owner)
		if err != nil {
			// What earlier turns leased is forgotten: the sweep returns it.
			return nil, fmt.Errorf("lease: %w", err)
		}
		if out = append(out, got...); len(got) == 0 || !more {
			break
		}
	}
	return out, nil
}

// leaseOnce runs the statement once; more says that later had something due.
func (l *Ledger) leaseOnce(ctx context.Context, lane notifier.Lane, id int16, from notifier.ID, limit int, owner notifier.Owner) (
	out []notifier.Leased, more bool, err error) {
	conn, err := l.trusted(ctx)
	if err != nil {
		return nil, false, err
	}
	defer conn.Release()
	rows, err := conn.Query(ctx, leaseSQL, l.now(), id, [16]byte(from), limit, owner)
	if err != nil {
		return nil, false, err
	}
	var (
		all     []dueRow
		ids     []notifier.DeliveryID
		r       dueRow
		nid     [16]byte
		expires pgtype.Timestamptz
		now     time.Time
		head    *[16]byte
	)
	r.Lane = lane
	_, err = pgx.ForEachRow(rows, []any{&nid, &r.ID.Ordinal, &r.Order, &r.Fence, &expires, &r.at, &r.terms, &r.Tries, &r.Maybe, &r.Fails, &now,
		&head, &more}, func() error {
		r.ID.Notification, r.ExpiresAt, r.LeasedAt = nid, timeOf(expires), now.UTC()
		all, ids = append(all, r), append(ids, r.ID)
		return nil
	})
	conn.Release()
	if err != nil || len(all) == 0 {
		return nil, more, err
	}
	l.commits.Add(1)
	if head != nil {
		l.marks.set(id, *head) // rows of q that are not pending are nothing to lease
	}
	slices.SortFunc(all, func(a, b dueRow) int {
		return cmp.Or(a.at.Compare(b.at), slices.Compare(a.ID.Notification[:], b.ID.Notification[:]), cmp.Compare(a.ID.Ordinal, b.ID.Ordinal))
	})
	facts, err := l.facts(ctx, l.hot, ids)
	if err != nil {
		return nil, false, err
	}
	for i := range all {
		d := all[i].with(facts[all[i].ID])
		if d.Terms, err = l.words.termsFor(ctx, l.hot, all[i].terms, facts[d.ID].caps); err != nil {
			return nil, false, err
		}
		l.lanes.note(d.ID, id)
		out = append(out, d)
	}
	if err := l.markSuppressed(ctx, out); err != nil {
		return nil, false, err
	}
	return out, more, nil
}

// dueRow is what the queue says of a delivery that was leased.
type dueRow struct {
	notifier.Leased
	at    time.Time
	terms int32
}

// with adds what never changes.
func (r *dueRow) with(f fact) notifier.Leased {
	d := r.Leased
	d.Tenant, d.Key, d.Type, d.Recipient, d.Address, d.Content = f.Tenant, f.Key, f.Type, f.Recipient, f.Address, f.Content
	d.CollapseID, d.EffectKey, d.SendAt, d.AcceptedAt = f.CollapseID, f.EffectKey, f.SendAt, f.AcceptedAt
	return d
}

// Renew makes leases last their Terms.Lease from now on. A lease that has
// lapsed but was not swept yet is renewed too: its fence says that nobody else
// had the delivery meanwhile. Permits are not renewed.
func (l *Ledger) Renew(ctx context.Context, owner notifier.Owner, holds []notifier.Hold) ([]bool, error) {
	const renew = `WITH t AS MATERIALIZED (SELECT ` + sqlNow + ` AS now),
		s AS MATERIALIZED (SELECT * FROM unnest($2::smallint[], $3::uuid[], $4::int[], $5::bigint[]) AS s(lane, nid, ch, fence))
		UPDATE q SET lease_until = (SELECT now FROM t) + lease_ms * interval '1 millisecond'
		WHERE ctid = ANY (ARRAY (SELECT x.ctid FROM s CROSS JOIN LATERAL (SELECT q2.ctid FROM q q2
			WHERE q2.lane = s.lane AND q2.nid = s.nid AND q2.ch = s.ch AND q2.fence = s.fence AND q2.owner = $6 AND q2.status = 1 FOR UPDATE) x))
		RETURNING nid, ch, fence`
	if len(holds) == 0 {
		return nil, nil
	}
	got, err := l.guarded(ctx, holds, func(c *holdColumns) (pgx.Rows, error) {
		return l.hot.Query(ctx, renew, l.now(), c.lane, c.nid, c.ch, c.fence, owner)
	})
	if err != nil {
		return nil, fmt.Errorf("renew: %w", err)
	}
	l.commits.Add(1)
	return got, nil
}

// guarded runs a statement over holds, in the order of the queue's key, that
// returns those for which its guard held, and answers in the order given.
func (l *Ledger) guarded(ctx context.Context, holds []notifier.Hold, run func(*holdColumns) (pgx.Rows, error)) ([]bool, error) {
	ids := make([]notifier.DeliveryID, len(holds))
	for i, h := range holds {
		ids[i] = h.ID
	}
	lanes, err := l.lookup(ctx, l.hot, ids)
	if err != nil {
		return nil, err
	}
	var c holdColumns
	said := make(map[notifier.Hold]bool, len(holds))
	for _, i := range keyOrder(lanes, ids) {
		if lanes[i] >= 0 && !said[holds[i]] {
			said[holds[i]] = true
			c.add(lanes[i], holds[i])
		}
	}
	rows, err := run(&c)
	if err != nil {
		return nil, err
	}
	held := make(map[notifier.Hold]bool)
	var nid [16]byte
	var h notifier.Hold
	_, err = pgx.ForEachRow(rows, []any{&nid, &h.ID.Ordinal, &h.Fence}, func() error {
		h.ID.Notification = nid
		held[h] = true
		return nil
	})
	if err != nil {
		return nil, err
	}
	out := make([]bool, len(holds))
	for i, h := range holds {
		out[i] = held[h]
	}
	return out, nil
}

// keyOrder is the order of ids by the queue's key.
func keyOrder(lanes []int16, ids []notifier.DeliveryID) []int {
	order := make([]int, len(ids))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(lanes[a], lanes[b]), slices.Compare(ids[a].Notification[:], ids[b].Notification[:]),
			cmp.Compare(ids[a].Ordinal, ids[b].Ordinal))
	})
	return order
}
