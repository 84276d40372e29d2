package sqlite

import (
	"context"
	"fmt"

	"github.com/seed-4b260dfd/notifier"
)

const pauseColumns = `p.id, p.type, p.channel, p.account, p.tenant, p.ord, p.cause, p.why, p.placed_by, p.since, p.until`

// inForce holds for pauses that are not over as of a time. Once the sweep has
// seen one over it is over, also when the clock is set back.
const inForce = `p.released = 0 AND p.resumed_at = 0 AND (p.until = 0 OR p.until > ?)`

// releaseSlice is how many deliveries one sweep makes due again after a pause:
// as many as can be sent until the next, and few enough not to keep the others
// who wait for the writer waiting.
const releaseSlice = 5000

// Pause places a pause. The same one placed again while it is in force gives
// the first: who lost the answer may ask again.
func (l *Ledger) Pause(ctx context.Context, p notifier.Pause) (notifier.Pause, error) {
	err := l.write(ctx, func(w *writer) (err error) {
		p, err = w.pause(p)
		return err
	})
	if err != nil {
		return notifier.Pause{}, fmt.Errorf("pause: %w", err)
	}
	return p, nil
}

func (w *writer) pause(p notifier.Pause) (notifier.Pause, error) {
	const (
		same = `SELECT ` + pauseColumns + ` FROM pause p WHERE p.type = ? AND p.channel = ? AND p.account = ? AND p.tenant = ?
			AND p.ord = ? AND p.cause = ? AND p.until = ? AND ` + inForce + ` ORDER BY p.since, p.id LIMIT 1`
		insert = `INSERT INTO pause (id, type, channel, account, tenant, ord, cause, why, placed_by, since, until, resumed_at, released)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0, 0)`
	)
	channel, order, cause, until := string(p.Channel), string(p.Order), string(p.Cause), micros(p.Until)
	r, err := w.first(same, p.Type, channel, p.Account, p.Tenant, order, cause, until, micros(w.now))
	if err != nil {
		return p, fmt.Errorf("look for the same: %w", err)
	}
	if r != nil {
		return pauseOf(r), nil
	}
	p.ID, p.Since, p.Until = notifier.PauseID(w.minter.mint(w.now)), w.now, fromMicros(until)
	_, err = w.exec(insert, p.ID, p.Type, channel, p.Account, p.Tenant, order, cause, p.Why, p.By, micros(w.now), until)
	return p, err
}

func pauseOf(r row) notifier.Pause {
	return notifier.Pause{
		ID: r.str(0), Type: r.str(1), Channel: notifier.Channel(r.str(2)), Account: r.str(3), Tenant: r.str(4), Order: notifier.Order(r.str(5)),
		Cause: notifier.PauseCause(r.str(6)), Why: r.str(7), By: r.str(8), Since: r.time(9), Until: r.time(10),
	}
}

// Resume ends a pause. It writes one row, however many deliveries wait: the
// sweeps make them due slice by slice, and a crash between two of them leaves
// the rest to the sweeps of the next start.
func (l *Ledger) Resume(ctx context.Context, id string) (notifier.Pause, error) {
	const (
		find   = `SELECT ` + pauseColumns + ` FROM pause p WHERE p.id = ?`
		resume = `UPDATE pause SET resumed_at = CASE resumed_at WHEN 0 THEN ? ELSE resumed_at END, released = 0 WHERE id = ?`
	)
	var p notifier.Pause
	err := l.write(ctx, func(w *writer) error {
		r, err := w.first(find, id)
		if err != nil {
			return err
		}
		if r == nil {
			return &notifier.Error{Code: notifier.CodeNotFound, Message: "there is no such pause"}
		}
		p = pauseOf(r)
		_, err = w.exec(resume, micros(w.now), id)
		return err
	})
	if err != nil {
		return notifier.Pause{}, fmt.Errorf("resume: %w", err)
	}
	return p, nil
}

// Pauses returns the pauses in force, oldest first.
func (l *Ledger) Pauses(ctx context.Context) ([]notifier.Pause, error) {
	const list = `SELECT ` + pauseColumns + ` FROM pause p WHERE ` + inForce + ` ORDER BY p.since, p.id`
	var out []notifier.Pause
	err := query(ctx, l.reads, list, func(scan func(...any) error) error {
		var p notifier.Pause
		var since, until int64
		err := scan(&p.ID, &p.Type, &p.Channel, &p.Account, &p.Tenant, &p.Order, &p.Cause, &p.Why, &p.By, &since, &until)
		p.Since, p.Until = fromMicros(since), fromMicros(until)
		out = append(out, p)
		return err
	}, micros(l.now()))
	if err != nil {
		return nil, fmt.Errorf("list the pauses: %w", err)
	}
	return out, nil
}

// release makes due what waits as paused and no pause in force holds any more,
// a slice of it. While no pause has ended since the last whole pass it reads
// one small table and is done.
func (w *writer) release() error {
	const (
		over = `EXISTS (SELECT 1 FROM pause p WHERE p.released = 0 AND NOT (` + inForce + `))`
		find = `SELECT q.nid, q.ch, q.lane
			FROM queue q INDEXED BY queue_timed CROSS JOIN notification n ON n.n = q.d - q.ch CROSS JOIN lane l ON l.id = q.lane
			WHERE q.timed AND q.due > ? AND q.reason = 'paused' AND NOT EXISTS (SELECT 1 FROM pause p WHERE ` + inForce + `
				AND p.type IN ('', n.type) AND p.channel IN ('', l.channel) AND p.account IN ('', l.account)
				AND p.tenant IN ('', n.tenant) AND p.ord IN ('', n.ord))
			LIMIT ?`
		due  = `UPDATE queue SET reason = 'due', timed = 0, due = ? WHERE nid = ? AND ch = ? AND state = 'pending' AND reason = 'paused'`
		done = `UPDATE pause AS p SET released = 1 WHERE p.released = 0 AND NOT (` + inForce + `)`
	)
	now := micros(w.now)
	if r, err := w.first(`SELECT 1 WHERE `+over, now); err != nil || r == nil {
		return err
	}
	type held struct {
		nid      []byte
		ch, lane int64
	}
	var rows []held
	err := w.rows(find, func(r row) error {
		rows = append(rows, held{append([]byte(nil), r.bytes(0)...), r.int(1), r.int(2)})
		return nil
	}, now, now, int64(releaseSlice))
	if err != nil {
		return fmt.Errorf("find what no pause holds: %w", err)
	}
	for _, h := range rows {
		n, err := w.exec(due, now, h.nid, h.ch)
		if err != nil || n != 1 {
			return fmt.Errorf("make due: %w", orMissing(err))
		}
		w.moved[tallyKey{h.lane, notifier.StatePending, notifier.ReasonPaused}]--
		w.moved[tallyKey{h.lane, notifier.StatePending, notifier.ReasonDue}]++
	}
	if len(rows) == releaseSlice {
		return nil // perhaps there is more
	}
	_, err = w.exec(done, now)
	return err
}
