package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/seed-4b260dfd/notifier"
)

// Permit authorises claim-first calls (T4). A crash after the commit leaves
// the delivery sending: the sweep ends it as unknown, and no other attempt is
// ever made. Asked again with the same hold while the permit lasts, the answer
// is the same; that the call starts once is the caller's to see to.
func (l *Ledger) Permit(ctx context.Context, owner notifier.Owner, permits []notifier.Permit) ([]bool, error) {
	const (
		given = `WITH t AS MATERIALIZED (SELECT ` + sqlNow + ` AS now),
			s AS MATERIALIZED (SELECT * FROM unnest($2::smallint[], $3::uuid[], $4::int[], $5::bigint[]) AS s(lane, nid, ch, fence)) `
		grant = given + `UPDATE q SET status = 2, permit_fence = fence, lease_until = (SELECT now FROM t) + $7 * interval '1 microsecond'
			WHERE ctid = ANY (ARRAY (SELECT x.ctid FROM s CROSS JOIN LATERAL (SELECT q2.ctid FROM q q2
				WHERE q2.lane = s.lane AND q2.nid = s.nid AND q2.ch = s.ch AND q2.fence = s.fence AND q2.owner = $6 AND q2.status = 1
				AND q2.ord = 'claim_first' AND q2.cancel = '' AND q2.expires_at > (SELECT now FROM t) FOR UPDATE) x))
			RETURNING nid, ch, fence`
		granted = given + `SELECT x.nid, x.ch, x.fence FROM s CROSS JOIN LATERAL (SELECT * FROM q q2
				WHERE q2.lane = s.lane AND q2.nid = s.nid AND q2.ch = s.ch AND q2.permit_fence = s.fence AND q2.owner = $6 AND q2.status = 2
				AND q2.cancel = '' AND q2.expires_at > (SELECT now FROM t) AND q2.lease_until > (SELECT now FROM t)) x`
	)
	out := make([]bool, len(permits))
	for lasts, which := range byDuration(permits) {
		holds := make([]notifier.Hold, len(which))
		for n, i := range which {
			holds[n] = permits[i].Hold
		}
		conn, err := l.trusted(ctx)
		if err != nil {
			return nil, fmt.Errorf("permit: %w", err)
		}
		got, err := l.guarded(ctx, holds, func(c *holdColumns) (pgx.Rows, error) {
			return conn.Query(ctx, grant, l.now(), c.lane, c.nid, c.ch, c.fence, owner, lasts.Microseconds())
		})
		conn.Release()
		if err != nil {
			return nil, fmt.Errorf("permit: %w", err)
		}
		l.commits.Add(1)
		if allTrue(got) {
			set(out, which, got)
			continue
		}
		before, err := l.guarded(ctx, holds, func(c *holdColumns) (pgx.Rows, error) {
			return l.hot.Query(ctx, granted, l.now(), c.lane, c.nid, c.ch, c.fence, owner)
		})
		if err != nil {
			return nil, fmt.Errorf("permit: %w", err)
		}
		set(out, which, before)
	}
	return out, nil
}

// byDuration groups permits by how long they last: nearly always one group.
func byDuration(permits []notifier.Permit) map[time.Duration][]int {
	groups := make(map[time.Duration][]int)
	for i := range permits {
		groups[permits[i].For] = append(groups[permits[i].For], i)
	}
	return groups
}

func allTrue(b []bool) bool {
	for _, ok := range b {
		if !ok {
			return false
		}
	}
	return true
}

func set(out []bool, which []int, got []bool) {
	for n, i := range which {
		out[i] = got[n]
	}
}
