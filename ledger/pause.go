package ledger

import "time"

// PauseEnd is when a pause ended: when it was resumed, unless its time was over
// before; zero while it is in force.
func PauseEnd(until, resumed, now time.Time) time.Time {
	switch {
	case !until.IsZero() && (!until.After(now) || !resumed.IsZero()) && (resumed.IsZero() || !resumed.Before(until)):
		return until
	default:
		return resumed
	}
}
