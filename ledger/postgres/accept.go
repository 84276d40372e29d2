package postgres

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/seed-4b260dfd/notifier"
	"github.com/seed-4b260dfd/notifier/ledger"
)

// Accept stores each intent, or finds the first copy of its key (T0). It asks
// in turns until every key has an answer: insert, and look up what was there.
func (l *Ledger) Accept(ctx context.Context, intents []notifier.Intent) ([]notifier.Stored, error) {
	for i := range intents {
		if n := len(intents[i].Deliveries); n > math.MaxInt16 || (n == 0) != intents[i].ReplayOnly {
			return nil, fmt.Errorf("accept key %q: it has %d deliveries; 1 to %d are allowed", intents[i].Key, n, math.MaxInt16)
		}
	}
	if len(intents) == 0 {
		return nil, nil
	}
	a := accepting{l: l, intents: intents, out: make([]notifier.Stored, len(intents))}
	a.floor, a.tails = l.minter.tails(len(intents))
	a.findSuppressions(ctx)
	for i := range intents {
		a.open = append(a.open, i)
	}
	// Two nodes that take the same keys in different orders would wait for each other.
	slices.SortStableFunc(a.open, func(x, y int) int {
		return compareKeys(&intents[x], &intents[y])
	})
	failed := 0
	for len(a.open) > 0 {
		err := a.turn(ctx)
		if err == nil {
			continue
		}
		// An insert whose answer was lost is said again: the ids in it are this
		// call's own, so that the first copy of a key is recognised as ours.
		failed++
		if sqlState(err) == checkViolation && failed == 1 {
			// The machine slept past the days that were made ahead.
			if err := l.makePartitions(ctx); err != nil {
				return nil, acceptError(err)
			}
			continue
		}
		if !aborted(err) && !ambiguous(err) || failed == acceptTries || !pause(ctx, failed) {
			return nil, acceptError(err)
		}
	}
	return a.out, nil
}

const acceptTries = 4

// pause waits a little longer after each failure, and reports whether there is time left.
func pause(ctx context.Context, failed int) bool {
	select {
	case <-time.After(time.Duration(failed*failed) * 20 * time.Millisecond):
		return true
	case <-ctx.Done():
		return false
	}
}

// acceptError tells a key that another request holds from a ledger in trouble.
func acceptError(err error) error {
	if sqlState(err) == lockUnavailable {
		return &notifier.Error{Code: notifier.CodeKeyBusy, Field: "key", Err: err,
			Message: "another request with this key is being accepted; ask again"}
	}
	return fmt.Errorf("accept: %w", err)
}

func compareKeys(a, b *notifier.Intent) int {
	if c := bytes.Compare([]byte(a.Tenant), []byte(b.Tenant)); c != 0 {
		return c
	}
	return bytes.Compare([]byte(a.Key), []byte(b.Key))
}

// accepting is one call of Accept.
type accepting struct {
	l       *Ledger
	intents []notifier.Intent
	out     []notifier.Stored
	// held has the suppressions that there were for what is to be leased at once.
	held  suppressions
	floor int64
	tails []string
	// open are the intents without an answer yet, sorted by key.
	open []int
}

// turn inserts the first of each open key and answers the rest of them.
func (a *accepting) turn(ctx context.Context) error {
	var insert, wait []int
	for n, i := range a.open {
		if n > 0 && compareKeys(&a.intents[a.open[n-1]], &a.intents[i]) == 0 {
			wait = append(wait, i) // one key twice: the second finds the first next time
			continue
		}
		insert = append(insert, i)
	}
	stored, err := a.insert(ctx, insert)
	if err != nil {
		return err
	}
	var look []int
	for _, i := range insert {
		if !stored[i] {
			look = append(look, i)
		}
	}
	left, err := a.replay(ctx, look)
	if err != nil {
		return err
	}
	a.open = append(left, wait...)
	slices.SortStableFunc(a.open, func(x, y int) int { return compareKeys(&a.intents[x], &a.intents[y]) })
	return nil
}

