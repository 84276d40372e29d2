package delivery

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/seed-4b260dfd/notifier"
	"github.com/seed-4b260dfd/notifier/channels"
)

// The ledger says with each lease whether a suppression holds for it: for a
// batch that is one look-up, and none for the attempt. One that is placed under
// a lease that has begun is obeyed from the next attempt on.

var errSuppressed = errors.New("a suppression holds for the delivery")

// Suppress places a person's suppression. It is obeyed by every lease that
// begins after it. The same one placed again gives the first.
func (e *Engine) Suppress(_ context.Context, s notifier.Suppression) (notifier.Suppression, error) {
	if err := e.checkSuppression(&s); err != nil {
		return notifier.Suppression{}, err
	}
	ctx, cancel := write()
	defer cancel()
	placed, err := e.cfg.Ledger.Suppress(ctx, s)
	if err != nil {
		return notifier.Suppression{}, pauseUnclear(err)
	}
	e.log.Info("suppressed", "suppression", placed)
	return placed, nil
}

// Unsuppress undoes a suppression; the ledger keeps by and why. One that was
// undone before stays as it was.
func (e *Engine) Unsuppress(_ context.Context, tenant, id, by, why string) (notifier.Suppression, error) {
	ctx, cancel := write()
	defer cancel()
	over, ended, err := e.cfg.Ledger.Unsuppress(ctx, tenant, id, by, why)
	if err != nil {
		return notifier.Suppression{}, pauseUnclear(err)
	}
	if ended {
		e.log.Info("no longer suppressed", "suppression", over)
	}
	return over, nil
}

// Suppressions lists a tenant's suppressions in force, the newest first.
func (e *Engine) Suppressions(ctx context.Context, f notifier.SuppressionFilter) ([]notifier.Suppression, error) {
	list, err := e.cfg.Ledger.Suppressions(ctx, f)
	if err != nil {
		return nil, unreadable(err)
	}
	return list, nil
}

// SuppressDelivery suppresses the address of a delivery on its channel, on the
// word of its provider that came outside a call: a receipt. It is to be said
// again when it fails, and the same again is the same suppression. It places
// none, and that is no error, when the cause is CauseInvalidAddress and the
// address was registered after since, or the account's brake holds.
func (e *Engine) SuppressDelivery(_ context.Context, d *notifier.Delivery, cause notifier.SuppressionCause, evidence string, since time.Time) error {
	if cause == notifier.CauseInvalidAddress {
		if since.IsZero() {
			since = time.Now()
		}
		if !e.mayInvalidate(d, since) {
			return nil
		}
	}
	ctx, cancel := write()
	defer cancel()
	_, err := e.cfg.Ledger.Suppress(ctx, suppressionOf(d, cause, evidence, since))
	if err != nil {
		return fmt.Errorf("suppress the address of %v: %w", d.ID, err)
	}
	return nil
}

func suppressionOf(d *notifier.Delivery, cause notifier.SuppressionCause, evidence string, since time.Time) notifier.Suppression {
	return notifier.Suppression{
		Tenant: d.Tenant, Address: notifier.Address{Value: d.Address.Value}, Channel: d.Lane.Channel,
		Cause: cause, Evidence: evidence, By: notifier.ByProvider, Since: since,
	}
}

// mayInvalidate reports whether an address that its provider holds for dead as
// of since is to be suppressed, and counts it.
func (e *Engine) mayInvalidate(d *notifier.Delivery, since time.Time) bool {
	if d.Address.RegisteredAt.After(since) {
		return false
	}
	a := e.accounts[accountKey{d.Lane.Channel, d.Lane.Account}]
	if a == nil {
		return true // its account is gone from the configuration, and makes no sends to share
	}
	allowed, tripped := a.brake.invalidate(time.Now())
	if tripped {
		e.log.Error("too many addresses of an account are said to be dead: no more are suppressed", "channel", string(a.kind), "account", a.name)
	}
	return allowed
}

// invalidated is the suppression that an answer makes: it says that the address
// is dead, and nothing less does. nil: none.
func (w *work) invalidated(res *channels.Result) *notifier.Suppression {
	switch res.Outcome {
	case notifier.OutcomeSent, notifier.OutcomeRejected, notifier.OutcomeInvalidAddress:
		w.account.brake.sent(time.Now())
	case notifier.OutcomeUnknown, notifier.OutcomeNotSent:
	}
	if res.Outcome != notifier.OutcomeInvalidAddress {
		return nil
	}
	since, said := res.InvalidSince, ""
	if since.IsZero() {
		since = w.started
	} else {
		said = ", dead since " + since.UTC().Format(time.RFC3339Nano)
	}
	if !w.e.mayInvalidate(&w.lease.Delivery, since) {
		return nil
	}
	evidence := fmt.Sprintf("%s%s; %s, attempt %d", res.ProviderStatus, said, w.lease.ID, w.lease.Fence)
	s := suppressionOf(&w.lease.Delivery, notifier.CauseInvalidAddress, evidence, since)
	return &s
}

// checkSuppression holds a person's suppression to what there is, so that a
// slip of the pen does not suppress nothing.
func (e *Engine) checkSuppression(s *notifier.Suppression) error {
	wrong := func(field, format string, args ...any) error {
		return &notifier.Error{Code: notifier.CodeInvalid, Field: field, Message: fmt.Sprintf(format, args...)}
	}
	if s.Cause == "" {
		s.Cause = notifier.CauseOperator
	}
	switch {
	case (s.Address.Value == "") == (s.Recipient == ""):
		return wrong("address", "a suppression is about one of address, recipient")
	case !slices.Contains(notifier.SuppressionCauses[:], s.Cause):
		return wrong("cause", "%q is not a cause; allowed: %s", s.Cause, words(notifier.SuppressionCauses[:]))
	case s.Cause == notifier.CauseInvalidAddress && s.Address.Value == "":
		return wrong("cause", "invalid_address is about an address, not a recipient")
	case s.Channel != "" && !slices.Contains(notifier.Channels[:], s.Channel):
		return wrong("channel", "%q is not a channel; allowed: %s", s.Channel, words(notifier.Channels[:]))
	}
	if s.Type != "" && e.cfg.Policies.Policy(s.Type) == nil {
		return &notifier.Error{Code: notifier.CodeUnknownType, Field: "type",
			Message: fmt.Sprintf("there is no policy for the type %q; there are %s", s.Type, strings.Join(e.cfg.Policies.Types(), ", "))}
	}
	return nil
}

func words[S ~string](all []S) string {
	out := make([]string, len(all))
	for i, s := range all {
		out[i] = string(s)
	}
	return strings.Join(out, ", ")
}
