package postgres

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/seed-4b260dfd/notifier"
)

// factsSQL reads what never changes of deliveries. It is a statement of its own
// and is told between which ids they lie, so that of the days' partitions it
// opens those alone: a join from the queue would open all of them each time.
const factsSQL = `SELECT d.nid, d.ch, d.caps, d.address, d.content, d.collapse_id, d.effect_key, d.send_at,
		n.tenant, n.key, n.policy, n.recipient, n.accepted_at
	FROM unnest($1::uuid[], $2::int[]) AS s(nid, ch)
	CROSS JOIN LATERAL (SELECT * FROM delivery f WHERE f.nid = s.nid AND f.ch = s.ch AND f.nid >= $3 AND f.nid <= $4) d
	CROSS JOIN LATERAL (SELECT * FROM notification g WHERE g.nid = s.nid AND g.nid >= $3 AND g.nid <= $4) n`

// facts reads them, for deliveries that are there: each with its type and all
// of its terms but what terms has of them. caps is what those come with.
func (l *Ledger) facts(ctx context.Context, db querier, ids []notifier.DeliveryID) (map[notifier.DeliveryID]fact, error) {
	out := make(map[notifier.DeliveryID]fact, len(ids))
	if len(ids) == 0 {
		return out, nil
	}
	nids, chs := split(ids)
	low, high := bounds(ids)
	rows, err := db.Query(ctx, factsSQL, nids, chs, low, high)
	if err != nil {
		return nil, fmt.Errorf("read the facts: %w", err)
	}
	var (
		f                                  fact
		nid                                [16]byte
		address, content, collapse, effect []byte
		sendAt, acceptedAt                 time.Time
	)
	_, err = pgx.ForEachRow(rows, []any{&nid, &f.ID.Ordinal, &f.caps, &address, &content, &collapse, &effect, &sendAt,
		&f.Tenant, &f.Key, &f.policy, &f.Recipient, &acceptedAt}, func() error {
		f.ID.Notification, f.SendAt, f.AcceptedAt = nid, sendAt.UTC(), acceptedAt.UTC()
		f.Content = slices.Clone(content)
		if err := f.unpack(address, collapse, effect); err != nil {
			return fmt.Errorf("read delivery %v: %w", f.ID, err)
		}
		out[f.ID] = f
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the facts: %w", err)
	}
	for _, id := range ids {
		f, ok := out[id]
		if !ok {
			return nil, fmt.Errorf("read the facts of %v: %w", id, errMissing)
		}
		w, err := l.words.policyFor(ctx, db, f.policy)
		if err != nil {
			return nil, err
		}
		f.Type = w.typ
		out[id] = f
	}
	return out, nil
}

// fact is a delivery with numbers in it yet.
type fact struct {
	notifier.Delivery
	policy int32
	caps   string
}

func (f *fact) unpack(address, collapse, effect []byte) (err error) {
	if f.Address, err = unpackAddress(address); err != nil {
		return err
	}
	if f.EffectKey, err = unpack(effect); err != nil {
		return fmt.Errorf("decode the effect key: %w", err)
	}
	if f.CollapseID, err = unpackCollapse(collapse, f.EffectKey); err != nil {
		return fmt.Errorf("decode the collapse id: %w", err)
	}
	return nil
}

// bounds are the smallest and the largest id of notifications.
func bounds(ids []notifier.DeliveryID) (low, high [16]byte) {
	low, high = ids[0].Notification, ids[0].Notification
	for _, id := range ids[1:] {
		if string(id.Notification[:]) < string(low[:]) {
			low = id.Notification
		}
		if string(id.Notification[:]) > string(high[:]) {
			high = id.Notification
		}
	}
	return low, high
}
