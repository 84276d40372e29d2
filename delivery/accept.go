package delivery

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/seed-4b260dfd/notifier"
	"github.com/seed-4b260dfd/notifier/policy"
)

// Accept takes one request in. When it returns without error the notification
// is durable, or was before: Accepted.Replayed says which. An *notifier.Error
// with a 4xx code says that nothing was stored and the key is free.
func (e *Engine) Accept(_ context.Context, req notifier.Request) (notifier.Accepted, error) {
	e.accepting.RLock()
	defer e.accepting.RUnlock()
	if e.draining.Load() || !e.started.Load() {
		return notifier.Accepted{}, &notifier.Error{Code: notifier.CodeOverloaded, Message: "the server is starting or shutting down; ask again with the same key"}
	}
	if err := notifier.CheckKey(req.Key); err != nil {
		return notifier.Accepted{}, err
	}
	in, ignored, err := e.intent(&req)
	if err != nil {
		return e.replayOr(&req, err)
	}
	since := readClocks()
	slots := e.reserve(&in, since)
	if len(in.Deliveries) > 0 {
		faultPoint(acceptBefore, &in.Deliveries[0])
	}
	// A caller that hangs up does not undo the commit, and the leases in it are
	// for us to work on: the answer is waited for whoever listens.
	stored, err := e.accepts.call(in)
	if err != nil {
		// It may be stored: then its leases lapse, and the same key finds it.
		free(slots)
		return notifier.Accepted{}, unavailable(err)
	}
	faultPoint(acceptAfter, &in.Deliveries[0])
	if stored.Replayed {
		free(slots)
		return e.replayed(&req, &in, &stored)
	}
	e.metrics.accepted.WithLabelValues(req.Type).Inc()
	e.startFirst(&in, &stored, slots, since)
	return notifier.Accepted{ID: stored.ID, Ignored: ignored, Fresh: e.fresh(&in, &stored)}, nil
}

// fresh is the resource as it was accepted, without reading it. What was leased
// in the same commit stands there as due: nothing of it has been attempted.
func (e *Engine) fresh(in *notifier.Intent, stored *notifier.Stored) *notifier.Notification {
	n := &notifier.Notification{
		ID: stored.ID, Tenant: in.Tenant, Key: in.Key, Type: in.Type, Recipient: in.Recipient,
		State: notifier.StatePending, Counts: map[notifier.State]int{notifier.StatePending: len(in.Deliveries)},
		Order: in.Order, PolicyVersion: in.PolicyVersion,
		AcceptedAt: stored.AcceptedAt, SendAt: in.SendAt, ExpiresAt: in.ExpiresAt,
		Deliveries: make([]notifier.DeliveryState, len(in.Deliveries)),
	}
	reason, due := notifier.ReasonDue, stored.AcceptedAt
	if !in.SendAt.IsZero() {
		reason, due = notifier.ReasonScheduled, in.SendAt
	}
	for i := range in.Deliveries {
		d := &in.Deliveries[i]
		n.Deliveries[i] = notifier.DeliveryState{
			ID:      notifier.DeliveryID{Notification: stored.ID, Ordinal: uint16(i)},
			Channel: d.Lane.Channel, Account: d.Lane.Account, Address: d.Address.String(),
			State: notifier.StatePending, Reason: reason, NextAttemptAt: &due, CollapseID: d.CollapseID,
			Segments: notifier.Segments(d.Lane.Channel, d.Content),
			Attempts: []notifier.AttemptView{},
		}
	}
	e.showWaits(n)
	return n
}

// unavailable is the caller's word for a ledger that did not answer.
func unavailable(err error) error {
	if own := (*notifier.Error)(nil); errors.As(err, &own) {
		return err
	}
	return &notifier.Error{Code: notifier.CodeLedgerUnavailable, Err: err,
		Message: "the request may or may not have been stored; ask again with the same key"}
}

// reserve takes slots for the intent's first deliveries, as many in a row as
// have one free, so that accepting and leasing share a commit.
func (e *Engine) reserve(in *notifier.Intent, now reading) []slot {
	if !firstLease || !in.SendAt.IsZero() || e.unwritten.Load() > 0 || e.pauses.stale(now) {
		return nil
	}
	var taken []slot
	for i := range in.Deliveries {
		lane := in.Deliveries[i].Lane
		a := e.accounts[accountKey{lane.Channel, lane.Account}]
		if e.holdsBack(in, lane) || !a.reserve(lane.Priority) {
			break
		}
		taken = append(taken, slot{a, lane.Priority})
	}
	if len(taken) > 0 {
		in.Lease = notifier.FirstLease{Owner: e.owner, Count: len(taken)}
	}
	return taken
}

// slot is a slot that has been taken and not yet been filled.
type slot struct {
	account  *account
	priority notifier.Priority
}

func free(slots []slot) {
	for _, s := range slots {
		s.account.release(s.priority)
	}
}