// acceptSQL takes key, notification, deliveries and queue rows in one
// statement. Queue rows come from the keys that were won and from nothing else:
// a key that is known stands for deliveries that may be finished, and a second
// queue row would send them again. The time in the id is the statement's.
const acceptSQL = `WITH t AS MATERIALIZED (SELECT ` + sqlNow + ` AS now),
	s AS MATERIALIZED (
		SELECT a.*, t.now, (lpad(to_hex(greatest((extract(epoch FROM t.now) * 1000)::bigint, $2)), 12, '0') || a.tail)::uuid AS nid
		FROM unnest($3::int[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[], $9::int[], $10::bytea[],
			$11::bytea[], $12::timestamptz[], $13::timestamptz[], $14::bigint[], $15::smallint[])
			AS a(idx, tail, tenant, key, recipient, ord, policy, fingerprint, parts, send_at, expires_at, keep_us, deliveries), t),
	i AS (INSERT INTO idem (tenant, key, nid, keep_until)
		SELECT tenant, key, nid, greatest(now, send_at, expires_at) + keep_us * interval '1 microsecond'
		FROM s ORDER BY tenant COLLATE "C", key COLLATE "C" ON CONFLICT DO NOTHING RETURNING nid),
	w AS MATERIALIZED (SELECT s.* FROM s JOIN i ON i.nid = s.nid),
	n AS (INSERT INTO notification (nid, accepted_at, send_at, expires_at, policy, deliveries, tenant, key, recipient, fingerprint, parts)
		SELECT nid, now, send_at, expires_at, policy, deliveries, tenant, key, recipient, fingerprint, parts FROM w),
	x AS MATERIALIZED (
		SELECT d.*, w.nid, w.ord, w.now, CASE WHEN w.send_at > w.now THEN w.send_at ELSE w.now END AS due,
			d.first AND NOT coalesce(w.send_at > w.now, false) AND d.expires_at > w.now AS leased
		FROM unnest($16::int[], $17::int[], $18::smallint[], $19::int[], $20::text[], $21::bytea[], $22::bytea[], $23::bytea[], $24::bytea[],
			$25::timestamptz[], $26::int[], $27::bool[])
			AS d(idx, ch, lane, terms, caps, address, content, collapse_id, effect_key, expires_at, lease_ms, first)
		JOIN w ON w.idx = d.idx),
	d AS (INSERT INTO delivery (nid, send_at, ch, terms, lane, caps, address, content, collapse_id, effect_key)
		SELECT nid, due, ch, terms, lane, caps, address, content, collapse_id, effect_key FROM x),
	h AS (INSERT INTO q (lane, nid, ch, ord, status, capped, fence, owner, ended, leased_at, lease_until, due, expires_at, lease_ms, terms,
			tries, maybe, fails, cancel)
		SELECT lane, nid, ch, ord, leased::int, caps <> '', leased::int, CASE WHEN leased THEN $28 ELSE '' END, '',
			CASE WHEN leased THEN now END, CASE WHEN leased THEN now + lease_ms * interval '1 millisecond' END,
			due, expires_at, lease_ms, terms, 0, 0, 0, '' FROM x WHERE due <= now),
	r AS (INSERT INTO later (lane, nid, ch, ord, capped, reason, fence, owner, ended, due, expires_at, lease_ms, terms, tries, maybe, fails, cancel)
		SELECT lane, nid, ch, ord, caps <> '', 'scheduled', 0, '', '', due, expires_at, lease_ms, terms, 0, 0, 0, ''
		FROM x WHERE due > now)
	SELECT idx, nid, now FROM w`

