package channels

import (
	"context"
	"errors"
	"time"

	"github.com/seed-4b260dfd/notifier"
)

// ErrNoLookup says that an account is not set up to have anybody asked.
var ErrNoLookup = errors.New("nobody can be asked what became of a message")

// Looker is a Channel whose provider can be asked what it has of a delivery.
type Looker interface {
	// Lookup asks for the effect of the attempts at a delivery that began at
	// since or later. An error says that there is no answer, ErrNoLookup that
	// there will be none; a Found that is not Sent says that the provider knows
	// of no message, which is no proof.
	Lookup(ctx context.Context, d *notifier.Delivery, since time.Time) (Found, error)
}

// Found is what a provider has of a delivery.
type Found struct {
	// Sent says that the provider holds a message of the delivery.
	Sent bool
	// ProviderID is the provider's id for the message.
	ProviderID string
	// ProviderStatus is its status as the provider wrote it.
	ProviderStatus string
}
