package postgres

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/seed-4b260dfd/notifier"
	"github.com/seed-4b260dfd/notifier/ledger"
)

// completeSQL takes queue rows out and puts outcome rows in, in one statement:
// no crash separates them. completeSuppressSQL places suppressions in it too.
const (
	completeSQL         = completeTakes + completeEnds
	completeSuppressSQL = completeTakes + completePlaces + completeEnds
)

const completeTakes = `WITH t AS MATERIALIZED (SELECT ` + sqlNow + ` AS now),
	s AS MATERIALIZED (SELECT * FROM unnest($2::smallint[], $3::uuid[], $4::int[], $5::bigint[], $7::text[], $8::text[], $9::bool[], $10::text[],
		$11::text[], $12::text[], $13::text[], $14::timestamptz[], $15::bool[])
		AS s(lane, nid, ch, fence, state, reason, called, outcome, attempt_reason, provider_status, provider_id, started_at, arrived)),
	d AS (DELETE FROM q WHERE ctid = ANY (ARRAY (SELECT x.ctid FROM s CROSS JOIN LATERAL (SELECT q2.ctid FROM q q2
			WHERE q2.lane = s.lane AND q2.nid = s.nid AND q2.ch = s.ch AND q2.fence = s.fence AND q2.owner = $6 AND q2.status IN (1, 2) FOR UPDATE) x))
		RETURNING *)`

const completeEnds = `
	INSERT INTO outcome (nid, ch, lane, ord, state, reason, fence, permit_fence, owner, closed, tries, maybe, finished_at, called, outcome,
		attempt_reason, provider_status, provider_id, started_at, unit, spent_at)
	SELECT d.nid, d.ch, d.lane, d.ord, s.state, s.reason, d.fence, d.permit_fence, d.owner, 'complete', d.tries, d.maybe, t.now, s.called, s.outcome,
		s.attempt_reason, s.provider_status, s.provider_id, s.started_at, d.maybe + s.arrived::int,
		CASE WHEN d.capped AND s.arrived THEN coalesce(s.started_at, d.leased_at) END
	FROM d JOIN s USING (nid, ch, fence) CROSS JOIN t
	RETURNING nid, ch, fence`

// Complete ends deliveries for good (T6): queue row out, outcome row in. Said
// again it answers VerdictAlready.
//
// A claim-first call that was made without a permit is written down all the
// same, with no permit_fence: the effect did happen, and Check finds the row.
func (l *Ledger) Complete(ctx context.Context, owner notifier.Owner, done []notifier.Completion) ([]notifier.Settled, error) {
	holds := make([]notifier.Hold, len(done))
	byHold := make(map[notifier.Hold]*notifier.Completion, len(done))
	for i := range done {
		if !done[i].State.Finished() || done[i].State == "" {
			return nil, fmt.Errorf("complete %v: %q is not the end of a delivery", done[i].ID, done[i].State)
		}
		holds[i] = done[i].Hold
		byHold[holds[i]] = &done[i]
	}
	if len(done) == 0 {
		return nil, nil
	}
	written, err := l.guarded(ctx, holds, func(c *holdColumns) (pgx.Rows, error) {
		var e ends
		var p placings
		for i := range c.nid {
			id := notifier.DeliveryID{Notification: c.nid[i], Ordinal: uint16(c.ch[i])}
			end := byHold[notifier.Hold{ID: id, Fence: c.fence[i]}]
			e.add(end)
			if end.Suppress != nil {
				p.add(end.Hold, l.suppressionID(), end.Suppress)
			}
		}
		args := []any{l.now(), c.lane, c.nid, c.ch, c.fence, owner,
			e.state, e.reason, e.called, e.outcome, e.attemptReason, e.status, e.ref, e.started, e.arrived}
		if len(p.id) == 0 {
			return l.hot.Query(ctx, completeSQL, args...)
		}
		return l.hot.Query(ctx, completeSuppressSQL, append(args, p.args()...)...)
	})
	if err != nil {
		return nil, fmt.Errorf("complete: %w", err)
	}
	l.commits.Add(1)
	return l.settled(ctx, owner, done, written)
}

