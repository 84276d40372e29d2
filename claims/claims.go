// Package claims answers one question before an effect without an undo: is
// somebody else at it, or has it been done?
//
// A claim is the right to perform one effect. It has a key, which names the
// effect; a fence, which the ledger raises with every new attempt; and an
// owner, the process that makes the attempt. Every claim ends by itself after
// its time to live. A claim that is settled becomes a tombstone, which says for
// a while longer that the effect may have taken place, and how it came out.
//
// Claims advise and never decide. They keep most concurrent attempts apart
// without a write to the ledger, and a tombstone outlives a ledger that forgot
// a commit. Whoever must not act twice asks the ledger: a store of claims may
// lose everything at any time, and that alone never licenses a second effect
// nor forbids a first one for longer than a time to live.
//
// Memory keeps claims in one process, Redis in a server for many. Programs
// without a ledger have the store number their attempts, with AcquireNext,
// which says what that cannot promise.
//
// Every method is safe to repeat after a lost answer: the fence and the owner
// are recognised. No method shortens the life of a claim or of a tombstone, so
// that a delayed copy of an earlier call does no harm.
package claims

import (
	"errors"
	"fmt"
	"time"
)

// Claim is one attempt's claim to one effect.
type Claim struct {
	// Key names the effect, equal in all of its attempts.
	Key string
	// Fence numbers the attempt. The ledger makes it, or else AcquireNext; it
	// only grows.
	Fence int64
	// Owner is the process that makes the attempt, from its start to its end.
	Owner string
}

// Status is what an Acquire came to. The zero value is none of them.
type Status uint8

const (
	// StatusGranted says that the claim is the caller's, now or since an
	// earlier copy of the same call.
	StatusGranted Status = iota + 1
	// StatusHeld says that an older attempt still holds the claim.
	StatusHeld
	// StatusDone says that the effect may have taken place: there is a tombstone.
	StatusDone
	// StatusStale says that a newer attempt holds the claim: the caller has
	// been fenced off, or its ledger has forgotten the newer fence.
	StatusStale
	// StatusConflict says that another owner holds the claim under the same
	// fence. A ledger that keeps its commits never hands out a fence twice.
	StatusConflict
)

var statusNames = [...]string{"none", "granted", "held", "done", "stale", "conflict"}

// String returns the status's word.
func (s Status) String() string {
	if int(s) < len(statusNames) {
		return statusNames[s]
	}
	return fmt.Sprintf("status(%d)", uint8(s))
}

// Answer is the answer to an Acquire.
type Answer struct {
	Status Status
	// By and Fence are the owner and the fence of the claim or tombstone that
	// is there now: the caller's own when Status is StatusGranted.
	By    string
	Fence int64
	// Left is how long it lives if nobody prolongs it.
	Left time.Duration
	// Outcome and Age are a tombstone's: how the effect came out, and how long
	// ago that was written. Empty and zero for a claim.
	Outcome string
	Age     time.Duration
}

// check refuses what no caller means.
func (c Claim) check() error {
	switch {
	case c.Key == "":
		return errors.New("claim: the key is empty")
	case c.Owner == "":
		return fmt.Errorf("claim %q: the owner is empty", c.Key)
	case c.Fence < 1:
		return fmt.Errorf("claim %q: the fence is %d; fences count from 1", c.Key, c.Fence)
	}
	return nil
}

func (c Claim) checkFor(ttl time.Duration) error {
	if err := c.check(); err != nil {
		return err
	}
	if ttl <= 0 {
		return fmt.Errorf("claim %q: the time to live is %s; it must be positive", c.Key, ttl)
	}
	return nil
}

func (c Claim) checkSettle(outcome string, ttl time.Duration) error {
	if err := c.checkFor(ttl); err != nil {
		return err
	}
	if outcome == "" {
		return fmt.Errorf("claim %q: the outcome is empty", c.Key)
	}
	return nil
}
