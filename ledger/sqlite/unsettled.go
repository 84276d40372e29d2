package sqlite

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/seed-4b260dfd/notifier"
	"github.com/seed-4b260dfd/notifier/ledger"
)

// Unsettled returns deliveries that ended unknown and whose provider is to be
// asked. The index of the unknown, which is small, is what it reads.
func (l *Ledger) Unsettled(ctx context.Context, since time.Time, limit int) ([]notifier.Unsettled, error) {
	const find = `SELECT o.nid, o.ch, o.fence, o.finished_at, l.channel, l.account, l.priority, t.json, d.caps, d.address, d.content,
			d.collapse_id, d.effect_key, d.send_at, n.tenant, n.key, n.type, n.recipient, n.ord, n.accepted_at
		FROM outcome o CROSS JOIN delivery d ON d.d = o.d CROSS JOIN terms t ON t.id = d.terms
			CROSS JOIN notification n ON n.n = o.d - o.ch CROSS JOIN lane l ON l.id = d.lane
		WHERE o.state = 'unknown' AND o.finished_at >= ? AND t.json ->> '$.unknown' = 'lookup'
			AND NOT EXISTS (SELECT 1 FROM evidence e WHERE e.nid = o.nid AND e.ch = o.ch
				AND (e.kind IN ('lookup', 'lookup_none') OR e.kind = 'late' AND e.outcome = 'sent'))
		ORDER BY o.finished_at LIMIT ?`
	var out []notifier.Unsettled
	err := query(ctx, l.reads, find, func(scan func(...any) error) error {
		var (
			u                            notifier.Unsettled
			nid                          []byte
			ch                           int64
			finished, sendAt, acceptedAt int64
			terms, caps, address         string
		)
		err := scan(&nid, &ch, &u.Fence, &finished, &u.Lane.Channel, &u.Lane.Account, &u.Lane.Priority, &terms, &caps, &address, &u.Content,
			&u.CollapseID, &u.EffectKey, &sendAt, &u.Tenant, &u.Key, &u.Type, &u.Recipient, &u.Order, &acceptedAt)
		if err != nil {
			return err
		}
		u.ID = deliveryID(nid, ch)
		u.FinishedAt, u.SendAt, u.AcceptedAt = fromMicros(finished), fromMicros(sendAt), fromMicros(acceptedAt)
		if err := json.Unmarshal([]byte(terms), &u.Terms); err != nil {
			return fmt.Errorf("decode the terms of %v: %w", u.ID, err)
		}
		if u.Terms.Caps, err = ledger.DecodeCaps(caps); err != nil {
			return err
		}
		if err := json.Unmarshal([]byte(address), &u.Address); err != nil {
			return fmt.Errorf("decode the address of %v: %w", u.ID, err)
		}
		out = append(out, u)
		return nil
	}, micros(since), limit)
	if err != nil {
		return nil, fmt.Errorf("find what is unknown: %w", err)
	}
	return out, nil
}
