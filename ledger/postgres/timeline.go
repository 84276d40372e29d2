package postgres

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/seed-4b260dfd/notifier"
	"github.com/seed-4b260dfd/notifier/ledger"
)

// timeline reads the deliveries of one notification, in the order in which a
// later table corrects an earlier one.
type timeline struct {
	tx  pgx.Tx
	now time.Time
	n   *notifier.Notification
	nid [16]byte
	// settled is the evidence, by the attempt that it is about.
	settled map[attemptKey]notifier.Evidence
}

type attemptKey struct {
	ch    int
	fence int64
	owner string
}

func (t *timeline) read(ctx context.Context) error {
	for _, step := range []func(context.Context) error{t.facts, t.evidence, t.attempts, t.outcomes, t.waiting, t.queue} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	for i := range t.n.Deliveries {
		slices.SortStableFunc(t.n.Deliveries[i].Attempts, func(a, b notifier.AttemptView) int {
			return cmp.Or(cmp.Compare(a.Fence, b.Fence), cmp.Compare(count(a.Late), count(b.Late)))
		})
	}
	return nil
}

// each runs a query about the notification and calls row with every row.
func (t *timeline) each(ctx context.Context, text string, into []any, row func() error, args ...any) error {
	rows, err := t.tx.Query(ctx, text, append([]any{t.nid}, args...)...)
	if err != nil {
		return err
	}
	_, err = pgx.ForEachRow(rows, into, row)
	return err
}

// at returns the delivery with an ordinal.
func (t *timeline) at(ch int) (*notifier.DeliveryState, error) {
	if ch < 0 || ch >= len(t.n.Deliveries) {
		return nil, fmt.Errorf("ordinal %d of %d deliveries: %w", ch, len(t.n.Deliveries), errMissing)
	}
	return &t.n.Deliveries[ch], nil
}

func (t *timeline) facts(ctx context.Context) error {
	const facts = `SELECT l.channel, l.account, d.address, d.collapse_id, d.effect_key, CASE WHEN l.channel = 'sms' THEN d.content END FROM delivery d JOIN lane l ON l.id = d.lane
		WHERE d.nid = $1 ORDER BY d.ch`
	var d notifier.DeliveryState
	var address, collapse, effect, content []byte
	return t.each(ctx, facts, []any{&d.Channel, &d.Account, &address, &collapse, &effect, &content}, func() error {
		var f fact
		if err := f.unpack(address, collapse, effect); err != nil {
			return err
		}
		d.ID = notifier.DeliveryID{Notification: t.n.ID, Ordinal: uint16(len(t.n.Deliveries))}
		d.Address, d.CollapseID, d.Attempts = f.Address.String(), f.CollapseID, []notifier.AttemptView{}
		d.Segments = notifier.Segments(d.Channel, content)
		t.n.Deliveries = append(t.n.Deliveries, d)
		return nil
	})
}

// attemptRow is what the tables of attempts have in common.
type attemptRow struct {
	key               attemptKey
	view              notifier.AttemptView
	started, finished pgtype.Timestamptz
}

func (r *attemptRow) columns(more ...any) []any {
	return append([]any{&r.key.ch, &r.key.fence, &r.key.owner, &r.view.Outcome, &r.view.Reason, &r.view.ProviderStatus, &r.view.ProviderID,
		&r.started, &r.finished}, more...)
}

// add puts the attempt into the timeline of its delivery.
func (r *attemptRow) add(d *notifier.DeliveryState) {
	v := r.view
	v.Fence, v.Worker, v.StartedAt, v.FinishedAt = r.key.fence, r.key.owner, timePtr(r.started), timePtr(r.finished)
	d.Attempts = append(d.Attempts, v)
}

// evidence adds the late word of owners that had been fenced off.
func (t *timeline) evidence(ctx context.Context) error {
	const late = `SELECT ch, fence, owner, outcome, reason, provider_status, provider_id, started_at, at, kind FROM evidence WHERE nid = $1 AND kind <> 'lookup_none' ORDER BY at`
	r := attemptRow{view: notifier.AttemptView{Late: true}}
	var kind notifier.EvidenceKind
	return t.each(ctx, late, r.columns(&kind), func() error {
		d, err := t.at(r.key.ch)
		if err != nil {
			return err
		}
		r.add(d)
		e := notifier.Evidence{Kind: kind}
		if err := e.Attempt.Outcome.UnmarshalText([]byte(r.view.Outcome)); err != nil {
			return err
		}
		t.settled[r.key] = e
		return nil
	})
}

