package sqlite

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/seed-4b260dfd/notifier"
)

// Lease leases up to limit due deliveries of a lane, those that are due first
// first (T1).
func (l *Ledger) Lease(ctx context.Context, lane notifier.Lane, limit int, owner notifier.Owner) ([]notifier.Leased, error) {
	if limit <= 0 {
		return nil, nil
	}
	var out []notifier.Leased
	err := l.write(ctx, func(w *writer) (err error) {
		out, err = w.lease(lane, limit, owner)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("lease: %w", err)
	}
	return out, nil
}

func (w *writer) lease(lane notifier.Lane, limit int, owner notifier.Owner) ([]notifier.Leased, error) {
	const (
		due = `SELECT q.nid, q.ch, q.fence, q.tries, q.maybe, q.fails, q.expires_at,
				d.terms, d.caps, d.address, d.content, d.collapse_id, d.effect_key, d.send_at,
				n.tenant, n.key, n.type, n.recipient, n.ord, n.accepted_at, q.reason
			FROM queue q INDEXED BY queue_due CROSS JOIN delivery d ON d.d = q.d CROSS JOIN notification n ON n.n = q.d - q.ch
			WHERE q.state = 'pending' AND q.lane = ? AND q.due <= ? AND q.expires_at > ?
			ORDER BY q.due, q.nid, q.ch LIMIT ?`
		take = `UPDATE queue SET state = 'leased', reason = '', timed = 0, fence = fence + 1, permit_fence = NULL, owner = ?, ended = '',
				leased_at = ?, lease_until = ? WHERE nid = ? AND ch = ? AND state = 'pending' AND fence = ?`
	)
	id, err := w.laneID(lane)
	if err != nil {
		return nil, err
	}
	now := micros(w.now)
	var out []notifier.Leased
	var terms []int64
	var caps []string
	err = w.rows(due, func(r row) error {
		w.moved[tallyKey{id, notifier.StatePending, notifier.Reason(r.str(20))}]--
		d, err := leased(r, lane)
		out, terms, caps = append(out, d), append(terms, r.int(7)), append(caps, r.str(8))
		return err
	}, id, now, now, int64(limit))
	if err != nil {
		return nil, fmt.Errorf("find what is due: %w", err)
	}
	for i := range out {
		d := &out[i]
		if d.Terms, err = w.termsFor(terms[i], caps[i]); err != nil {
			return nil, err
		}
		n, err := w.exec(take, string(owner), now, micros(w.now.Add(d.Terms.Lease)), d.ID.Notification[:], int64(d.ID.Ordinal), d.Fence-1)
		if err != nil || n != 1 {
			return nil, fmt.Errorf("take %v: %w", d.ID, orMissing(err))
		}
		if d.Suppressed, err = w.suppressed(&d.Delivery); err != nil {
			return nil, err
		}
		d.LeasedAt = w.now
		w.leases[d.ID] = id
	}
	w.moved[tallyKey{id, notifier.StateSending, notifier.ReasonNone}] += int64(len(out))
	return out, nil
}

// leased reads a row of what is due, but for its terms.
func leased(r row, lane notifier.Lane) (notifier.Leased, error) {
	d := notifier.Leased{
		Fence: r.int(2) + 1, Tries: int(r.int(3)), Maybe: int(r.int(4)), Fails: int(r.int(5)),
		Delivery: notifier.Delivery{
			ID: deliveryID(r.bytes(0), r.int(1)), Lane: lane, ExpiresAt: r.time(6),
			Content: r.bytes(10), CollapseID: r.str(11), EffectKey: r.str(12), SendAt: r.time(13),
			Tenant: r.str(14), Key: r.str(15), Type: r.str(16), Recipient: r.str(17),
			Order: notifier.Order(r.str(18)), AcceptedAt: r.time(19),
		},
	}
	if err := json.Unmarshal([]byte(r.str(9)), &d.Address); err != nil {
		return d, fmt.Errorf("decode the address of %v: %w", d.ID, err)
	}
	return d, nil
}

// Renew makes leases last their Terms.Lease from now on. A lease that has
// lapsed but was not swept yet is renewed too: its fence says that nobody else
// had the delivery meanwhile. Permits are not renewed.
func (l *Ledger) Renew(ctx context.Context, owner notifier.Owner, holds []notifier.Hold) ([]bool, error) {
	if len(holds) == 0 {
		return nil, nil
	}
	out := make([]bool, len(holds))
	err := l.write(ctx, func(w *writer) (err error) {
		for i, h := range holds {
			if out[i], err = w.renew(owner, h); err != nil {
				return fmt.Errorf("renew the lease of %v: %w", h.ID, err)
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

func (w *writer) renew(owner notifier.Owner, h notifier.Hold) (bool, error) {
	const (
		mine = `SELECT d.terms FROM queue q CROSS JOIN delivery d ON d.d = q.d
			WHERE q.nid = ? AND q.ch = ? AND q.fence = ? AND q.owner = ? AND q.state = 'leased'`
		extend = `UPDATE queue SET lease_until = ? WHERE nid = ? AND ch = ? AND fence = ? AND owner = ? AND state = 'leased'`
	)
	nid, ch := h.ID.Notification[:], int64(h.ID.Ordinal)
	r, err := w.first(mine, nid, ch, h.Fence, string(owner))
	if err != nil || r == nil {
		return false, err
	}
	t, err := w.termsFor(r.int(0), "")
	if err != nil {
		return false, err
	}
	n, err := w.exec(extend, micros(w.now.Add(t.Lease)), nid, ch, h.Fence, string(owner))
	return n == 1, err
}

// Permit authorises claim-first calls (T4). A crash after the commit leaves
// the delivery sending: the sweep ends it as unknown, and no other attempt is
// ever made. Asked again with the same hold while the permit lasts, the answer
// is the same, so that a lost reply can be repaired; that the call starts once
// is the caller's to see to.
func (l *Ledger) Permit(ctx context.Context, owner notifier.Owner, permits []notifier.Permit) ([]bool, error) {
	if len(permits) == 0 {
		return nil, nil
	}
	out := make([]bool, len(permits))
	err := l.write(ctx, func(w *writer) (err error) {
		for i := range permits {
			if out[i], err = w.permit(owner, &permits[i]); err != nil {
				return fmt.Errorf("permit %v: %w", permits[i].ID, err)
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

func (w *writer) permit(owner notifier.Owner, p *notifier.Permit) (bool, error) {
	const (
		grant = `UPDATE queue SET state = 'sending', permit_fence = fence, lease_until = ?
			WHERE nid = ? AND ch = ? AND fence = ? AND owner = ? AND state = 'leased' AND ord = 'claim_first'
			AND cancel = '' AND expires_at > ?`
		granted = `SELECT 1 FROM queue WHERE nid = ? AND ch = ? AND permit_fence = ? AND owner = ? AND state = 'sending'
			AND cancel = '' AND expires_at > ? AND lease_until > ?`
	)
	nid, ch, now := p.ID.Notification[:], int64(p.ID.Ordinal), micros(w.now)
	n, err := w.exec(grant, micros(w.now.Add(p.For)), nid, ch, p.Fence, string(owner), now)
	if err != nil || n == 1 {
		return n == 1, err
	}
	r, err := w.first(granted, nid, ch, p.Fence, string(owner), now, now)
	return r != nil, err
}
