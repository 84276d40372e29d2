package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/seed-4b260dfd/notifier"
)

// The status of queue rows. The API shows the last two both as "sending".
const (
	statusPending = 0
	statusLeased  = 1
	statusSending = 2
)

// held is a row of q or of later, locked, with what its end or its return
// depends on.
type held struct {
	id          notifier.DeliveryID
	lane        int16
	order       notifier.Order
	status      int16
	later       bool
	capped      bool
	fence       int64
	permitFence *int64
	owner       notifier.Owner
	ended       string
	leasedAt    *time.Time
	terms       int32
	tries       int
	maybe       int
	fails       int
	cancel      notifier.Reason
}

const (
	heldColumns  = `q.lane, q.nid, q.ch, q.ord, q.status, false, q.capped, q.fence, q.permit_fence, q.owner, q.ended, q.leased_at, q.terms, q.tries, q.maybe, q.fails, q.cancel`
	laterColumns = `q.lane, q.nid, q.ch, q.ord, 0::smallint, true, q.capped, q.fence, NULL::bigint, q.owner, q.ended, q.leased_at, q.terms, q.tries, q.maybe, q.fails, q.cancel`
)

// collectHeld reads locked rows.
func collectHeld(rows pgx.Rows, each func(*held)) error {
	var h held
	var nid [16]byte
	_, err := pgx.ForEachRow(rows, []any{&h.lane, &nid, &h.id.Ordinal, &h.order, &h.status, &h.later, &h.capped, &h.fence, &h.permitFence,
		&h.owner, &h.ended, &h.leasedAt, &h.terms, &h.tries, &h.maybe, &h.fails, &h.cancel}, func() error {
		row := h
		row.id.Notification = nid
		if h.permitFence != nil {
			f := *h.permitFence
			row.permitFence = &f
		}
		if h.leasedAt != nil {
			t := *h.leasedAt
			row.leasedAt = &t
		}
		each(&row)
		return nil
	})
	return err
}

func count(b bool) int {
	if b {
		return 1
	}
	return 0
}

// changes are the writes of one transaction to rows that it holds locked.
type changes struct {
	l     *Ledger
	now   time.Time
	batch pgx.Batch
}

// run sends the writes. Every one of them is to hit exactly one row.
func (c *changes) run(ctx context.Context, tx pgx.Tx) error {
	if c.batch.Len() == 0 {
		return nil
	}
	results := tx.SendBatch(ctx, &c.batch)
	for range c.batch.Len() {
		tag, err := results.Exec()
		if err == nil && tag.RowsAffected() != 1 {
			err = fmt.Errorf("%d rows were changed: %w", tag.RowsAffected(), errMissing)
		}
		if err != nil {
			results.Close()
			return err
		}
	}
	return results.Close()
}

// record adds the end of an attempt that did not finish the delivery. The
// counters of h have the attempt in them, so maybe is the number of its unit.
func (c *changes) record(h *held, ended, outcome string, a notifier.Attempt, maybe bool) {
	const insert = `INSERT INTO attempt_end (nid, ch, fence, owner, ended, outcome, reason, maybe, provider_status, provider_id, started_at, finished_at, unit, spent_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)`
	var spentAt *time.Time
	if maybe && h.capped {
		if spentAt = h.leasedAt; !a.StartedAt.IsZero() {
			spentAt = &a.StartedAt
		}
	}
	c.batch.Queue(insert, [16]byte(h.id.Notification), h.id.Ordinal, h.fence, h.owner, ended, outcome, a.Reason, maybe, text(a.ProviderStatus), text(a.ProviderID),
		orNull(a.StartedAt), c.now, h.maybe, spentAt)
}

// finish ends a delivery without a call of its own: row out, outcome in.
func (c *changes) finish(h *held, closed string, state notifier.State, reason notifier.Reason) {
	const insert = `INSERT INTO outcome (nid, ch, lane, ord, state, reason, fence, permit_fence, owner, closed, tries, maybe, finished_at, called, outcome,
			attempt_reason, provider_status, provider_id, unit)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, false, '', '', '', '', 0)`
	c.takeOut(h)
	c.batch.Queue(insert, [16]byte(h.id.Notification), h.id.Ordinal, h.lane, h.order, state, reason, h.fence, h.permitFence, h.owner, closed,
		h.tries, h.maybe, c.now)
}

// takeOut removes a row from where it is.
func (c *changes) takeOut(h *held) {
	const (
		fromQ     = `DELETE FROM q WHERE lane = $1 AND nid = $2 AND ch = $3`
		fromLater = `DELETE FROM later WHERE nid = $1 AND ch = $2`
	)
	c.l.lanes.forget(h.id)
	if h.later {
		c.batch.Queue(fromLater, [16]byte(h.id.Notification), h.id.Ordinal)
		return
	}
	c.batch.Queue(fromQ, h.lane, [16]byte(h.id.Notification), h.id.Ordinal)
}

// requeue makes a delivery wait again, in later also when it is due at once: a
// row that came from there, and is old, stands in q far behind the watermark,
// where no lease would look for it. The fence stays, and so does the owner, for
// whoever asks later what became of the lease.
func (c *changes) requeue(h *held, ended string, reason notifier.Reason, after time.Duration) {
	const wait = `WITH d AS (DELETE FROM q WHERE lane = $1 AND nid = $2 AND ch = $3 RETURNING *)
			INSERT INTO later (lane, nid, ch, ord, capped, reason, fence, owner, ended, leased_at, due, expires_at, lease_ms, terms, tries, maybe, fails, cancel)
			SELECT lane, nid, ch, ord, capped, $9, fence, owner, $4, leased_at, $5, expires_at, lease_ms, terms, $6, $7, $8, cancel FROM d`
	c.l.lanes.forget(h.id)
	c.batch.Queue(wait, h.lane, [16]byte(h.id.Notification), h.id.Ordinal, ended, c.now.Add(after), h.tries, h.maybe, h.fails, reason)
}
