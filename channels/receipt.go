package channels

import (
	"net/http"
	"time"

	"github.com/seed-4b260dfd/notifier"
)

// Receiver is a Channel whose provider calls back with receipts.
type Receiver interface {
	// Receipts reads one call of the provider. The url is the public one that
	// the provider was given, query included. It returns an *notifier.Error:
	// CodeUnauthenticated when the signature does not hold, CodeInvalid when
	// the call cannot be read. Receipts that say nothing of a message's state are left out.
	Receipts(url string, header http.Header, body []byte) ([]Receipt, error)
}

// Receipt is the provider's later word on a message that it took.
type Receipt struct {
	// Delivery is our id, as the message carried it.
	Delivery notifier.DeliveryID
	// State is StateDelivered, StateRejected, or StateSent: the provider took the
	// message and knows no more yet, which settles an unknown outcome and
	// changes no other.
	State notifier.State
	// Reason is ReasonInvalidAddress, or ReasonRefused, with StateRejected.
	Reason notifier.Reason
	// ProviderStatus is the receipt's status as the provider wrote it.
	ProviderStatus string
	// ProviderID is the provider's id for the message.
	ProviderID string
	// At is when it happened, if the provider said so.
	At time.Time
}
