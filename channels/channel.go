// Package channels is the way out: what a channel is, the guard that lets one
// request per attempt onto the wire, and the reading of what came back.
//
// A channel answers with a closed Outcome. When its table has no row for what
// it saw, the outcome is unknown; no library, transport or redirect under it
// may send a second request. channelstest holds every channel to both.
package channels

import (
	"context"
	"time"

	"github.com/seed-4b260dfd/notifier"
)

// Kind is what a channel is, whatever the account: pure, without credentials.
type Kind interface {
	// Channel is the kind's name.
	Channel() notifier.Channel
	// SendTimeout is the time that one call is given unless the policy says
	// otherwise. A shorter one makes unknown outcomes.
	SendTimeout() time.Duration
	// CheckAddress returns an *notifier.Error with CodeInvalid whose Field is
	// relative to the address ("token") when no provider could take it.
	CheckAddress(notifier.Address) error
	// Prepare turns rendered template fields into the content that every
	// attempt sends. It returns an *notifier.Error: CodePayloadTooLarge with
	// Details channel, size and limit, or CodeTemplateFailed.
	Prepare(fields map[string]any) (notifier.Content, error)
}

// Channel sends through one account. It is safe for concurrent use.
type Channel interface {
	// Send makes at most one request and says what it came to. It returns when
	// the call has ended, or soon after ctx has.
	Send(ctx context.Context, c *Call) Result
	// Close lets idle connections go.
	Close() error
}

// AddressChecker is a Channel whose account decides which addresses it can
// reach, beside what its Kind says of all.
type AddressChecker interface {
	// CheckAddress returns an *notifier.Error as Kind.CheckAddress does.
	CheckAddress(notifier.Address) error
}

// Call is one attempt at one delivery.
type Call struct {
	Delivery *notifier.Delivery
	// Fence numbers the attempt. Where the provider has room for it, the pair
	// of delivery id and fence goes along, so that its log can be joined with ours.
	Fence int64
	// Guard holds the gate. Each attempt has its own.
	Guard *Guard
}

// Result is how a call ended. Its zero value is an unknown outcome.
type Result struct {
	Outcome notifier.Outcome
	Reason  notifier.Reason
	// RetryAfter is the provider's word on when to come back; zero: it gave none.
	RetryAfter time.Duration
	// AccountWide says that the provider wants RetryAfter kept by everything that
	// is sent through the account, not by this delivery alone.
	AccountWide bool
	// Again asks for another attempt at once: our short-lived token had
	// expired and has been renewed.
	Again bool
	// ProviderStatus is the status as the provider wrote it: "410 Unregistered",
	// "250", or the transport's error in one short line.
	ProviderStatus string
	// ProviderID is the provider's id for the message, if it gave one.
	ProviderID string
	// InvalidSince is the time from which on the provider holds the address
	// for dead; zero if it did not say.
	InvalidSince time.Time
}