// settled tells apart those that were not written: done before, or fenced off.
// What is still the caller's was changed under the statement's feet, by a
// cancellation perhaps: that is an error, and the caller says it again.
func (l *Ledger) settled(ctx context.Context, owner notifier.Owner, done []notifier.Completion, written []bool) ([]notifier.Settled, error) {
	out := make([]notifier.Settled, len(done))
	seen := make(map[notifier.Hold]bool, len(done))
	for i := range done {
		c := &done[i]
		if written[i] {
			l.lanes.forget(c.ID)
			out[i] = notifier.Settled{Verdict: notifier.VerdictDone, State: c.State, Reason: c.Reason}
			if seen[c.Hold] {
				out[i].Verdict = notifier.VerdictAlready
			}
			seen[c.Hold] = true
			continue
		}
		var err error
		if out[i], err = l.settledBefore(ctx, l.hot, owner, c.Hold, ledger.ClosedComplete); err != nil {
			return nil, fmt.Errorf("complete %v: %w", c.ID, err)
		}
		if out[i].Verdict != notifier.VerdictFenced {
			continue
		}
		mine, err := l.stillMine(ctx, owner, c.Hold)
		if err != nil {
			return nil, fmt.Errorf("complete %v: %w", c.ID, err)
		}
		if mine {
			return nil, fmt.Errorf("complete %v: the row changed meanwhile", c.ID)
		}
	}
	return out, nil
}

func (l *Ledger) stillMine(ctx context.Context, owner notifier.Owner, h notifier.Hold) (mine bool, err error) {
	const find = `SELECT EXISTS (SELECT 1 FROM delivery d JOIN q ON q.lane = d.lane AND q.nid = d.nid AND q.ch = d.ch
		WHERE d.nid = $1 AND d.ch = $2 AND q.fence = $3 AND q.owner = $4 AND q.status IN (1, 2))`
	err = l.hot.QueryRow(ctx, find, [16]byte(h.ID.Notification), h.ID.Ordinal, h.Fence, owner).Scan(&mine)
	return mine, err
}

// settledBefore tells a write that was made before from one that comes too
// late: the outcome row has the owner, the fence and the kind of the write.
func (l *Ledger) settledBefore(ctx context.Context, db querier, owner notifier.Owner, h notifier.Hold, closed string) (notifier.Settled, error) {
	const find = `SELECT state, reason FROM outcome WHERE nid = $1 AND ch = $2 AND fence = $3 AND owner = $4 AND closed = $5`
	s := notifier.Settled{Verdict: notifier.VerdictAlready}
	rows, err := db.Query(ctx, find, [16]byte(h.ID.Notification), h.ID.Ordinal, h.Fence, owner, closed)
	if err != nil {
		return s, fmt.Errorf("read the outcome: %w", err)
	}
	found := false
	if _, err = pgx.ForEachRow(rows, []any{&s.State, &s.Reason}, func() error { found = true; return nil }); err != nil {
		return s, fmt.Errorf("read the outcome: %w", err)
	}
	if !found {
		s = notifier.Settled{Verdict: notifier.VerdictFenced}
	}
	return s, nil
}

// ends are completions, column by column.
type ends struct {
	state, reason, outcome, attemptReason, status, ref []string
	called, arrived                                    []bool
	started                                            []*time.Time
}

func (e *ends) add(c *notifier.Completion) {
	a, outcome := c.Attempt, ""
	if c.Called {
		outcome = a.Outcome.String()
	} else {
		a = notifier.Attempt{}
	}
	e.state, e.reason = append(e.state, string(c.State)), append(e.reason, string(c.Reason))
	e.outcome, e.attemptReason = append(e.outcome, outcome), append(e.attemptReason, string(a.Reason))
	e.status, e.ref = append(e.status, text(a.ProviderStatus)), append(e.ref, text(a.ProviderID))
	e.called, e.arrived = append(e.called, c.Called), append(e.arrived, c.Called && ledger.MayHaveArrived(a.Outcome))
	e.started = append(e.started, orNull(a.StartedAt))
}

// text is what somebody else said, as Postgres takes it: a column of text holds
// no NUL and nothing that is not UTF-8, and an outcome that cannot be written
// down is a message that is sent again.
func text(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
}

// Witness keeps word of attempts whose outcome was already decided. Said again
// it changes nothing.
func (l *Ledger) Witness(ctx context.Context, owner notifier.Owner, evidence []notifier.Evidence) error {
	const insert = `INSERT INTO evidence (nid, ch, fence, owner, kind, outcome, reason, provider_status, provider_id, started_at, at)
		SELECT $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, ` + sqlNow + ` ON CONFLICT DO NOTHING`
	if len(evidence) == 0 {
		return nil
	}
	batch := new(pgx.Batch)
	for i := range evidence {
		e := &evidence[i]
		batch.Queue(insert, l.now(), [16]byte(e.ID.Notification), e.ID.Ordinal, e.Fence, owner, e.Kind, e.Attempt.Outcome.String(),
			e.Attempt.Reason, text(e.Attempt.ProviderStatus), text(e.Attempt.ProviderID), orNull(e.Attempt.StartedAt))
	}
	if err := l.hot.SendBatch(ctx, batch).Close(); err != nil {
		return fmt.Errorf("keep evidence: %w", err)
	}
	l.commits.Add(1)
	return nil
}