// attempts adds the attempts that did not finish their delivery, and counts
// those that may have arrived and were not taken back by their owner later.
func (t *timeline) attempts(ctx context.Context) error {
	const ends = `SELECT ch, fence, owner, outcome, reason, provider_status, provider_id, started_at, finished_at, maybe
		FROM attempt_end WHERE nid = $1 ORDER BY ch, fence`
	var r attemptRow
	var maybe bool
	return t.each(ctx, ends, r.columns(&maybe), func() error {
		d, err := t.at(r.key.ch)
		if err != nil {
			return err
		}
		r.add(d)
		if maybe && t.settled[r.key].Kind != notifier.EvidenceLateUnsent {
			d.PossibleEffects++
		}
		return nil
	})
}

// outcomes adds how deliveries ended. The row never changes; an unknown whose
// owner later said that it was sent is shown as sent.
func (t *timeline) outcomes(ctx context.Context) error {
	const ends = `SELECT ch, fence, owner, outcome, attempt_reason, provider_status, provider_id, started_at, finished_at, state, reason, called
		FROM outcome WHERE nid = $1`
	var (
		r      attemptRow
		state  notifier.State
		reason notifier.Reason
		called bool
	)
	return t.each(ctx, ends, r.columns(&state, &reason, &called), func() error {
		d, err := t.at(r.key.ch)
		if err != nil {
			return err
		}
		d.State, d.Reason = state, reason
		if state == notifier.StateUnknown && t.sentAfterAll(r.key.ch) {
			d.State, d.Reason = notifier.StateSent, notifier.ReasonNone
		}
		if !called {
			return nil
		}
		r.add(d)
		var o notifier.Outcome
		if err := o.UnmarshalText([]byte(r.view.Outcome)); err != nil {
			return err
		}
		d.PossibleEffects += count(ledger.MayHaveArrived(o))
		return nil
	})
}

func (t *timeline) sentAfterAll(ch int) bool {
	for k, e := range t.settled {
		if k.ch == ch && e.Settles() {
			return true
		}
	}
	return false
}

// waiting adds what waits for a time or for something else.
func (t *timeline) waiting(ctx context.Context) error {
	const wait = `SELECT ch, due, CASE WHEN due <= $2 AND ` + clockReasons + ` THEN 'due' ELSE reason END FROM later WHERE nid = $1`
	var ch int
	var due time.Time
	var reason notifier.Reason
	return t.each(ctx, wait, []any{&ch, &due, &reason}, func() error {
		d, err := t.at(ch)
		if err != nil {
			return err
		}
		at := due.UTC()
		d.State, d.Reason, d.NextAttemptAt = notifier.StatePending, reason, &at
		return nil
	}, t.now)
}

// queue adds what is ready or in flight. An attempt under way has no outcome
// yet, and counts where its call may have begun.
func (t *timeline) queue(ctx context.Context) error {
	const open = `SELECT q.ch, q.fence, q.owner, q.status, q.due, q.leased_at FROM delivery d
		JOIN q ON q.lane = d.lane AND q.nid = d.nid AND q.ch = d.ch WHERE d.nid = $1`
	var (
		k        attemptKey
		status   int
		due      time.Time
		leasedAt pgtype.Timestamptz
	)
	return t.each(ctx, open, []any{&k.ch, &k.fence, &k.owner, &status, &due, &leasedAt}, func() error {
		d, err := t.at(k.ch)
		if err != nil {
			return err
		}
		if status == statusPending {
			at := due.UTC()
			d.State, d.Reason, d.NextAttemptAt = notifier.StatePending, notifier.ReasonDue, &at
			return nil
		}
		d.State = notifier.StateSending
		d.PossibleEffects += count(ledger.MayBeArriving(t.n.Order, status == statusSending))
		d.Attempts = append(d.Attempts, notifier.AttemptView{Fence: k.fence, Worker: k.owner, StartedAt: timePtr(leasedAt)})
		return nil
	})
}
