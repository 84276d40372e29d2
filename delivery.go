package notifier

import (
	"strconv"
	"time"
)

// Lane is a queue of its own within the ledger: one account's deliveries of
// one priority. No lane starves another.
type Lane struct {
	Channel  Channel
	Account  string
	Priority Priority
}

// UnknownRule is what a policy does about an attempt whose outcome is unknown.
type UnknownRule string

// The rules for unknown outcomes.
const (
	UnknownStop   UnknownRule = "stop"
	UnknownResend UnknownRule = "resend"
	UnknownLookup UnknownRule = "lookup"
)

// RedisDownRule is what a delivery does while claims and caps cannot be asked.
type RedisDownRule string

// The rules for claims and caps that do not answer.
const (
	// RedisDownWait makes the attempt once they answer again.
	RedisDownWait RedisDownRule = "wait"
	// RedisDownProceed makes it on the ledger's word alone. Its units are added
	// to the caps later.
	RedisDownProceed RedisDownRule = "proceed"
)

// Retry is when an attempt is followed by another.
type Retry struct {
	Initial     time.Duration `json:"initial"`
	Factor      float64       `json:"factor"`
	Max         time.Duration `json:"max"`
	MaxAttempts int           `json:"max_attempts"`
	MaxUnknown  int           `json:"max_unknown"`
}

// CapRule is what happens to a delivery that a cap denies.
type CapRule string

// The rules for a denied delivery.
const (
	CapSuppress CapRule = "suppress"
	CapDefer    CapRule = "defer"
)

// Cap is a limit that one delivery is held to, resolved at acceptance.
type Cap struct {
	Name string `json:"name"`
	// Key is the scope: recipient and the values of the policy's "per", hashed.
	Key string `json:"key"`
	// Slot is equal for all caps of one recipient: a store that is spread over
	// nodes keeps them on one. Short, and no more than that: it names nobody.
	Slot   string        `json:"slot,omitempty"`
	Limit  int           `json:"limit"`
	Window time.Duration `json:"window"`
	Then   CapRule       `json:"then"`
}

// Terms are the parts of a policy that a delivery carries from acceptance to
// its end. Nothing in flight asks the configuration.
type Terms struct {
	Lease       time.Duration `json:"lease"`
	SendTimeout time.Duration `json:"send_timeout"`
	Unknown     UnknownRule   `json:"unknown"`
	RedisDown   RedisDownRule `json:"redis_down"`
	Retry       Retry         `json:"retry"`
	Caps        []Cap         `json:"caps,omitempty"`
	Tombstone   time.Duration `json:"tombstone"`
}

// Delivery is a notification on one channel to one address: the unit of lease,
// claim, fence, cap and outcome. Nothing of it changes after acceptance.
type Delivery struct {
	ID         DeliveryID
	Tenant     string
	Key        string
	Type       string
	Recipient  string
	Order      Order
	Lane       Lane
	Address    Address
	Content    Content
	CollapseID string
	EffectKey  string
	Terms      Terms
	AcceptedAt time.Time
	// SendAt is when the first attempt is due: AcceptedAt, or what the caller asked for.
	SendAt    time.Time
	ExpiresAt time.Time
}

// CapUnit names the unit that a cap counts: the n-th attempt, counting from 1
// those that may have arrived, of one notification on one channel. The
// addresses of the channel share it: three phones that ring together are one.
func CapUnit(id ID, channel Channel, n int) string {
	return id.String() + ":" + string(channel) + ":" + strconv.Itoa(n)
}
