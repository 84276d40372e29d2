package channels

import (
	"context"
	"errors"
	"net/http"
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

	state   atomic.Int32
	refused atomic.Bool // by the look, not by ProveUnsent
	// Counters of the transport's doings, filled by SingleShot.
	requests, gotConn, wroteHeaders, firstByte atomic.Int32
	hiddenResend                               atomic.Bool
	// What the one request came to, kept by SingleShot.
	answer atomic.Pointer[Answer]
	fault  atomic.Pointer[error]
}

// Answer is what the provider answered to an attempt's one request, whatever a
// library above the transport makes of it.
type Answer struct {
	Status int
	Header http.Header
	// Body is the body as far as it was read, at most 64 KiB.
	Body []byte
	// Err says why the body ends early; nil when it is whole.
	Err error
}

type guardKey struct{}

// WithGuard puts the attempt's guard where SingleShot looks for it.
func WithGuard(ctx context.Context, g *Guard) context.Context {
	return context.WithValue(ctx, guardKey{}, g)
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
			if g.state.CompareAndSwap(gateOpen, gateClosed) {
				g.refused.Store(true)
			}
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

// Answer returns what the provider answered, or nil when there was no answer.
// A status that was read counts, even if the rest of the answer was lost.
func (g *Guard) Answer() *Answer { return g.answer.Load() }

// err returns the transport's own error, if it kept one.
func (g *Guard) err() error {
	if p := g.fault.Load(); p != nil {
		return *p
	}
	return nil
}
