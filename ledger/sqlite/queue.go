package sqlite

import (
	"errors"

	"github.com/seed-4b260dfd/notifier"
)

// The states of queue rows. The API shows the last two both as "sending".
const (
	statePending = "pending"
	stateLeased  = "leased"
	stateSending = "sending"
)

// shown is a queue row's state as the API has it.
func shown(state string) notifier.State {
	if state == statePending {
		return notifier.StatePending
	}
	return notifier.StateSending
}

// timed says that a delivery with a reason waits for the clock alone.
func timed(r notifier.Reason) bool {
	switch r {
	case notifier.ReasonScheduled, notifier.ReasonBackoff, notifier.ReasonThrottled, notifier.ReasonCap,
		notifier.ReasonQuietHours, notifier.ReasonPaused, notifier.ReasonRedisDown:
		return true
	default:
		return false
	}
}

// errMissing says that a row that another row refers to is not there.
var errMissing = errors.New("the row is missing")

func orMissing(err error) error {
	if err == nil {
		return errMissing
	}
	return err
}

func idOf(b []byte) (id notifier.ID) {
	copy(id[:], b)
	return id
}

func deliveryID(nid []byte, ch int64) notifier.DeliveryID {
	return notifier.DeliveryID{Notification: idOf(nid), Ordinal: uint16(ch)}
}
