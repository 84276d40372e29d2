package delivery

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed-4b260dfd/notifier"
	"github.com/seed-4b260dfd/notifier/channels"
)

// Breaker says when an account stops calling a provider that fails.
type Breaker struct {
	// After is how many attempts in a row have to fail by the provider's fault,
	// or by our credentials'; zero: it never opens.
	After int
	// Probe is how often one delivery is let through while it is open.
	Probe time.Duration
}

type breakerState int32

// The states of a breaker, with their values in notifier_breaker_state.
const (
	breakerClosed breakerState = iota
	breakerHalfOpen
	breakerOpen
)

func (s breakerState) String() string { return [...]string{"closed", "half-open", "open"}[s] }

const (
	// probeAgain is when the next probe may go after one that came to no call.
	probeAgain = 200 * time.Millisecond
	// throttleTime is how long an account keeps still that is told to without
	// being told for how long, and maxThrottle the longest it does at one word:
	// a header that is wrong must not stop it for days.
	throttleTime = 10 * time.Second
	maxThrottle  = time.Hour
)

// breaker is one account's, in this process: nodes do not tell each other what
// they see of a provider, so that each of them opens its own.
//
// While it is closed and the last call went well, all that a delivery costs are
// a few atomic loads.
type breaker struct {
	Breaker
	state atomic.Int32 // breakerState
	// row counts the failures since the last call that went well.
	row atomic.Int32
	// quiet is until when the provider wants no calls at all, in Unix
	// nanoseconds; zero: it never said so.
	quiet atomic.Int64

	mu sync.Mutex
	// why is what the deliveries wait for while it is not closed.
	why    notifier.Reason
	opened time.Time
	// probeAt is when the next probe may go.
	probeAt time.Time
}

// judgement is what a call says about the provider and our standing with it.
type judgement uint8

const (
	saysNothing judgement = iota
	saysWell
	saysFault
)

// judge reads a result. Whatever the provider decided about one message, and
// that it has too much to do, are signs of health.
func judge(res *channels.Result) judgement {
	switch res.Outcome {
	case notifier.OutcomeUnknown:
		return saysFault
	case notifier.OutcomeNotSent:
		switch {
		case res.Again, res.Reason == notifier.ReasonGate:
			return saysNothing
		case res.Reason == notifier.ReasonUnreachable, res.Reason == notifier.ReasonBadCredentials:
			return saysFault
		}
	case notifier.OutcomeSent, notifier.OutcomeRejected, notifier.OutcomeInvalidAddress:
	}
	return saysWell
}

func (b *breaker) now() breakerState { return breakerState(b.state.Load()) }

// shut reports whether nothing but a probe may be called.
func (b *breaker) shut(now time.Time) bool { return b.now() != breakerClosed || b.throttled(now) }

func (b *breaker) throttled(now time.Time) bool {
	quiet := b.quiet.Load()
	return quiet != 0 && now.UnixNano() < quiet
}

// admits says what may be leased: everything, or one probe, or for a while
// nothing. The caller that is told to probe calls begin when it does.
func (b *breaker) admits(now time.Time) (all, probe bool, wait time.Duration) {
	if quiet := b.quiet.Load(); quiet != 0 && now.UnixNano() < quiet {
		return false, false, time.Duration(quiet - now.UnixNano())
	}
	switch b.now() {
	case breakerClosed:
		return true, false, 0
	case breakerHalfOpen:
		return false, false, b.Probe // the probe's end wakes the dispatcher
	case breakerOpen:
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if wait := b.probeAt.Sub(now); wait > 0 {
		return false, false, wait
	}
	return false, true, 0
}

// begin says that a probe is under way.
func (b *breaker) begin() { b.state.CompareAndSwap(int32(breakerOpen), int32(breakerHalfOpen)) }

// abandon says that a probe came to no call.
func (b *breaker) abandon(now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.state.CompareAndSwap(int32(breakerHalfOpen), int32(breakerOpen)) {
		b.probeAt = now.Add(min(probeAgain, b.Probe))
	}
}

// note takes in how a call ended, and reports whether the breaker opened or
// closed by it. Of an open one only the probe is heard: the others were begun
// before it opened.
func (b *breaker) note(res *channels.Result, probe bool, now time.Time) (changed bool) {
	says := judge(res)
	if b.After == 0 || says == saysNothing || says == saysWell && !probe && b.row.Load() == 0 {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	switch state := b.now(); {
	case says == saysWell && (state == breakerClosed || probe):
		b.row.Store(0)
		b.state.Store(int32(breakerClosed))
		return state != breakerClosed
	case says == saysWell:
		return false
	case state == breakerClosed:
		if b.row.Add(1) < int32(b.After) {
			return false
		}
		b.opened, changed = now, true
	case !probe:
		return false
	}
	b.why = notifier.ReasonBreaker
	if res.Reason == notifier.ReasonBadCredentials {
		b.why = notifier.ReasonBadCredentials
	}
	b.probeAt = now.Add(b.Probe)
	b.state.Store(int32(breakerOpen))
	return changed
}

// throttle keeps the account still for as long as a provider asked all of it
// to, and reports whether that is longer than it was to be anyway.
func (b *breaker) throttle(lasts time.Duration, now time.Time) bool {
	if lasts <= 0 {
		lasts = throttleTime
	}
	until := now.Add(min(lasts, maxThrottle)).UnixNano()
	for {
		was := b.quiet.Load()
		if was >= until {
			return false
		}
		if b.quiet.CompareAndSwap(was, until) {
			return true
		}
	}
}

// hold says what keeps the account from being leased for, and until when; the
// zero time stands for an end that nobody knows.
func (b *breaker) hold(now time.Time) (why notifier.Reason, until time.Time) {
	if b.now() != breakerClosed {
		b.mu.Lock()
		defer b.mu.Unlock()
		return b.why, time.Time{}
	}
	if b.throttled(now) {
		return notifier.ReasonThrottled, time.Unix(0, b.quiet.Load())
	}
	return notifier.ReasonNone, time.Time{}
}
