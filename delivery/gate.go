package delivery

import (
	"errors"
	"time"
)

// reading is an instant on three clocks. A pause lands anywhere and each clock
// misses some: the monotonic one stops in suspension, the wall clock is set
// back, a restored snapshot hides hours from both.
type reading struct {
	mono time.Time
	wall time.Time
	boot time.Duration
}

func readClocks() reading {
	now := time.Now()
	return reading{mono: now, wall: now.Round(0), boot: bootTime()}
}

// elapsed is the time since the reading on the clock that says most.
func (r reading) elapsed() time.Duration { return r.to(readClocks()) }

// to is the time from one reading to the next on the clock that says most.
func (r reading) to(now reading) time.Duration {
	return max(now.mono.Sub(r.mono), now.wall.Sub(r.wall), now.boot-r.boot)
}

// awake is elapsed without the clock that takes a system call to read, for what
// the gate looks at again.
func (r reading) awake() time.Duration {
	now := time.Now()
	return max(now.Sub(r.mono), now.Round(0).Sub(r.wall))
}

var (
	errLeaseSpent = errors.New("the lease is all but over")
	errTooLate    = errors.New("the delivery has expired")
	errDraining   = errors.New("the process is shutting down")
)

// maxMargin is how much of a lease must be left when the request leaves, so
// that a stalled scheduler does not carry it past the end. Short leases keep an
// eighth.
const maxMargin = 500 * time.Millisecond

func margin(lease time.Duration) time.Duration { return min(maxMargin, lease/8) }

// look is the last look before the first byte: whether this attempt is still
// ours to make. It asks no store; nothing may take time here. The transport may
// call it from a goroutine that outlives the call.
func (w *work) look() error {
	h := w.held.Load()
	left := h.lasts - h.since.elapsed()
	if left < margin(h.lasts) {
		return errLeaseSpent
	}
	now := time.Now()
	if !now.Before(w.lease.ExpiresAt) {
		return errTooLate
	}
	if w.paused() {
		return errPaused
	}
	if w.shut(now) {
		return errShut
	}
	w.looked.Store(&looked{at: now, left: left - margin(h.lasts)})
	// From here on the call counts as on the wire: there is room for another permit.
	w.leaveRoom()
	return nil
}

// looked is what a look that let the request through saw.
type looked struct {
	at time.Time
	// left is what the lease had beyond its margin.
	left time.Duration
}
