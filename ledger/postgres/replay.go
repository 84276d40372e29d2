package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/seed-4b260dfd/notifier"
	"github.com/seed-4b260dfd/notifier/ledger"
)

// replaySQL finds the first copies of keys, and whether each has had its time:
// then, unless a delivery of it still waits, the key is free again.
const replaySQL = `WITH t AS MATERIALIZED (SELECT ` + sqlNow + ` AS now)
	SELECT s.idx, i.nid, n.fingerprint, n.parts, n.accepted_at, t.now,
		i.keep_until <= t.now AND NOT EXISTS (SELECT 1 FROM later r WHERE r.nid = i.nid)
			AND NOT EXISTS (SELECT 1 FROM delivery d JOIN q ON q.lane = d.lane AND q.nid = d.nid AND q.ch = d.ch WHERE d.nid = i.nid)
	FROM t, unnest($2::int[], $3::text[], $4::text[]) AS s(idx, tenant, key)
	JOIN idem i ON i.tenant = s.tenant AND i.key = s.key
	LEFT JOIN notification n ON n.nid = i.nid`

// replay answers the intents whose keys were taken. It returns those that have
// no answer yet: their keys have become free, and are asked for again.
func (a *accepting) replay(ctx context.Context, which []int) (left []int, err error) {
	if len(which) == 0 {
		return nil, nil
	}
	var idx []int32
	var tenants, keys []string
	for _, i := range which {
		idx = append(idx, int32(i))
		tenants, keys = append(tenants, a.intents[i].Tenant), append(keys, a.intents[i].Key)
	}
	rows, err := a.l.hot.Query(ctx, replaySQL, a.l.now(), idx, tenants, keys)
	if err != nil {
		return nil, err
	}
	found := make(map[int]bool)
	var (
		i                  int
		nid                [16]byte
		fingerprint, parts []byte
		acceptedAt         *time.Time
		now                time.Time
		over               bool
		counted, free      [][16]byte
	)
	_, err = pgx.ForEachRow(rows, []any{&i, &nid, &fingerprint, &parts, &acceptedAt, &now, &over}, func() error {
		if over {
			free = append(free, nid)
			return nil
		}
		if acceptedAt == nil {
			return fmt.Errorf("key %q: find its notification: %w", a.intents[i].Key, errMissing)
		}
		found[i] = true
		if a.mine(i, nid) {
			a.out[i], err = a.fresh(i, nid, acceptedAt.UTC())
			return err
		}
		s := notifier.Stored{ID: nid, Replayed: true, AcceptedAt: acceptedAt.UTC(), FirstAge: max(0, now.Sub(*acceptedAt))}
		copy(s.Fingerprint[:], fingerprint)
		if s.Parts, err = ledger.DecodeParts(parts); err != nil {
			return fmt.Errorf("decode the parts of %v: %w", s.ID, err)
		}
		if s.Fingerprint == a.intents[i].Fingerprint {
			counted = append(counted, nid)
		}
		a.out[i] = s
		return nil
	})
	if err != nil {
		return nil, err
	}
	for _, i := range which {
		if !found[i] && !a.intents[i].ReplayOnly {
			left = append(left, i)
		}
	}
	return left, a.l.afterReplay(ctx, counted, free)
}

// afterReplay counts repeats, and forgets the keys that have had their time.
func (l *Ledger) afterReplay(ctx context.Context, counted, free [][16]byte) error {
	const (
		count = `UPDATE notification n SET repeats = repeats + s.c
			FROM (SELECT nid, count(*) AS c FROM unnest($1::uuid[]) AS u(nid) GROUP BY nid ORDER BY nid) s WHERE n.nid = s.nid`
		// The id in the guard keeps a key that somebody else has taken since.
		forget = `DELETE FROM idem WHERE (tenant, key, nid) IN (
			SELECT n.tenant, n.key, n.nid FROM notification n WHERE n.nid = ANY($2::uuid[])) AND keep_until <= ` + sqlNow
	)
	if len(counted) > 0 {
		if _, err := l.hot.Exec(ctx, count, counted); err != nil {
			return fmt.Errorf("count the repeats: %w", err)
		}
	}
	if len(free) > 0 {
		if _, err := l.hot.Exec(ctx, forget, l.now(), free); err != nil {
			return fmt.Errorf("forget old keys: %w", err)
		}
	}
	return nil
}
