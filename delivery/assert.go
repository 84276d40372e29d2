package delivery

import (
	"fmt"
	"log/slog"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/seed-4b260dfd/notifier"
)

// assertion names something that must never be seen. Each is counted and
// logged in production; in test builds it stops the process.
type assertion string

const (
	// assertHiddenResend: a library, transport or redirect tried to send again.
	assertHiddenResend assertion = "hidden_resend"
	// assertPermitTwice: one permit started two calls in this process.
	assertPermitTwice assertion = "permit_twice"
	// assertNoPermit: a claim-first call without a permit of its fence.
	assertNoPermit assertion = "call_without_permit"
	// assertLateByte: a message was sent without a look at its lease, or after
	// one that found it all but over.
	assertLateByte assertion = "late_first_byte"
	// assertClaimConflict: two owners hold one fence.
	assertClaimConflict assertion = "claim_conflict"
	// assertUnasked: the ledger answered for more than it was asked.
	assertUnasked assertion = "unasked_answer"
)

var allAssertions = [...]assertion{assertHiddenResend, assertPermitTwice, assertNoPermit,
	assertLateByte, assertClaimConflict, assertUnasked}

type assertions struct {
	failed *prometheus.CounterVec
	log    *slog.Logger

	mu sync.Mutex
	// started and before hold the calls of late: two generations, so that the
	// memory is bounded and no recent call is forgotten.
	started, before map[notifier.Hold]struct{}
}

// generation is how many calls one generation of started holds.
const generation = 1 << 13

// fail reports a broken assertion.
func (a *assertions) fail(what assertion, h notifier.Hold) {
	a.failed.WithLabelValues(string(what)).Inc()
	a.log.Error("assertion failed", "assertion", string(what), "delivery", h.ID.String(), "fence", h.Fence)
	if Strict {
		panic(fmt.Sprintf("assertion %s failed for %s under fence %d", what, h.ID, h.Fence))
	}
}

// forget drops the calls of late: a ledger that went back in time gives their
// fences out again, and that is not this process's doing.
func (a *assertions) forget() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.started, a.before = nil, nil
}

// startOnce notes that a call starts under a hold: it must be the only one.
func (a *assertions) startOnce(h notifier.Hold) {
	a.mu.Lock()
	if a.started == nil || len(a.started) >= generation {
		a.before, a.started = a.started, make(map[notifier.Hold]struct{}, generation)
	}
	_, now := a.started[h]
	_, earlier := a.before[h]
	a.started[h] = struct{}{}
	a.mu.Unlock()
	if now || earlier {
		a.fail(assertPermitTwice, h)
	}
}
