package sqlite

import (
	"context"
	"fmt"
	"time"

	"github.com/seed-4b260dfd/notifier"
)

// waitReason is the reason of a queue row as of a time: what waited for the
// clock alone is due once its time has come.
const waitReason = `CASE WHEN due <= ? AND reason IN ('scheduled', 'backoff', 'throttled', 'cap', 'quiet_hours') THEN 'due' ELSE reason END`

// Lanes returns the lanes that hold deliveries that are not finished, with the
// time at which the first of each is due. For a lane in which all are leased
// that is when the sweep may hand one back: a second after the first lease
// ends, and never in the past.
func (l *Ledger) Lanes(ctx context.Context) (map[notifier.Lane]time.Time, error) {
	const (
		waiting = `SELECT * FROM (SELECT l.channel, l.account, l.priority, (SELECT q.due FROM queue q
				WHERE q.state = 'pending' AND q.lane = l.id AND q.expires_at > ? ORDER BY q.due LIMIT 1) AS due FROM lane l)
			WHERE due IS NOT NULL`
		open = `SELECT l.channel, l.account, l.priority, max(min(q.lease_until), ?) + 1000000
			FROM queue q INDEXED BY queue_open CROSS JOIN lane l ON l.id = q.lane WHERE q.state <> 'pending' GROUP BY l.id`
	)
	out := make(map[notifier.Lane]time.Time)
	add := func(scan func(...any) error) error {
		var lane notifier.Lane
		var due int64
		if err := scan(&lane.Channel, &lane.Account, &lane.Priority, &due); err != nil {
			return err
		}
		if _, ok := out[lane]; !ok {
			out[lane] = fromMicros(due)
		}
		return nil
	}
	now := micros(l.now())
	for _, text := range []string{waiting, open} {
		if err := query(ctx, l.reads, text, add, now); err != nil {
			return nil, fmt.Errorf("list the lanes: %w", err)
		}
	}
	return out, nil
}

// Backlog counts what is not finished, and what ended unknown and nobody's
// later word has settled, for the gauges. It reads the whole queue.
func (l *Ledger) Backlog(ctx context.Context) ([]notifier.Backlog, error) {
	const (
		open = `SELECT l.channel, q.state, q.why, sum(q.n), min(q.due) FROM (
				SELECT lane, CASE state WHEN 'pending' THEN 'pending' ELSE 'sending' END AS state, ` + waitReason + ` AS why,
					count(*) AS n, min(CASE WHEN state = 'pending' AND due <= ? THEN due END) AS due
				FROM queue GROUP BY 1, 2, 3) q CROSS JOIN lane l ON l.id = q.lane GROUP BY 1, 2, 3 ORDER BY 1, 2, 3`
		unknown = `SELECT l.channel, o.state, o.reason, count(*), NULL FROM outcome o INDEXED BY outcome_unknown
			CROSS JOIN delivery d ON d.d = o.d CROSS JOIN lane l ON l.id = d.lane
			WHERE o.state = 'unknown' AND NOT EXISTS (SELECT 1 FROM evidence e
				WHERE e.nid = o.nid AND e.ch = o.ch AND e.kind = 'late' AND e.outcome = 'sent')
			GROUP BY 1, 2, 3 ORDER BY 1, 2, 3`
	)
	var out []notifier.Backlog
	add := func(scan func(...any) error) error {
		var b notifier.Backlog
		var due *int64
		if err := scan(&b.Channel, &b.State, &b.Reason, &b.Count, &due); err != nil {
			return err
		}
		if due != nil {
			b.OldestDue = fromMicros(*due)
		}
		out = append(out, b)
		return nil
	}
	now := micros(l.now())
	if err := query(ctx, l.reads, open, add, now, now); err != nil {
		return nil, fmt.Errorf("count the backlog: %w", err)
	}
	if err := query(ctx, l.reads, unknown, add); err != nil {
		return nil, fmt.Errorf("count what ended unknown: %w", err)
	}
	return out, nil
}
