// Package ledger has what the ledgers have in common besides their conformance
// suite: what a row means, and how small things are stored in one. It knows of
// no database.
package ledger

import (
	"encoding/json"
	"fmt"

	"github.com/seed-4b260dfd/notifier"
)

// Which transition wrote an outcome row.
const (
	ClosedComplete = "complete"
	ClosedReturn   = "return"
	ClosedSweep    = "sweep"
	ClosedCancel   = "cancel"
	ClosedExpire   = "expire"
)

// How the last lease of a waiting row, and each recorded end of an attempt, ended.
const (
	EndedReturned = "returned"
	EndedLapsed   = "lapsed"
)

// Next says where a lease that ended without an outcome leaves a delivery:
// finished when its attempts are used up or when it was cancelled meanwhile,
// pending otherwise. The counts have the attempt in them.
func Next(retry notifier.Retry, tries, maybe int, cancel notifier.Reason) (notifier.State, notifier.Reason) {
	switch {
	case retry.MaxUnknown > 0 && maybe >= retry.MaxUnknown:
		return notifier.StateUnknown, notifier.ReasonUnknownsUsed
	case retry.MaxAttempts > 0 && tries >= retry.MaxAttempts:
		return notifier.StateDead, notifier.ReasonAttemptsUsed
	case cancel != "":
		return notifier.StateCancelled, cancel
	}
	return notifier.StatePending, notifier.ReasonDue
}

// MayHaveArrived says whether a call that ended so counts as an effect.
func MayHaveArrived(o notifier.Outcome) bool {
	switch o {
	case notifier.OutcomeUnknown, notifier.OutcomeSent:
		return true
	case notifier.OutcomeRejected, notifier.OutcomeInvalidAddress, notifier.OutcomeNotSent:
		return false
	}
	return true
}

// MayBeArriving says whether an attempt under way counts as an effect already:
// a claim-first call has begun at most once its permit is given, a send-first
// one as soon as it is leased. It is counted until it ends in another way.
func MayBeArriving(order notifier.Order, permitted bool) bool {
	return permitted || order == notifier.OrderSendFirst
}

// EncodeCaps writes a delivery's caps; none are the empty string.
func EncodeCaps(caps []notifier.Cap) (string, error) {
	if len(caps) == 0 {
		return "", nil
	}
	b, err := json.Marshal(caps)
	if err != nil {
		return "", fmt.Errorf("encode caps: %w", err)
	}
	return string(b), nil
}

// DecodeCaps reads what EncodeCaps wrote.
func DecodeCaps(s string) (caps []notifier.Cap, err error) {
	if s == "" {
		return nil, nil
	}
	if err := json.Unmarshal([]byte(s), &caps); err != nil {
		return nil, fmt.Errorf("decode caps: %w", err)
	}
	return caps, nil
}
