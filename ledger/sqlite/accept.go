package sqlite

import (
	"context"
	"encoding/json"
	"fmt"
	"math"

	"github.com/seed-4b260dfd/notifier"
	"github.com/seed-4b260dfd/notifier/ledger"
)

// Accept stores each intent, or finds the first copy of its key (T0). One
// commit takes key, notification and deliveries.
func (l *Ledger) Accept(ctx context.Context, intents []notifier.Intent) ([]notifier.Stored, error) {
	for i := range intents {
		if n := len(intents[i].Deliveries); n > math.MaxUint16 || (n == 0) != intents[i].ReplayOnly {
			return nil, fmt.Errorf("accept key %q: it has %d deliveries; 1 to %d are allowed", intents[i].Key, n, math.MaxUint16)
		}
	}
	if len(intents) == 0 {
		return nil, nil
	}
	out := make([]notifier.Stored, len(intents))
	err := l.write(ctx, func(w *writer) error {
		for i := range intents {
			var err error
			if out[i], err = w.accept(&intents[i]); err != nil {
				return fmt.Errorf("accept key %q: %w", intents[i].Key, err)
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// accept inserts queue rows only after the key was won: a key that is known
// stands for deliveries that may be finished, and a second queue row would
// send them again.
func (w *writer) accept(in *notifier.Intent) (notifier.Stored, error) {
	const win = `INSERT INTO idem (tenant, key, n, keep_until) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING`
	if in.ReplayOnly {
		return w.replayOnly(in)
	}
	if in.ReplayOnly {
		first, err := w.replay(in)
		return orZero(first), err
	}
	keep := in.SendAt
	if in.ExpiresAt.After(keep) {
		keep = in.ExpiresAt
	}
	if w.now.After(keep) {
		keep = w.now
	}
	keepUntil := keep.Add(in.KeepFor).UnixMicro()
	n := w.next
	won, err := w.exec(win, in.Tenant, in.Key, n, keepUntil)
	if err != nil {
		return notifier.Stored{}, fmt.Errorf("take the key: %w", err)
	}
	if won == 0 {
		first, err := w.replay(in)
		if err != nil || first != nil {
			return orZero(first), err
		}
		const again = `UPDATE idem SET n = ?, keep_until = ? WHERE tenant = ? AND key = ?`
		if _, err := w.exec(again, n, keepUntil, in.Tenant, in.Key); err != nil {
			return notifier.Stored{}, fmt.Errorf("take the key again: %w", err)
		}
	}
	w.next += int64(len(in.Deliveries))
	return w.insert(in, n)
}

// replayOnly finds the first copy of a key and makes nothing where there is none.
func (w *writer) replayOnly(in *notifier.Intent) (notifier.Stored, error) {
	const known = `SELECT 1 FROM idem WHERE tenant = ? AND key = ?`
	r, err := w.first(known, in.Tenant, in.Key)
	if err != nil || r == nil {
		return notifier.Stored{}, err
	}
	first, err := w.replay(in)
	return orZero(first), err
}

func orZero(s *notifier.Stored) notifier.Stored {
	if s == nil {
		return notifier.Stored{}
	}
	return *s
}

// replay returns the first copy of a key, or nil when there is none: the key
// is not known, or it has had its time and nothing of its notification is in
// the queue. Then the intent is a new notification.
func (w *writer) replay(in *notifier.Intent) (*notifier.Stored, error) {
	const (
		find = `SELECT i.keep_until, n.n, n.nid, n.fingerprint, n.parts, n.accepted_at
			FROM idem i LEFT JOIN notification n ON n.n = i.n WHERE i.tenant = ? AND i.key = ?`
		open  = `SELECT 1 FROM queue WHERE nid = ? LIMIT 1`
		count = `UPDATE notification SET repeats = repeats + 1 WHERE n = ?`
	)
	r, err := w.first(find, in.Tenant, in.Key)
	if err != nil {
		return nil, fmt.Errorf("find the key: %w", err)
	}
	if r == nil {
		return nil, nil
	}
	if r.bytes(2) == nil {
		return nil, fmt.Errorf("find the key's notification: %w", errMissing)
	}
	if r.int(0) <= micros(w.now) {
		waiting, err := w.first(open, r.bytes(2))
		if err != nil {
			return nil, fmt.Errorf("look for open deliveries: %w", err)
		}
		if waiting == nil {
			return nil, nil
		}
	}
	s := &notifier.Stored{ID: idOf(r.bytes(2)), Replayed: true, AcceptedAt: r.time(5)}
	copy(s.Fingerprint[:], r.bytes(3))
	if s.Parts, err = ledger.DecodeParts(r.bytes(4)); err != nil {
		return nil, fmt.Errorf("decode the parts of %v: %w", s.ID, err)
	}
	s.FirstAge = max(0, w.now.Sub(s.AcceptedAt))
	if s.Fingerprint == in.Fingerprint {
		if _, err := w.exec(count, r.int(1)); err != nil {
			return nil, fmt.Errorf("count the repeat: %w", err)
		}
	}
	return s, nil
}

func (w *writer) insert(in *notifier.Intent, n int64) (notifier.Stored, error) {
	const insert = `INSERT INTO notification (n, nid, deliveries, tenant, key, type, recipient, ord, policy_version,
		fingerprint, parts, accepted_at, send_at, expires_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`
	s := notifier.Stored{ID: w.minter.mint(w.now), Fingerprint: in.Fingerprint, Parts: in.Parts, AcceptedAt: w.now}
	if _, err := w.exec(insert, n, s.ID[:], int64(len(in.Deliveries)), in.Tenant, in.Key, in.Type, in.Recipient,
		string(in.Order), in.PolicyVersion, in.Fingerprint[:], ledger.EncodeParts(in.Parts),
		micros(w.now), micros(in.SendAt), micros(in.ExpiresAt)); err != nil {
		return s, fmt.Errorf("store the notification: %w", err)
	}
	for i := range in.Deliveries {
		d := w.fill(in, i, s.ID)
		leased := in.Lease.Owner != "" && i < in.Lease.Count && !d.SendAt.After(w.now) && orNever(d.ExpiresAt) > micros(w.now)
		if err := w.enqueue(&d, n+int64(i), in.Lease.Owner, leased); err != nil {
			return s, err
		}
		if leased {
			held, err := w.suppressed(&d)
			if err != nil {
				return s, err
			}
			s.Leased = append(s.Leased, notifier.Leased{Delivery: d, Fence: 1, LeasedAt: w.now, Suppressed: held})
		}
	}
	return s, nil
}

// fill is the i-th delivery as Lease would read it back.
func (w *writer) fill(in *notifier.Intent, i int, id notifier.ID) notifier.Delivery {
	d := in.Deliveries[i]
	d.ID = notifier.DeliveryID{Notification: id, Ordinal: uint16(i)}
	d.Tenant, d.Key, d.Type, d.Recipient, d.Order = in.Tenant, in.Key, in.Type, in.Recipient, in.Order
	d.AcceptedAt, d.SendAt = w.now, w.now
	if in.SendAt.After(w.now) {
		d.SendAt = fromMicros(micros(in.SendAt))
	}
	if d.ExpiresAt.IsZero() {
		d.ExpiresAt = in.ExpiresAt
	}
	d.ExpiresAt = fromMicros(micros(d.ExpiresAt))
	return d
}

// enqueue stores a delivery and its queue row: waiting, or leased at once,
// which spares the second commit when a worker is free.
func (w *writer) enqueue(d *notifier.Delivery, row int64, owner notifier.Owner, leased bool) error {
	const (
		fact = `INSERT INTO delivery (d, lane, terms, caps, address, content, collapse_id, effect_key, send_at)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`
		queue = `INSERT INTO queue (nid, ch, d, lane, ord, capped, state, reason, timed, fence, owner, ended, leased_at, lease_until,
			due, expires_at, tries, maybe, fails, cancel) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, '', ?, ?, ?, ?, 0, 0, 0, '')`
	)
	lane, err := w.laneID(d.Lane)
	if err != nil {
		return err
	}
	terms, err := w.termsID(d.Terms)
	if err != nil {
		return err
	}
	caps, err := ledger.EncodeCaps(d.Terms.Caps)
	if err != nil {
		return err
	}
	address, err := json.Marshal(d.Address)
	if err != nil {
		return fmt.Errorf("encode an address: %w", err)
	}
	if _, err := w.exec(fact, row, lane, terms, caps, string(address), []byte(d.Content), d.CollapseID, d.EffectKey, micros(d.SendAt)); err != nil {
		return fmt.Errorf("store a delivery: %w", err)
	}
	state, reason, fence, leasedAt, until := statePending, notifier.ReasonDue, int64(0), int64(0), int64(0)
	if d.SendAt.After(w.now) {
		reason = notifier.ReasonScheduled
	}
	if leased {
		state, reason, fence = stateLeased, notifier.ReasonNone, 1
		leasedAt, until = micros(w.now), micros(w.now.Add(d.Terms.Lease))
		w.leases[d.ID] = lane
	} else {
		owner = ""
	}
	_, err = w.exec(queue, d.ID.Notification[:], int64(d.ID.Ordinal), row, lane, string(d.Order), caps != "",
		state, string(reason), timed(reason), fence, string(owner), leasedAt, until, micros(d.SendAt), orNever(d.ExpiresAt))
	if err != nil {
		return fmt.Errorf("queue a delivery: %w", err)
	}
	w.moved[tallyKey{lane, shown(state), reason}]++
	return nil
}
