package channels

import (
	"errors"
	"sync/atomic"
)

// ErrGate is the error of a request that the gate refused. Nothing of its body left.
var ErrGate = errors.New("the gate refused the request")

// Guard watches over one attempt: it holds the gate, the last look before the
// irreversible step, and counts what the transport did.
type Guard struct {
	// Look is the last look: it returns why the request must not leave, or
	// nil. It runs once, when the transport first reads the body (SMTP: before
	// the final dot).
	Look func() error

	state atomic.Int32
	// Counters of the transport's doings, filled by SingleShot.
	gotConn, wroteHeaders, firstByte atomic.Int32
	hiddenResend                     atomic.Bool
}

const (
	gateOpen int32 = iota
	gatePassed
	gateClosed
)

// Pass takes the look and opens the way for the request, once. After it has
// returned nil the request may have left; after an error nothing has and
// nothing will.
func (g *Guard) Pass() error {
	if g.Look != nil {
		if err := g.Look(); err != nil {
			g.state.CompareAndSwap(gateOpen, gateClosed)
			return errors.Join(ErrGate, err)
		}
	}
	if !g.state.CompareAndSwap(gateOpen, gatePassed) {
		return ErrGate
	}
	return nil
}

// ProveUnsent closes the gate and reports whether that proves that nothing was
// sent: the request never passed, and never will.
func (g *Guard) ProveUnsent() bool {
	return g.state.CompareAndSwap(gateOpen, gateClosed) || g.state.Load() == gateClosed
}

// HiddenResend reports whether something under the channel tried to send the
// request a second time. It must never be true.
func (g *Guard) HiddenResend() bool {
	return g.hiddenResend.Load() || g.wroteHeaders.Load() > 1
}
