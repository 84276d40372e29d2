package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/seed-4b260dfd/notifier"
	"github.com/seed-4b260dfd/notifier/ledger"
)

const pauseColumns = `p.id, p.type, p.channel, p.account, p.tenant, p.ord, p.cause, p.why, p.placed_by, p.since, p.until, p.resumed_at, p.resumed_by, p.resume_why`

// inForce holds for pauses that are not over as of a time. Once the sweep has
// seen one over it is over, also when the clock is set back.
const inForce = `NOT p.released AND p.resumed_at IS NULL AND (p.until IS NULL OR p.until > $1)`

// releaseSlice is how many deliveries one sweep makes due again after a pause:
// as many as can be sent until the next, in a statement that ends soon.
const releaseSlice = 5000

// Pause places a pause. The same one placed again while it is in force gives
// the first: who lost the answer may ask again. Two nodes that place it at the
// same moment take turns.
func (l *Ledger) Pause(ctx context.Context, p notifier.Pause) (notifier.Pause, error) {
	const (
		turn = `SELECT pg_advisory_xact_lock(hashtextextended('notifier pauses', 0))`
		same = `SELECT ` + pauseColumns + ` FROM pause p WHERE p.type = $2 AND p.channel = $3 AND p.account = $4 AND p.tenant = $5
			AND p.ord = $6 AND p.cause = $7 AND p.until IS NOT DISTINCT FROM $8 AND ` + inForce + ` ORDER BY p.since, p.id LIMIT 1`
		insert = `INSERT INTO pause (id, type, channel, account, tenant, ord, cause, why, placed_by, since, until)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)`
	)
	err := l.begin(ctx, func(tx pgx.Tx, now time.Time) error {
		if _, err := tx.Exec(ctx, turn); err != nil {
			return fmt.Errorf("wait for other pauses: %w", err)
		}
		p.Until = p.Until.Truncate(time.Microsecond)
		first, err := readPauses(ctx, tx, now, same, now, p.Type, p.Channel, p.Account, p.Tenant, p.Order, p.Cause, orNull(p.Until))
		if err != nil {
			return fmt.Errorf("look for the same: %w", err)
		}
		if len(first) > 0 {
			p = first[0]
			return nil
		}
		p.ID, p.Since = notifier.PauseID(l.minter.now(now)), now
		if !p.Until.IsZero() {
			p.Until = p.Until.UTC()
		}
		_, err = tx.Exec(ctx, insert, p.ID, p.Type, p.Channel, p.Account, p.Tenant, p.Order, p.Cause, p.Why, p.By, now, orNull(p.Until))
		return err
	})
	if err != nil {
		return notifier.Pause{}, fmt.Errorf("pause: %w", err)
	}
	return p, nil
}

// readPauses reads pauses as of a time.
func readPauses(ctx context.Context, db querier, now time.Time, text string, args ...any) (out []notifier.Pause, err error) {
	rows, err := db.Query(ctx, text, args...)
	if err != nil {
		return nil, err
	}
	var p notifier.Pause
	var since time.Time
	var until, resumed pgtype.Timestamptz
	_, err = pgx.ForEachRow(rows, []any{&p.ID, &p.Type, &p.Channel, &p.Account, &p.Tenant, &p.Order, &p.Cause, &p.Why, &p.By, &since, &until,
		&resumed, &p.EndedBy, &p.EndedWhy}, func() error {
		p.Since, p.Until = since.UTC(), timeOf(until)
		p.EndedAt = ledger.PauseEnd(p.Until, timeOf(resumed), now)
		out = append(out, p)
		return nil
	})
	return out, err
}

// Resume ends a pause. It writes one row, however many deliveries wait: the
// sweeps make them due slice by slice, on whichever node, and a crash between
// two of them leaves the rest to the next.
func (l *Ledger) Resume(ctx context.Context, id, by, why string) (p notifier.Pause, ended bool, err error) {
	const (
		// Only the call that ends it leaves a name. Said again, it is looked at again.
		end   = `UPDATE pause p SET resumed_at = $1, resumed_by = $3, resume_why = $4 WHERE p.id = $2 AND ` + inForce
		again = `UPDATE pause p SET resumed_at = coalesce(resumed_at, $1), released = false WHERE id = $2 RETURNING ` + pauseColumns
	)
	var got []notifier.Pause
	err = l.begin(ctx, func(tx pgx.Tx, now time.Time) error {
		tag, err := tx.Exec(ctx, end, now, text(id), text(by), text(why))
		if err != nil {
			return err
		}
		ended = tag.RowsAffected() > 0
		got, err = readPauses(ctx, tx, now, again, now, text(id))
		return err
	})
	switch {
	case err != nil:
		return notifier.Pause{}, false, fmt.Errorf("resume: %w", err)
	case len(got) == 0:
		return notifier.Pause{}, false, &notifier.Error{Code: notifier.CodeNotFound, Message: "there is no such pause"}
	}
	return got[0], ended, nil
}

