package sqlite

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/seed-4b260dfd/notifier"
)

// waitReason is the reason of a queue row as of a time: what waited for the
// clock alone is due once its time has come.
const waitReason = `CASE WHEN timed AND due <= ? THEN 'due' ELSE reason END`

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
// later word has settled, for the gauges. OldestDue stands on the entry of the
// oldest due delivery of each lane alone.
func (l *Ledger) Backlog(ctx context.Context) ([]notifier.Backlog, error) {
	const (
		lanes   = `SELECT id, channel FROM lane`
		overdue = `SELECT lane, reason, count(*) FROM queue INDEXED BY queue_timed
			WHERE timed AND due <= ? GROUP BY lane, reason`
		oldest = `SELECT l.id, q.due, ` + waitReason + ` FROM lane l CROSS JOIN queue q ON (q.nid, q.ch) = (
				SELECT f.nid, f.ch FROM queue f WHERE f.state = 'pending' AND f.lane = l.id ORDER BY f.due LIMIT 1)
			WHERE q.due <= ?`
		unknown = `SELECT l.id, o.reason, count(*) FROM outcome o INDEXED BY outcome_unknown
			CROSS JOIN delivery d ON d.d = o.d CROSS JOIN lane l ON l.id = d.lane
			WHERE o.state = 'unknown' AND NOT EXISTS (SELECT 1 FROM evidence e
				WHERE e.nid = o.nid AND e.ch = o.ch AND e.kind = 'late' AND e.outcome = 'sent')
			GROUP BY 1, 2`
	)
	counts, err := l.tally.now(ctx)
	if err != nil {
		return nil, fmt.Errorf("count the backlog: %w", err)
	}
	now := micros(l.now())
	b := backlog{channels: make(map[int64]notifier.Channel), due: make(map[tallyKey]int64)}
	for _, step := range []struct {
		text string
		each func(scan func(...any) error) error
		args []any
	}{
		{lanes, b.lane, nil},
		{overdue, func(scan func(...any) error) error { return b.overdue(scan, counts) }, []any{now}},
		{unknown, func(scan func(...any) error) error { return b.unknown(scan, counts) }, nil},
		{oldest, b.oldest, []any{now, now}},
	} {
		if err := query(ctx, l.reads, step.text, step.each, step.args...); err != nil {
			return nil, fmt.Errorf("count the backlog: %w", err)
		}
	}
	return b.sum(counts), nil
}

// backlog puts counts by lane together by channel.
type backlog struct {
	channels map[int64]notifier.Channel
	due      map[tallyKey]int64
}

func (b *backlog) lane(scan func(...any) error) error {
	var id int64
	var c notifier.Channel
	err := scan(&id, &c)
	b.channels[id] = c
	return err
}

// overdue moves what is due by now to that reason. The counts are from a
// moment before, so there may be fewer of them.
func (b *backlog) overdue(scan func(...any) error, counts map[tallyKey]int64) error {
	k, n := tallyKey{state: notifier.StatePending}, int64(0)
	if err := scan(&k.lane, &k.reason, &n); err != nil {
		return err
	}
	n = min(n, counts[k])
	counts[k] -= n
	k.reason = notifier.ReasonDue
	counts[k] += n
	return nil
}

func (b *backlog) unknown(scan func(...any) error, counts map[tallyKey]int64) error {
	k, n := tallyKey{state: notifier.StateUnknown}, int64(0)
	err := scan(&k.lane, &k.reason, &n)
	counts[k] += n
	return err
}

func (b *backlog) oldest(scan func(...any) error) error {
	k, due := tallyKey{state: notifier.StatePending}, int64(0)
	err := scan(&k.lane, &due, &k.reason)
	b.due[k] = due
	return err
}

func (b *backlog) sum(counts map[tallyKey]int64) []notifier.Backlog {
	type key struct {
		channel notifier.Channel
		state   notifier.State
		reason  notifier.Reason
	}
	sums := make(map[key]notifier.Backlog)
	for k, n := range counts {
		if n <= 0 {
			continue
		}
		x := key{b.channels[k.lane], k.state, k.reason}
		s := sums[x]
		s.Channel, s.State, s.Reason, s.Count = x.channel, x.state, x.reason, s.Count+int(n)
		if due, ok := b.due[k]; ok && (s.OldestDue.IsZero() || fromMicros(due).Before(s.OldestDue)) {
			s.OldestDue = fromMicros(due)
		}
		sums[x] = s
	}
	return slices.SortedFunc(maps.Values(sums), func(a, b notifier.Backlog) int {
		return cmp.Or(cmp.Compare(a.Channel, b.Channel), cmp.Compare(a.State, b.State), cmp.Compare(a.Reason, b.Reason))
	})
}

// Unknowns counts what ended unknown and nobody's later word has settled, by type.
func (l *Ledger) Unknowns(ctx context.Context) ([]notifier.Unknowns, error) {
	const unknown = `SELECT n.type, count(*), min(o.finished_at) FROM outcome o INDEXED BY outcome_unknown
		CROSS JOIN notification n ON n.n = o.d - o.ch
		WHERE o.state = 'unknown' AND NOT EXISTS (SELECT 1 FROM evidence e
			WHERE e.nid = o.nid AND e.ch = o.ch AND e.kind = 'late' AND e.outcome = 'sent')
		GROUP BY 1 ORDER BY 1`
	var out []notifier.Unknowns
	each := func(scan func(...any) error) error {
		var u notifier.Unknowns
		var oldest int64
		if err := scan(&u.Type, &u.Count, &oldest); err != nil {
			return err
		}
		u.Oldest = fromMicros(oldest)
		out = append(out, u)
		return nil
	}
	if err := query(ctx, l.reads, unknown, each); err != nil {
		return nil, fmt.Errorf("count the unknown outcomes: %w", err)
	}
	return out, nil
}
