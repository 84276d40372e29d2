package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/seed-4b260dfd/notifier"
	"github.com/seed-4b260dfd/notifier/ledger"
)

// timeline reads the deliveries of one notification, in the order in which a
// later table corrects an earlier one.
type timeline struct {
	tx  *sql.Tx
	now int64
	n   *notifier.Notification
	nid []byte
	// settled is the evidence, by the attempt that it is about.
	settled map[attemptKey]notifier.Evidence
}

type attemptKey struct {
	ch    int
	fence int64
	owner string
}

func (t *timeline) read(ctx context.Context, first, deliveries int64) error {
	for _, step := range []func(context.Context) error{
		func(ctx context.Context) error { return t.facts(ctx, first, deliveries) },
		t.evidence, t.attempts, t.outcomes, t.queue,
	} {
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

// at returns the delivery with an ordinal.
func (t *timeline) at(ch int) (*notifier.DeliveryState, error) {
	if ch < 0 || ch >= len(t.n.Deliveries) {
		return nil, fmt.Errorf("ordinal %d of %d deliveries: %w", ch, len(t.n.Deliveries), errMissing)
	}
	return &t.n.Deliveries[ch], nil
}

func (t *timeline) facts(ctx context.Context, first, deliveries int64) error {
	const facts = `SELECT l.channel, l.account, d.address, d.collapse_id, CASE WHEN l.channel = 'sms' THEN d.content END FROM delivery d CROSS JOIN lane l ON l.id = d.lane
		WHERE d.d >= ? AND d.d < ? ORDER BY d.d`
	t.n.Deliveries = make([]notifier.DeliveryState, 0, deliveries)
	return query(ctx, t.tx, facts, func(scan func(...any) error) error {
		var (
			d       notifier.DeliveryState
			address string
			content []byte
			a       notifier.Address
		)
		if err := scan(&d.Channel, &d.Account, &address, &d.CollapseID, &content); err != nil {
			return err
		}
		if err := json.Unmarshal([]byte(address), &a); err != nil {
			return fmt.Errorf("decode an address: %w", err)
		}
		d.ID = notifier.DeliveryID{Notification: t.n.ID, Ordinal: uint16(len(t.n.Deliveries))}
		d.Address, d.Attempts = a.String(), []notifier.AttemptView{}
		d.Segments = notifier.Segments(d.Channel, content)
		t.n.Deliveries = append(t.n.Deliveries, d)
		return nil
	}, first, first+deliveries)
}

// evidence adds the late word of owners that had been fenced off.
func (t *timeline) evidence(ctx context.Context) error {
	const late = `SELECT ch, fence, owner, kind, outcome, reason, provider_status, provider_id, started_at, at
		FROM evidence WHERE nid = ? AND kind <> 'lookup_none' ORDER BY at`
	return query(ctx, t.tx, late, func(scan func(...any) error) error {
		k, v := attemptKey{}, notifier.AttemptView{Late: true}
		var kind notifier.EvidenceKind
		var started, at int64
		if err := scan(&k.ch, &k.fence, &k.owner, &kind, &v.Outcome, &v.Reason, &v.ProviderStatus, &v.ProviderID, &started, &at); err != nil {
			return err
		}
		d, err := t.at(k.ch)
		if err != nil {
			return err
		}
		v.Fence, v.Worker, v.StartedAt, v.FinishedAt = k.fence, k.owner, timePtr(started), timePtr(at)
		d.Attempts = append(d.Attempts, v)
		e := notifier.Evidence{Kind: kind}
		if err := e.Attempt.Outcome.UnmarshalText([]byte(v.Outcome)); err != nil {
			return err
		}
		t.settled[k] = e
		return nil
	}, t.nid)
}

// attempts adds the attempts that did not finish their delivery, and counts
// those that may have arrived and were not taken back by their owner later.
func (t *timeline) attempts(ctx context.Context) error {
	const ends = `SELECT ch, fence, owner, outcome, reason, maybe, provider_status, provider_id, started_at, finished_at
		FROM attempt WHERE nid = ? ORDER BY ch, fence`
	return query(ctx, t.tx, ends, func(scan func(...any) error) error {
		var (
			k                 attemptKey
			v                 notifier.AttemptView
			maybe             bool
			started, finished int64
		)
		if err := scan(&k.ch, &k.fence, &k.owner, &v.Outcome, &v.Reason, &maybe, &v.ProviderStatus, &v.ProviderID, &started, &finished); err != nil {
			return err
		}
		d, err := t.at(k.ch)
		if err != nil {
			return err
		}
		v.Fence, v.Worker, v.StartedAt, v.FinishedAt = k.fence, k.owner, timePtr(started), timePtr(finished)
		d.Attempts = append(d.Attempts, v)
		if maybe && t.settled[k].Kind != notifier.EvidenceLateUnsent {
			d.PossibleEffects++
		}
		return nil
	}, t.nid)
}

// outcomes adds how deliveries ended. The row never changes; an unknown whose
// owner later said that it was sent is shown as sent.
func (t *timeline) outcomes(ctx context.Context) error {
	const ends = `SELECT ch, fence, owner, state, reason, called, outcome, attempt_reason, provider_status, provider_id, started_at, finished_at
		FROM outcome WHERE nid = ?`
	return query(ctx, t.tx, ends, func(scan func(...any) error) error {
		var (
			k                 attemptKey
			v                 notifier.AttemptView
			state             notifier.State
			reason            notifier.Reason
			called            bool
			started, finished int64
		)
		if err := scan(&k.ch, &k.fence, &k.owner, &state, &reason, &called, &v.Outcome, &v.Reason, &v.ProviderStatus, &v.ProviderID, &started, &finished); err != nil {
			return err
		}
		d, err := t.at(k.ch)
		if err != nil {
			return err
		}
		d.State, d.Reason = state, reason
		if state == notifier.StateUnknown && t.sentAfterAll(k.ch) {
			d.State, d.Reason = notifier.StateSent, notifier.ReasonNone
		}
		if !called {
			return nil
		}
		v.Fence, v.Worker, v.StartedAt, v.FinishedAt = k.fence, k.owner, timePtr(started), timePtr(finished)
		d.Attempts = append(d.Attempts, v)
		var o notifier.Outcome
		if err := o.UnmarshalText([]byte(v.Outcome)); err != nil {
			return err
		}
		d.PossibleEffects += count(ledger.MayHaveArrived(o))
		return nil
	}, t.nid)
}

func (t *timeline) sentAfterAll(ch int) bool {
	for k, e := range t.settled {
		if k.ch == ch && e.Settles() {
			return true
		}
	}
	return false
}

// queue adds what is not finished. An attempt under way has no outcome yet, and
// counts where its call may have begun.
func (t *timeline) queue(ctx context.Context) error {
	const open = `SELECT ch, fence, owner, state, ` + waitReason + `, due, leased_at FROM queue WHERE nid = ?`
	return query(ctx, t.tx, open, func(scan func(...any) error) error {
		var (
			k             attemptKey
			state         string
			reason        notifier.Reason
			due, leasedAt int64
		)
		if err := scan(&k.ch, &k.fence, &k.owner, &state, &reason, &due, &leasedAt); err != nil {
			return err
		}
		d, err := t.at(k.ch)
		if err != nil {
			return err
		}
		if state == statePending {
			d.State, d.Reason, d.NextAttemptAt = notifier.StatePending, reason, timePtr(due)
			return nil
		}
		d.State = notifier.StateSending
		d.PossibleEffects += count(ledger.MayBeArriving(t.n.Order, state == stateSending))
		d.Attempts = append(d.Attempts, notifier.AttemptView{Fence: k.fence, Worker: k.owner, StartedAt: timePtr(leasedAt)})
		return nil
	}, t.now, t.nid)
}