// insert stores the intents whose keys are free, and reports which.
func (a *accepting) insert(ctx context.Context, which []int) (stored map[int]bool, err error) {
	var in intentColumns
	var de deliveryColumns
	var owner notifier.Owner
	for _, i := range which {
		if a.intents[i].ReplayOnly {
			continue
		}
		if err := in.add(ctx, a.l, i, a.tails[i], &a.intents[i]); err != nil {
			return nil, err
		}
		if err := de.add(ctx, a.l, i, &a.intents[i]); err != nil {
			return nil, err
		}
		if o := a.intents[i].Lease.Owner; o != "" {
			owner = o
		}
	}
	if len(in.idx) == 0 {
		return nil, nil
	}
	conn, err := a.l.hot.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.Release()
	if a.l.trust.check() != nil {
		a.leaseNone(de.first)
	}
	rows, err := conn.Query(ctx, acceptSQL, a.l.now(), a.floor, in.idx, in.tail, in.tenant, in.key, in.recipient, in.ord,
		in.policy, in.fingerprint, in.parts, in.sendAt, in.expiresAt, in.keep, in.deliveries,
		de.idx, de.ch, de.lane, de.terms, de.caps, de.address, de.content, de.collapse, de.effect, de.expiresAt, de.lease, de.first, owner)
	if err != nil {
		return nil, err
	}
	stored = make(map[int]bool, len(in.idx))
	var i int
	var nid [16]byte
	var now time.Time
	_, err = pgx.ForEachRow(rows, []any{&i, &nid, &now}, func() error {
		stored[i] = true
		a.l.minter.saw(nid)
		a.out[i], err = a.fresh(i, nid, now.UTC())
		return err
	})
	if err != nil {
		return nil, err
	}
	if len(stored) > 0 {
		a.l.commits.Add(1)
	}
	return stored, nil
}

// fresh is the answer to an intent that was stored, by this turn or by an
// earlier one whose answer was lost.
func (a *accepting) fresh(i int, nid notifier.ID, now time.Time) (notifier.Stored, error) {
	in := &a.intents[i]
	s := notifier.Stored{ID: nid, Fingerprint: in.Fingerprint, Parts: in.Parts, AcceptedAt: now}
	for ch := range in.Deliveries {
		if in.Lease.Owner == "" || ch >= in.Lease.Count {
			break
		}
		d := filled(in, ch, nid, now)
		if d.SendAt.After(now) || !d.ExpiresAt.IsZero() && !d.ExpiresAt.After(now) {
			continue
		}
		lane, err := a.l.words.laneID(context.Background(), a.l.hot, d.Lane) // known: it was just stored
		if err != nil {
			return s, err
		}
		a.l.lanes.note(d.ID, lane)
		s.Leased = append(s.Leased, notifier.Leased{Delivery: d, Fence: 1, LeasedAt: now, Suppressed: a.held.of(&d)})
	}
	return s, nil
}

// filled is a delivery of an intent as Lease would read it back.
func filled(in *notifier.Intent, ch int, nid notifier.ID, now time.Time) notifier.Delivery {
	d := in.Deliveries[ch]
	d.ID = notifier.DeliveryID{Notification: nid, Ordinal: uint16(ch)}
	d.Tenant, d.Key, d.Type, d.Recipient, d.Order = in.Tenant, in.Key, in.Type, in.Recipient, in.Order
	d.AcceptedAt, d.SendAt = now, now
	if in.SendAt.After(now) {
		d.SendAt = in.SendAt.Truncate(time.Microsecond).UTC()
	}
	if d.ExpiresAt.IsZero() {
		d.ExpiresAt = in.ExpiresAt
	}
	if !d.ExpiresAt.IsZero() {
		d.ExpiresAt = d.ExpiresAt.Truncate(time.Microsecond).UTC()
	}
	return d
}

// intentColumns are the intents of a statement, column by column.
type intentColumns struct {
	idx, policy                       []int32
	tail, tenant, key, recipient, ord []string
	fingerprint, parts                [][]byte
	sendAt, expiresAt                 []*time.Time
	keep                              []int64
	deliveries                        []int16
}

