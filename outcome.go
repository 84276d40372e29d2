package notifier

import "fmt"

// Outcome is what one provider call came to. The zero value is
// OutcomeUnknown, so that a forgotten return never reads as success or as
// leave to send again.
type Outcome uint8

const (
	// OutcomeUnknown says that bytes may have left and there is no answer to rely on.
	OutcomeUnknown Outcome = iota
	// OutcomeSent says that the provider took responsibility.
	OutcomeSent
	// OutcomeRejected says that the provider refused for good: nothing was delivered.
	OutcomeRejected
	// OutcomeInvalidAddress is OutcomeRejected because the address is dead.
	OutcomeInvalidAddress
	// OutcomeNotSent says that the request was provably not processed: never
	// dialled, refused at the gate, throttled, or refused with "later".
	OutcomeNotSent
)

var outcomeNames = [...]string{"unknown", "sent", "rejected", "invalid_address", "not_sent"}

// String returns the outcome's word in JSON, SQL and metrics.
func (o Outcome) String() string {
	if int(o) < len(outcomeNames) {
		return outcomeNames[o]
	}
	return fmt.Sprintf("outcome(%d)", uint8(o))
}

// MarshalText writes the word of String.
func (o Outcome) MarshalText() ([]byte, error) { return []byte(o.String()), nil }

// UnmarshalText reads the word that MarshalText wrote.
func (o *Outcome) UnmarshalText(b []byte) error {
	for i, n := range outcomeNames {
		if n == string(b) {
			*o = Outcome(i)
			return nil
		}
	}
	return fmt.Errorf("outcome %q is not one of %v", b, outcomeNames)
}

// Order is the direction in which a message type fails.
type Order string

const (
	// OrderClaimFirst records, then sends: may be lost, never a second effect.
	OrderClaimFirst Order = "claim_first"
	// OrderSendFirst sends, then records: may repeat, never lost.
	OrderSendFirst Order = "send_first"
)

// State is where a delivery stands, in the words of the API.
type State string

// The states of a delivery. All but StatePending and StateSending are final.
const (
	StatePending    State = "pending"
	StateSending    State = "sending"
	StateSent       State = "sent"
	StateDelivered  State = "delivered"
	StateRejected   State = "rejected"
	StateUnknown    State = "unknown"
	StateSuppressed State = "suppressed"
	StateExpired    State = "expired"
	StateDead       State = "dead"
	StateCancelled  State = "cancelled"
)

// Finished reports whether the state is one that a delivery does not leave by itself.
func (s State) Finished() bool { return s != StatePending && s != StateSending }

// precedence is the order in which a notification shows the best that any of
// its deliveries reached.
var precedence = [...]State{StateDelivered, StateSent, StateUnknown, StateDead,
	StateRejected, StateExpired, StateSuppressed, StateCancelled}

// Summarize returns the state of a notification whose deliveries are in the
// states counted: pending while one is unfinished, then the best reached.
func Summarize(counts map[State]int) State {
	if counts[StatePending]+counts[StateSending] > 0 {
		return StatePending
	}
	for _, s := range precedence {
		if counts[s] > 0 {
			return s
		}
	}
	return StatePending
}

// Reason says why a delivery or an attempt is where it is. The set is closed:
// the same value is log attribute, metric label, column and JSON.
type Reason string

// Reasons of a pending delivery.
const (
	ReasonNone           Reason = ""
	ReasonDue            Reason = "due"
	ReasonScheduled      Reason = "scheduled"
	ReasonBackoff        Reason = "backoff"
	ReasonThrottled      Reason = "throttled"
	ReasonBreaker        Reason = "breaker"
	ReasonBadCredentials Reason = "bad_credentials"
	ReasonCap            Reason = "cap"
	ReasonQuietHours     Reason = "quiet_hours"
	ReasonPaused         Reason = "paused"
	ReasonRedisDown      Reason = "redis_down"
	ReasonEntityBusy     Reason = "entity_busy"
	ReasonNextChannel    Reason = "next_channel"
)

// Reasons of finished deliveries.
const (
	ReasonReplyLost        Reason = "reply_lost"
	ReasonWorkerLost       Reason = "worker_lost"
	ReasonTimeOut          Reason = "time_out"
	ReasonProviderError    Reason = "provider_error"
	ReasonUnknownsUsed     Reason = "unknowns_used"
	ReasonInvalidAddress   Reason = "invalid_address"
	ReasonForbiddenAddress Reason = "forbidden_address"
	ReasonBadContent       Reason = "bad_content"
	ReasonRefused          Reason = "refused"
	ReasonCapped           Reason = "capped"
	ReasonStale            Reason = "stale"
	ReasonSuppression      Reason = "suppression"
	ReasonGaveUp           Reason = "gave_up"
	ReasonNotAllowed       Reason = "not_allowed"
	ReasonTooLate          Reason = "too_late"
	ReasonAttemptsUsed     Reason = "attempts_used"
	ReasonCaller           Reason = "caller"
	ReasonOperator         Reason = "operator"
	ReasonForgotten        Reason = "forgotten"
)

// Reasons that only an attempt has: how a call, or a lease without one, ended.
const (
	ReasonUnreachable Reason = "unreachable"  // never connected
	ReasonGate        Reason = "gate"         // refused by the last look before the first byte
	ReasonLeaseLapsed Reason = "lease_lapsed" // the lease ended without a word from its owner
	ReasonDrain       Reason = "drain"        // handed back at shutdown
	ReasonClaimHeld   Reason = "claim_held"   // another worker holds the claim
	// ReasonLedgerRewound says that a claim remembers an attempt which the ledger has forgotten.
	ReasonLedgerRewound Reason = "ledger_rewound"
)