// endedPauses bounds how many are listed.
const endedPauses = 200

// PausesEnded returns the pauses that have ended since a time, the last first.
func (l *Ledger) PausesEnded(ctx context.Context, since time.Time) ([]notifier.Pause, error) {
	const list = `SELECT ` + pauseColumns + ` FROM pause p WHERE NOT (` + inForce + `) AND least(p.until, p.resumed_at) >= $2
		ORDER BY least(p.until, p.resumed_at) DESC, p.id LIMIT $3`
	now, err := l.readNow(ctx)
	if err == nil {
		var out []notifier.Pause
		if out, err = readPauses(ctx, l.reads, now, list, now, since, endedPauses); err == nil {
			return out, nil
		}
	}
	return nil, fmt.Errorf("list the pauses: %w", err)
}

// Pauses returns the pauses in force, oldest first.
func (l *Ledger) Pauses(ctx context.Context) ([]notifier.Pause, error) {
	// The time is a parameter here, so that this reads the same as in Pause.
	const list = `SELECT ` + pauseColumns + ` FROM pause p WHERE ` + inForce + ` ORDER BY p.since, p.id`
	now, err := l.readNow(ctx)
	if err == nil {
		var out []notifier.Pause
		if out, err = readPauses(ctx, l.reads, now, list, now); err == nil {
			return out, nil
		}
	}
	return nil, fmt.Errorf("list the pauses: %w", err)
}

// release makes due what waits as paused and no pause in force holds any more,
// a slice of it. While no pause has ended since the last whole pass it reads
// one small table and is done.
func (l *Ledger) release(ctx context.Context) error {
	const (
		over = `SELECT true FROM pause p WHERE NOT p.released AND NOT (` + inForce + `) LIMIT 1`
		due  = `UPDATE later SET reason = 'due', due = $1 WHERE ctid = ANY (ARRAY (
			SELECT r.ctid FROM later r JOIN lane l ON l.id = r.lane JOIN notification n ON n.nid = r.nid JOIN policy w ON w.id = n.policy
			WHERE r.reason = 'paused' AND r.due > $1 AND NOT EXISTS (SELECT 1 FROM pause p WHERE ` + inForce + `
				AND p.type IN ('', w.type) AND p.channel IN ('', l.channel) AND p.account IN ('', l.account)
				AND p.tenant IN ('', n.tenant) AND p.ord IN ('', w.ord))
			LIMIT $2 FOR UPDATE OF r))`
		turn = `SELECT pg_try_advisory_xact_lock(hashtextextended('notifier release', 0))`
		done = `UPDATE pause p SET released = true WHERE NOT p.released AND NOT (` + inForce + `)`
	)
	now, err := l.readNow(ctx)
	if err != nil {
		return err
	}
	var ended bool
	switch err := l.hot.QueryRow(ctx, over, now).Scan(&ended); {
	case errors.Is(err, pgx.ErrNoRows):
		return nil
	case err != nil:
		return fmt.Errorf("look for pauses that are over: %w", err)
	}
	return l.begin(ctx, func(tx pgx.Tx, now time.Time) error {
		// What waits has no index by reason; this happens after a pause only.
		if _, err := tx.Exec(ctx, `SET LOCAL enable_seqscan = on`); err != nil {
			return err
		}
		// One node at a time: another would pass over the rows that this one
		// holds, find no more, and call the pause done.
		var mine bool
		if err := tx.QueryRow(ctx, turn).Scan(&mine); err != nil || !mine {
			return err
		}
		tag, err := tx.Exec(ctx, due, now, releaseSlice)
		if err != nil {
			return fmt.Errorf("make due what no pause holds: %w", err)
		}
		if tag.RowsAffected() == releaseSlice {
			return nil // perhaps there is more
		}
		_, err = tx.Exec(ctx, done, now)
		return err
	})
}