// startFirst starts what was leased with its acceptance and wakes the
// dispatchers of the rest.
func (e *Engine) startFirst(in *notifier.Intent, stored *notifier.Stored, slots []slot, since reading) {
	for i := range stored.Leased {
		e.start(newWork(e, slots[i].account, &stored.Leased[i], since))
	}
	free(slots[len(stored.Leased):])
	due := time.Now()
	if !in.SendAt.IsZero() {
		due = in.SendAt
	}
	for i := len(stored.Leased); i < len(in.Deliveries); i++ {
		lane := in.Deliveries[i].Lane
		e.accounts[accountKey{lane.Channel, lane.Account}].dueAt(lane.Priority, due)
	}
}

// replayed answers a key that is known: as success when the request is the
// same, as the caller's bug when it is not.
func (e *Engine) replayed(req *notifier.Request, in *notifier.Intent, first *notifier.Stored) (notifier.Accepted, error) {
	differs, ignored := compare(in.Parts, first.Parts)
	if in.Fingerprint != first.Fingerprint {
		e.metrics.mismatches.WithLabelValues(e.knownType(req.Type)).Inc()
		return notifier.Accepted{}, &notifier.Error{
			Code: notifier.CodeKeyReused, Field: "key",
			Message: fmt.Sprintf("the key was accepted before for another request (%s): one key, one request", first.ID),
			Details: map[string]any{"differs": differs, "id": first.ID.String()},
		}
	}
	e.metrics.repeat(hopAPI, e.knownType(req.Type))
	e.metrics.repeatAge.WithLabelValues(hopAPI).Observe(first.FirstAge.Seconds())
	return notifier.Accepted{ID: first.ID, Replayed: true, Ignored: ignored}, nil
}

// replayOr answers a request that cannot be accepted now but may have been
// before: the policy may have changed, or its time has passed, since the first
// copy. A repeat of what was accepted is success all the same.
func (e *Engine) replayOr(req *notifier.Request, cause error) (notifier.Accepted, error) {
	in := notifier.Intent{Tenant: req.Tenant, Key: req.Key, ReplayOnly: true}
	var err error
	if in.Fingerprint, in.Parts, err = fingerprint(req); err != nil {
		return notifier.Accepted{}, cause
	}
	stored, err := e.accepts.call(in)
	if err != nil {
		return notifier.Accepted{}, unavailable(err)
	}
	if !stored.Replayed {
		return notifier.Accepted{}, cause
	}
	return e.replayed(req, &in, &stored)
}

// knownType keeps the metric's label to the loaded policies.
func (e *Engine) knownType(typ string) string {
	if e.cfg.Policies.Policy(typ) == nil {
		return "unknown"
	}
	return typ
}

// intent makes a request into what the ledger stores: validated, rendered, with
// the policy's terms. ignored names what of the request has no effect.
func (e *Engine) intent(req *notifier.Request) (in notifier.Intent, ignored []string, err error) {
	p := e.cfg.Policies.Policy(req.Type)
	if p == nil {
		return in, nil, &notifier.Error{Code: notifier.CodeUnknownType, Field: "type",
			Message: fmt.Sprintf("there is no policy for the type %q; a type is a file in the folder of policies", req.Type)}
	}
	if strings.TrimSpace(req.Recipient) == "" {
		return in, nil, &notifier.Error{Code: notifier.CodeInvalid, Field: "recipient", Message: "a recipient is required, and not white space alone: your own id of the person"}
	}
	if err := p.CheckData(req.Data); err != nil {
		return in, nil, err
	}
	if err := checkTimes(p, req, time.Now()); err != nil {
		return in, nil, err
	}
	in = notifier.Intent{
		Tenant: req.Tenant, Key: req.Key, Type: req.Type, Recipient: req.Recipient,
		Order: p.Order, PolicyVersion: p.Version, KeepFor: p.DedupeWindow,
		SendAt: req.SendAt, ExpiresAt: req.ExpiresAt,
	}
	if !in.SendAt.IsZero() && !in.SendAt.After(time.Now()) {
		in.SendAt = time.Time{}
	}
	// The policy's is the longest: a file that was reviewed says when a message is too old.
	latest := later(time.Now(), in.SendAt).Add(p.ExpiresAfter)
	shortened := in.ExpiresAt.After(latest)
	if in.ExpiresAt.IsZero() || shortened {
		in.ExpiresAt = latest
	}
	if in.Fingerprint, in.Parts, err = fingerprint(req); err != nil {
		return in, nil, err
	}
	if in.Deliveries, ignored, err = e.deliveries(p, req, in.ExpiresAt); err != nil {
		return in, nil, err
	}
	if shortened {
		ignored = append([]string{"expires_at"}, ignored...)
	}
	return in, ignored, nil
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// checkTimes holds send_at and expires_at to what the policy can keep.
func checkTimes(p *policy.Policy, req *notifier.Request, now time.Time) error {
	if ahead := p.DedupeWindow / 2; req.SendAt.After(now.Add(ahead)) {
		return &notifier.Error{Code: notifier.CodeInvalid, Field: "send_at",
			Message: fmt.Sprintf("send_at lies more than %s ahead, half of the type's dedupe_window", ahead)}
	}
	if !req.ExpiresAt.IsZero() && !req.ExpiresAt.After(later(now, req.SendAt)) {
		return &notifier.Error{Code: notifier.CodeInvalid, Field: "expires_at",
			Message: "expires_at must lie after now and after send_at"}
	}
	return nil
}
