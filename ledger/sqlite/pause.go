package sqlite

import (
	"context"
	"fmt"
	"time"

	"github.com/seed-4b260dfd/notifier"
	"github.com/seed-4b260dfd/notifier/ledger"
)

const pauseColumns = `p.id, p.type, p.channel, p.account, p.tenant, p.ord, p.cause, p.why, p.placed_by, p.since, p.until, p.resumed_at, p.resumed_by, p.resume_why`

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
		return w.pauseOf(r), nil
	}
	p.ID, p.Since, p.Until = notifier.PauseID(w.minter.mint(w.now)), w.now, fromMicros(until)
	_, err = w.exec(insert, p.ID, p.Type, channel, p.Account, p.Tenant, order, cause, p.Why, p.By, micros(w.now), until)
	return p, err
}

func (w *writer) pauseOf(r row) notifier.Pause {
	return notifier.Pause{
		ID: r.str(0), Type: r.str(1), Channel: notifier.Channel(r.str(2)), Account: r.str(3), Tenant: r.str(4), Order: notifier.Order(r.str(5)),
		Cause: notifier.PauseCause(r.str(6)), Why: r.str(7), By: r.str(8), Since: r.time(9), Until: r.time(10),
		EndedAt: ledger.PauseEnd(r.time(10), r.time(11), w.now), EndedBy: r.str(12), EndedWhy: r.str(13),
	}
}

// Resume ends a pause. It writes one row, however many deliveries wait: the
// sweeps make them due slice by slice, and a crash between two of them leaves
// the rest to the sweeps of the next start.
func (l *Ledger) Resume(ctx context.Context, id, by, why string) (p notifier.Pause, ended bool, err error) {
	const (
		find = `SELECT ` + pauseColumns + ` FROM pause p WHERE p.id = ?`
		// Only the call that ends it leaves a name. Said again, it is looked at again.
		end   = `UPDATE pause AS p SET resumed_at = ?, resumed_by = ?, resume_why = ? WHERE p.id = ? AND ` + inForce
		again = `UPDATE pause SET resumed_at = CASE resumed_at WHEN 0 THEN ? ELSE resumed_at END, released = 0 WHERE id = ?`
	)
	err = l.write(ctx, func(w *writer) error {
		n, err := w.exec(end, micros(w.now), by, why, id, micros(w.now))
		if err != nil {
			return err
		}
		ended = n > 0
		if _, err := w.exec(again, micros(w.now), id); err != nil {
			return err
		}
		r, err := w.first(find, id)
		switch {
		case err != nil:
			return err
		case r == nil:
			return &notifier.Error{Code: notifier.CodeNotFound, Message: "there is no such pause"}
		}
		p = w.pauseOf(r)
		return nil
	})
	if err != nil {
		return notifier.Pause{}, false, fmt.Errorf("resume: %w", err)
	}
	return p, ended, nil
}

// Pauses returns the pauses in force, oldest first.
func (l *Ledger) Pauses(ctx context.Context) ([]notifier.Pause, error) {
	const list = `SELECT ` + pauseColumns + ` FROM pause p WHERE ` + inForce + ` ORDER BY p.since, p.id`
	return l.listPauses(ctx, list, micros(l.now()))
}

// endedPauses bounds how many are listed.
const endedPauses = 200

// PausesEnded returns the pauses that have ended since a time, the last first.
func (l *Ledger) PausesEnded(ctx context.Context, since time.Time) ([]notifier.Pause, error) {
	const (
		over = `CASE WHEN p.until > 0 AND (p.resumed_at = 0 OR p.until < p.resumed_at) THEN p.until ELSE p.resumed_at END`
		list = `SELECT ` + pauseColumns + ` FROM pause p WHERE NOT (` + inForce + `) AND ` + over + ` >= ? ORDER BY ` + over + ` DESC, p.id LIMIT ?`
	)
	return l.listPauses(ctx, list, micros(l.now()), micros(since), int64(endedPauses))
}

func (l *Ledger) listPauses(ctx context.Context, list string, args ...any) (out []notifier.Pause, err error) {
	now := l.now()
	err = query(ctx, l.reads, list, func(scan func(...any) error) error {
		var p notifier.Pause
		var since, until, resumed int64
		err := scan(&p.ID, &p.Type, &p.Channel, &p.Account, &p.Tenant, &p.Order, &p.Cause, &p.Why, &p.By, &since, &until, &resumed, &p.EndedBy, &p.EndedWhy)
		p.Since, p.Until = fromMicros(since), fromMicros(until)
		p.EndedAt = ledger.PauseEnd(p.Until, fromMicros(resumed), now)
		out = append(out, p)
		return err
	}, args...)
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
