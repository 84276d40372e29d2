package notifier

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"time"
)

// Channel is a way to reach somebody.
type Channel string

// The channels.
const (
	ChannelAPNs    Channel = "apns"
	ChannelFCM     Channel = "fcm"
	ChannelWebPush Channel = "webpush"
	ChannelEmail   Channel = "email"
	ChannelSMS     Channel = "sms"
	ChannelWebhook Channel = "webhook"
)

// Channels is every channel, in the order in which they are documented.
var Channels = [...]Channel{ChannelAPNs, ChannelFCM, ChannelWebPush, ChannelEmail, ChannelSMS, ChannelWebhook}

// Priority is which of an account's lanes a delivery waits in.
type Priority string

// The priorities. High has a quarter of each account's limits to itself.
const (
	PriorityHigh   Priority = "high"
	PriorityNormal Priority = "normal"
	PriorityBulk   Priority = "bulk"
)

// Priorities is every priority, first served first.
var Priorities = [...]Priority{PriorityHigh, PriorityNormal, PriorityBulk}

// Address is where a recipient is reached on one channel. It prints itself
// redacted; the fields are for the channel that sends.
type Address struct {
	// Value identifies the address: device token, mailbox, number or URL.
	Value string `json:"value"`
	// Account is the account that must be used, when the caller named one.
	Account string `json:"account,omitempty"`
	// Name is the display name of a mailbox.
	Name string `json:"name,omitempty"`
	// Secret names the secret that signs for a webhook.
	Secret string `json:"secret,omitempty"`
	// Keys are what a message to a Web Push subscription is encrypted with.
	Keys PushKeys `json:"keys,omitzero"`
	// RegisteredAt is when the address was last known to be good; zero if unknown.
	RegisteredAt time.Time `json:"registered_at,omitzero"`
}

// String returns the address with its middle left out: enough to recognise it,
// too little to use it.
func (a Address) String() string { return Redact(a.Value) }

// Format prints the redacted form for every verb, %#v included.
func (a Address) Format(f fmt.State, _ rune) { fmt.Fprint(f, a.String()) }

// LogValue is the redacted form.
func (a Address) LogValue() slog.Value { return slog.StringValue(a.String()) }

// PushKeys are a browser's keys for one Web Push subscription, in base64url as
// PushSubscription.toJSON gives them. Whoever has them can write messages that
// the browser takes for ours, so they print as nothing.
type PushKeys struct {
	// P256dh is the browser's public key.
	P256dh string `json:"p256dh"`
	// Auth is the secret that browser and sender share.
	Auth string `json:"auth"`
}

// Format prints nothing of the keys, whatever the verb.
func (PushKeys) Format(f fmt.State, _ rune) { fmt.Fprint(f, "…") }

// LogValue is as empty.
func (PushKeys) LogValue() slog.Value { return slog.StringValue("…") }

// Redact keeps the first and last four characters of a long value, one of a
// middling one, and nothing of a short one.
func Redact(s string) string {
	r := []rune(s)
	switch {
	case len(r) >= 16:
		return string(r[:4]) + "…" + string(r[len(r)-4:])
	case len(r) >= 6:
		return string(r[:1]) + "…" + string(r[len(r)-1:])
	default:
		return "…"
	}
}

// Request is a caller's wish for one notification, as the API took it in.
type Request struct {
	Tenant    string
	Key       string
	Type      string
	Recipient string
	To        map[Channel][]Address
	// Data is the JSON object of values for templates.
	Data      map[string]any
	Locale    string
	TimeZone  string
	SendAt    time.Time
	ExpiresAt time.Time
	Entity    string
	Version   int64
}

// Accepted is the answer to a Request.
type Accepted struct {
	ID ID
	// Replayed says that the key was accepted before: nothing new was made.
	Replayed bool
	// Ignored names what of this copy had no effect: fields in which a repeat
	// differs from the first copy, and channels that the policy does not use.
	Ignored []string
	// Fresh is the notification as its acceptance stored it; nil for a repeat.
	Fresh *Notification
}

// Notification is the resource that callers read.
type Notification struct {
	ID            ID              `json:"id"`
	Tenant        string          `json:"-"`
	Key           string          `json:"key"`
	Type          string          `json:"type"`
	Recipient     string          `json:"recipient"`
	State         State           `json:"state"`
	Counts        map[State]int   `json:"counts"`
	Order         Order           `json:"order"`
	PolicyVersion string          `json:"policy_version"`
	AcceptedAt    time.Time       `json:"accepted_at"`
	SendAt        time.Time       `json:"send_at,omitzero"`
	ExpiresAt     time.Time       `json:"expires_at"`
	Repeats       int             `json:"repeats"`
	Deliveries    []DeliveryState `json:"deliveries"`
	// Ignored is set on the answer to a request only.
	Ignored []string `json:"ignored,omitempty"`
}

// DeliveryState is a delivery as callers read it.
type DeliveryState struct {
	ID      DeliveryID `json:"id"`
	Channel Channel    `json:"channel"`
	Account string     `json:"account"`
	// Address is redacted.
	Address string `json:"address"`
	State   State  `json:"state"`
	Reason  Reason `json:"reason"`
	// PossibleEffects is the number of requests that may have reached the person.
	PossibleEffects int        `json:"possible_effects"`
	NextAttemptAt   *time.Time `json:"next_attempt_at"`
	CollapseID      string     `json:"collapse_id"`
	// Segments is how many a text message takes; zero for what is none.
	Segments int           `json:"segments,omitzero"`
	Attempts []AttemptView `json:"attempts"`
}

// AttemptView is one attempt in a delivery's timeline.
type AttemptView struct {
	Fence          int64      `json:"fence"`
	StartedAt      *time.Time `json:"started_at"`
	FinishedAt     *time.Time `json:"finished_at"`
	Outcome        string     `json:"outcome"` // empty while it is under way
	Reason         Reason     `json:"reason"`
	ProviderStatus string     `json:"provider_status"`
	ProviderID     string     `json:"provider_id"`
	Worker         string     `json:"worker"`
	// Late marks the word of an owner that had been fenced off: it happened,
	// and it changed no outcome.
	Late bool `json:"late"`
}

// Content is what a channel sends: the rendered message as one JSON object,
// made once at acceptance. Its shape is the channel's own.
type Content = json.RawMessage

// Segments is how many segments a text message takes, as its content says;
// zero on any other channel, and when the content is gone.
func Segments(ch Channel, c Content) int {
	var of struct {
		Segments int `json:"segments"`
	}
	if ch != ChannelSMS || len(c) == 0 || json.Unmarshal(c, &of) != nil {
		return 0
	}
	return of.Segments
}
