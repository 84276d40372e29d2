package postgres

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/seed-4b260dfd/notifier"
	"github.com/seed-4b260dfd/notifier/ledger"
)

// waitReason is the reason of a row of later as of a time: what waited for the
// clock alone is due once its time has come.
const waitReason = `CASE WHEN due <= $1 AND ` + clockReasons + ` THEN 'due' ELSE reason END`

// clockReasons are those of what waits for the clock alone.
const clockReasons = `reason IN ('scheduled', 'backoff', 'throttled', 'cap', 'quiet_hours', 'paused', 'redis_down')`

// Lanes returns the lanes that hold deliveries that are not finished, with the
// time at which the first of each is due. For a lane in which all are leased
// that is when the sweep may hand one back: a second after the first lease
// ends, and never in the past.
func (l *Ledger) Lanes(ctx context.Context) (map[notifier.Lane]time.Time, error) {
	const list = `WITH t AS MATERIALIZED (SELECT ` + sqlNow + ` AS now)
		SELECT l.channel, l.account, l.priority, coalesce(least(h.due, r.due), greatest(o.until, t.now) + interval '1 second')
		FROM t, lane l
		LEFT JOIN LATERAL (SELECT due FROM q WHERE q.lane = l.id AND q.status = 0 AND q.expires_at > t.now ORDER BY q.lane, q.nid, q.ch LIMIT 1) h ON true
		LEFT JOIN LATERAL (SELECT due FROM later WHERE later.lane = l.id AND later.expires_at > t.now ORDER BY later.due LIMIT 1) r ON true
		LEFT JOIN LATERAL (SELECT min(lease_until) AS until FROM q WHERE h.due IS NULL AND r.due IS NULL AND q.lane = l.id AND q.status IN (1, 2)) o ON true
		WHERE coalesce(h.due, r.due, o.until) IS NOT NULL`
	rows, err := l.hot.Query(ctx, list, l.now())
	if err != nil {
		return nil, fmt.Errorf("list the lanes: %w", err)
	}
	out := make(map[notifier.Lane]time.Time)
	var lane notifier.Lane
	var due time.Time
	_, err = pgx.ForEachRow(rows, []any{&lane.Channel, &lane.Account, &lane.Priority, &due}, func() error {
		out[lane] = due.UTC()
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list the lanes: %w", err)
	}
	return out, nil
}

// gauges keeps the last count of the backlog. Counting reads the whole queue,
// so that a count which took long is good for a while.
type gauges struct {
	mu   sync.Mutex
	last []notifier.Backlog
	took time.Duration
	at   time.Time
}

// Backlog counts what is not finished, and what ended unknown and nobody's
// later word has settled, for the gauges. OldestDue stands on the entry of the
// oldest due delivery of each channel alone. Of a long queue the counts may be
// some seconds old.
func (l *Ledger) Backlog(ctx context.Context) ([]notifier.Backlog, error) {
	l.gauges.mu.Lock()
	defer l.gauges.mu.Unlock()
	if time.Since(l.gauges.at) < restShort*l.gauges.took {
		return l.gauges.last, nil
	}
	began := time.Now()
	got, err := l.count(ctx)
	if err != nil {
		return nil, fmt.Errorf("count the backlog: %w", err)
	}
	took, err := l.cost(ctx, time.Since(began))
	if err != nil {
		return nil, fmt.Errorf("count the backlog: %w", err)
	}
	l.gauges.last, l.gauges.took, l.gauges.at = got, took, time.Now()
	return got, nil
}

func (l *Ledger) count(ctx context.Context) ([]notifier.Backlog, error) {
	const count = `SELECT lane, state, reason, n, oldest FROM (
		SELECT lane, CASE status WHEN 0 THEN 'pending' ELSE 'sending' END AS state, CASE status WHEN 0 THEN 'due' ELSE '' END AS reason,
			count(*) AS n, min(due) FILTER (WHERE status = 0) AS oldest FROM q GROUP BY 1, 2, 3
		UNION ALL SELECT lane, 'pending', ` + waitReason + `, count(*), min(due) FILTER (WHERE due <= $1) FROM later GROUP BY 1, 3
		UNION ALL SELECT o.lane, 'unknown', o.reason, count(*), NULL FROM outcome o WHERE o.state = 'unknown' AND NOT EXISTS (
			SELECT 1 FROM evidence e WHERE e.nid = o.nid AND e.ch = o.ch AND e.kind = 'late' AND e.outcome = 'sent') GROUP BY 1, 3) x`
	now, err := l.readNow(ctx)
	if err != nil {
		return nil, err
	}
	lanes, err := l.allLanes(ctx, l.reads)
	if err != nil {
		return nil, err
	}
	rows, err := l.reads.Query(ctx, count, now)
	if err != nil {
		return nil, err
	}
	type key struct {
		channel notifier.Channel
		state   notifier.State
		reason  notifier.Reason
	}
	sums := make(map[key]notifier.Backlog)
	oldest := make(map[notifier.Channel]key)
	var (
		id  int16
		k   key
		n   int
		due *time.Time
	)
	_, err = pgx.ForEachRow(rows, []any{&id, &k.state, &k.reason, &n, &due}, func() error {
		k.channel = lanes[id].Channel
		b := sums[k]
		b.Channel, b.State, b.Reason, b.Count = k.channel, k.state, k.reason, b.Count+n
		if due != nil && (b.OldestDue.IsZero() || due.Before(b.OldestDue)) {
			b.OldestDue = due.UTC()
		}
		sums[k] = b
		if first, ok := oldest[k.channel]; !b.OldestDue.IsZero() && (!ok || b.OldestDue.Before(sums[first].OldestDue)) {
			oldest[k.channel] = k
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	for k, b := range sums {
		if oldest[k.channel] != k {
			b.OldestDue = time.Time{}
			sums[k] = b
		}
	}
	return slices.SortedFunc(maps.Values(sums), func(a, b notifier.Backlog) int {
		return cmp.Or(cmp.Compare(a.Channel, b.Channel), cmp.Compare(a.State, b.State), cmp.Compare(a.Reason, b.Reason))
	}), nil
}

// Unknowns counts what ended unknown and nobody's later word has settled, by type.
func (l *Ledger) Unknowns(ctx context.Context) ([]notifier.Unknowns, error) {
	const unknown = `SELECT p.type, count(*), min(o.finished_at) FROM outcome o JOIN notification n ON n.nid = o.nid JOIN policy p ON p.id = n.policy
		WHERE o.state = 'unknown' AND NOT EXISTS (SELECT 1 FROM evidence e
			WHERE e.nid = o.nid AND e.ch = o.ch AND e.kind = 'late' AND e.outcome = 'sent')
		GROUP BY 1 ORDER BY 1`
	rows, err := l.reads.Query(ctx, unknown)
	if err != nil {
		return nil, fmt.Errorf("count the unknown outcomes: %w", err)
	}
	var out []notifier.Unknowns
	var u notifier.Unknowns
	_, err = pgx.ForEachRow(rows, []any{&u.Type, &u.Count, &u.Oldest}, func() error {
		u.Oldest = u.Oldest.UTC()
		out = append(out, u)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("count the unknown outcomes: %w", err)
	}
	return out, nil
}

// Spent calls yield with every cap unit that was taken since a time by an
// attempt that may have reached the person, and by those under way. The time
// is the attempt's start, or its lease's where nobody said when it started.
// An error of yield ends the walk and is returned.
func (l *Ledger) Spent(ctx context.Context, since time.Time, yield func(notifier.Spent) error) error {
	const spent = `SELECT s.nid, s.ch, s.unit, s.at, l.channel, d.caps FROM (
			SELECT nid, ch, unit, spent_at AS at FROM outcome WHERE spent_at >= $1
			UNION ALL SELECT nid, ch, unit, spent_at FROM attempt_end WHERE spent_at >= $1
			UNION ALL SELECT nid, ch, maybe + 1, leased_at FROM q WHERE capped AND leased_at >= $1
				AND (status = 2 OR status = 1 AND ord <> 'claim_first')
		) s JOIN delivery d ON d.nid = s.nid AND d.ch = s.ch JOIN lane l ON l.id = d.lane`
	conn, err := l.reads.Acquire(ctx)
	if err != nil {
		return fmt.Errorf("read the cap units: %w", err)
	}
	defer conn.Release()
	// A rebuild reads a day, at the speed of those who take it in.
	if _, err := conn.Exec(ctx, `SET statement_timeout = 0`); err != nil {
		return fmt.Errorf("read the cap units: %w", err)
	}
	defer func() {
		if _, e := conn.Exec(context.WithoutCancel(ctx), `RESET statement_timeout`); e != nil {
			conn.Conn().Close(context.WithoutCancel(ctx)) // not to be used by anybody with no time-out
		}
	}()
	rows, err := conn.Query(ctx, spent, since)
	if err != nil {
		return fmt.Errorf("read the cap units: %w", err)
	}
	var (
		nid      [16]byte
		id       notifier.DeliveryID
		unit     int
		at       time.Time
		channel  notifier.Channel
		capsJSON string
	)
	_, err = pgx.ForEachRow(rows, []any{&nid, &id.Ordinal, &unit, &at, &channel, &capsJSON}, func() error {
		id.Notification = nid
		caps, err := ledger.DecodeCaps(capsJSON)
		if err != nil {
			return err
		}
		for _, c := range caps {
			s := notifier.Spent{Cap: c, Unit: notifier.CapUnit(id.Notification, channel, unit), Holder: id, SpentAt: at.UTC()}
			if err := yield(s); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("read the cap units: %w", err)
	}
	return nil
}