func (c *intentColumns) add(ctx context.Context, l *Ledger, i int, tail string, in *notifier.Intent) error {
	policy, err := l.words.policyID(ctx, l.hot, policyWords{in.Type, in.Order, in.PolicyVersion})
	if err != nil {
		return err
	}
	c.idx = append(c.idx, int32(i))
	c.tail = append(c.tail, tail)
	c.tenant, c.key = append(c.tenant, in.Tenant), append(c.key, in.Key)
	c.recipient, c.ord, c.policy = append(c.recipient, in.Recipient), append(c.ord, string(in.Order)), append(c.policy, policy)
	c.fingerprint, c.parts = append(c.fingerprint, in.Fingerprint[:]), append(c.parts, ledger.EncodeParts(in.Parts))
	c.sendAt, c.expiresAt = append(c.sendAt, orNull(in.SendAt)), append(c.expiresAt, orNull(in.ExpiresAt))
	c.keep = append(c.keep, in.KeepFor.Microseconds())
	c.deliveries = append(c.deliveries, int16(len(in.Deliveries)))
	return nil
}

// deliveryColumns are their deliveries.
type deliveryColumns struct {
	idx, ch, terms, lease              []int32
	lane                               []int16
	caps                               []string
	content, address, collapse, effect [][]byte
	expiresAt                          []pgtype.Timestamptz
	first                              []bool
}

func (c *deliveryColumns) add(ctx context.Context, l *Ledger, i int, in *notifier.Intent) error {
	for ch := range in.Deliveries {
		d := &in.Deliveries[ch]
		lane, err := l.words.laneID(ctx, l.hot, d.Lane)
		if err != nil {
			return err
		}
		terms, err := l.words.termsID(ctx, l.hot, d.Terms)
		if err != nil {
			return err
		}
		caps, err := ledger.EncodeCaps(d.Terms.Caps)
		if err != nil {
			return err
		}
		address, err := packAddress(d.Address)
		if err != nil {
			return err
		}
		expires := d.ExpiresAt
		if expires.IsZero() {
			expires = in.ExpiresAt
		}
		c.idx, c.ch, c.terms, c.lane = append(c.idx, int32(i)), append(c.ch, int32(ch)), append(c.terms, terms), append(c.lane, lane)
		c.caps, c.address = append(c.caps, caps), append(c.address, address)
		c.collapse, c.effect = append(c.collapse, packCollapse(d.CollapseID, d.EffectKey)), append(c.effect, pack(d.EffectKey))
		c.content, c.expiresAt = append(c.content, d.Content), append(c.expiresAt, orNever(expires))
		c.lease = append(c.lease, int32(d.Terms.Lease.Milliseconds()))
		c.first = append(c.first, in.Lease.Owner != "" && ch < in.Lease.Count)
	}
	return nil
}

var errMissing = errors.New("the row is missing")

// leaseNone has nothing leased in the same commit.
func (a *accepting) leaseNone(first []bool) {
	clear(first)
	for i := range a.intents {
		a.intents[i].Lease = notifier.FirstLease{}
	}
}

// findSuppressions finds what holds for the deliveries that are to be leased at
// once. Where that cannot be known none is: Lease asks again.
func (a *accepting) findSuppressions(ctx context.Context) {
	var first []*notifier.Delivery
	for i := range a.intents {
		in := &a.intents[i]
		if in.Lease.Owner == "" {
			continue
		}
		for ch := range in.Deliveries[:min(in.Lease.Count, len(in.Deliveries))] {
			d := filled(in, ch, notifier.ID{}, time.Time{})
			first = append(first, &d)
		}
	}
	var err error
	if a.held, err = a.l.findSuppressions(ctx, first); err != nil {
		a.leaseNone(nil)
	}
}

// mine reports whether an id was made for an intent of this call.
func (a *accepting) mine(i int, nid notifier.ID) bool {
	return hex.EncodeToString(nid[6:]) == a.tails[i]
}
