package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/seed-4b260dfd/notifier"
)

// Unsettled returns deliveries that ended unknown and whose provider is to be
// asked. The index of the unknown, which is small, is what it reads.
func (l *Ledger) Unsettled(ctx context.Context, since time.Time, limit int) ([]notifier.Unsettled, error) {
	const find = `SELECT o.nid, o.ch, o.fence, o.finished_at, o.lane, o.ord, d.terms
		FROM outcome o JOIN delivery d ON d.nid = o.nid AND d.ch = o.ch JOIN terms t ON t.id = d.terms
		WHERE o.state = 'unknown' AND o.finished_at >= $1 AND t.body::jsonb ->> 'unknown' = 'lookup'
			AND NOT EXISTS (SELECT 1 FROM evidence e WHERE e.nid = o.nid AND e.ch = o.ch
				AND (e.kind IN ('lookup', 'lookup_none') OR e.kind = 'late' AND e.outcome = 'sent'))
		ORDER BY o.finished_at LIMIT $2`
	rows, err := l.reads.Query(ctx, find, since, limit)
	if err != nil {
		return nil, fmt.Errorf("find what is unknown: %w", err)
	}
	var (
		out     []notifier.Unsettled
		ids     []notifier.DeliveryID
		terms   []int32
		lanes   []int16
		nid     [16]byte
		u       notifier.Unsettled
		lane    int16
		termsID int32
	)
	_, err = pgx.ForEachRow(rows, []any{&nid, &u.ID.Ordinal, &u.Fence, &u.FinishedAt, &lane, &u.Order, &termsID}, func() error {
		u.ID.Notification, u.FinishedAt = nid, u.FinishedAt.UTC()
		out, ids = append(out, u), append(ids, u.ID)
		lanes, terms = append(lanes, lane), append(terms, termsID)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("find what is unknown: %w", err)
	}
	facts, err := l.facts(ctx, l.reads, ids)
	if err != nil {
		return nil, err
	}
	for i := range out {
		f := facts[out[i].ID]
		order := out[i].Order
		out[i].Delivery = f.Delivery
		out[i].Order = order
		if out[i].Lane, err = l.words.lane(ctx, l.reads, lanes[i]); err != nil {
			return nil, err
		}
		if out[i].Terms, err = l.words.termsFor(ctx, l.reads, terms[i], f.caps); err != nil {
			return nil, err
		}
	}
	return out, nil
}
