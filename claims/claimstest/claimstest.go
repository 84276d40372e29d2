// Package claimstest is what every store of claims must pass: in process, or
// behind a network.
package claimstest

import (
	"context"
	"testing"
	"time"

	"github.com/seed-4b260dfd/notifier/claims"
)

// Claims is a store of claims.
type Claims interface {
	Acquire(ctx context.Context, c claims.Claim, ttl time.Duration) (claims.Answer, error)
	AcquireNext(ctx context.Context, key, owner string, ttl time.Duration) (claims.Answer, error)
	Renew(ctx context.Context, c claims.Claim, ttl time.Duration) (bool, error)
	Release(ctx context.Context, c claims.Claim) error
	Settle(ctx context.Context, c claims.Claim, outcome string, ttl time.Duration) error
}

// Subject is a store under test, without claims at first.
type Subject struct {
	Claims
	// Pass lets time go by on the store's clock.
	Pass func(time.Duration)
	// Slack is by how much the store's clock may go on during a test besides
	// what Pass lets by: zero for one that stands still. It is well under a
	// second.
	Slack time.Duration
}

// Frame sets a Subject up, runs the test over it, and takes it down.
type Frame func(t *testing.T, test func(t *testing.T, s Subject))

// The unit of time of the suite: long enough to be told apart on a real
// server, short enough to be waited for.
const second = time.Second

// Run holds a store to every rule, each over a fresh Subject.
func Run(t *testing.T, frame Frame) {
	for _, rule := range rules {
		t.Run(rule.name, func(t *testing.T) {
			t.Parallel()
			frame(t, func(t *testing.T, s Subject) { rule.test(&script{T: t, Subject: s}) })
		})
	}
}

var rules = [...]struct {
	name string
	test func(*script)
}{
	{"Acquire_Absent", acquireAbsent},
	{"Acquire_RepeatIsMine", acquireRepeatIsMine},
	{"Acquire_RepeatNeverShortens", acquireRepeatNeverShortens},
	{"Acquire_HeldByOlderFence", acquireHeldByOlderFence},
	{"Acquire_StaleUnderNewerFence", acquireStaleUnderNewerFence},
	{"Acquire_ConflictOfOwners", acquireConflictOfOwners},
	{"Acquire_AfterTheEnd", acquireAfterTheEnd},
	{"Acquire_KeysAreApart", acquireKeysAreApart},
	{"Acquire_OneWinnerOfMany", acquireOneWinnerOfMany},
	{"Acquire_OneHolderPerFence", acquireOneHolderPerFence},
	{"Renew_Prolongs", renewProlongs},
	{"Renew_OnlyTheHolder", renewOnlyTheHolder},
	{"Renew_NothingThere", renewNothingThere},
	{"Release_FreesAtOnce", releaseFreesAtOnce},
	{"Release_OnlyTheHolder", releaseOnlyTheHolder},
	{"Release_NeverATombstone", releaseNeverATombstone},
	{"Settle_AnswersDoneToAll", settleAnswersDoneToAll},
	{"Settle_Ends", settleEnds},
	{"Settle_NothingThere", settleNothingThere},
	{"Settle_ByAnotherForTheLost", settleByAnotherForTheLost},
	{"Settle_OlderFenceOverNewerClaim", settleOlderFenceOverNewerClaim},
	{"Settle_NewerFenceStands", settleNewerFenceStands},
	{"Settle_RepeatKeepsTheAge", settleRepeatKeepsTheAge},
	{"Settle_LaterWordOfOneFenceStands", settleLaterWordOfOneFenceStands},
	{"Settle_NeverShortens", settleNeverShortens},
	{"Random_AgreesWithTheModel", randomAgreesWithTheModel},
	{"AcquireNext_Grows", nextGrows},
	{"AcquireNext_RepeatIsMine", nextRepeatIsMine},
	{"AcquireNext_Refused", nextRefused},
	{"AcquireNext_OneHolderPerFence", nextOneHolderPerFence},
	{"Faults", faults},
	{"EndedContext", endedContext},
}

// script is a test in the words of the rules.
type script struct {
	*testing.T
	Subject
}

func claim(fence int64, owner string) claims.Claim {
	return claims.Claim{Key: "effect", Fence: fence, Owner: owner}
}

func (s *script) acquire(c claims.Claim, ttl time.Duration) claims.Answer {
	s.Helper()
	a, err := s.Claims.Acquire(s.Context(), c, ttl)
	if err != nil {
		s.Fatalf("acquire %+v: %v", c, err)
	}
	return a
}

// granted acquires and wants it granted.
func (s *script) granted(c claims.Claim, ttl time.Duration) {
	s.Helper()
	a := s.acquire(c, ttl)
	if a.Status != claims.StatusGranted || a.Fence != c.Fence || a.By != c.Owner {
		s.Fatalf("acquire %+v: got %+v, want it granted", c, a)
	}
}

// refused acquires and wants a status, with the claim that stands in the way.
func (s *script) refused(c claims.Claim, want claims.Status, by claims.Claim, left time.Duration) {
	s.Helper()
	a := s.acquire(c, 100*second)
	if a.Status != want || a.Fence != by.Fence || a.By != by.Owner || a.Outcome != "" || a.Age != 0 {
		s.Fatalf("acquire %+v: got %+v, want %v by %+v", c, a, want, by)
	}
	s.near("left", a.Left, left, -s.Slack, 0)
}

// done acquires and wants the tombstone.
func (s *script) done(c, by claims.Claim, outcome string, age, left time.Duration) {
	s.Helper()
	a := s.acquire(c, 100*second)
	if a.Status != claims.StatusDone || a.Fence != by.Fence || a.By != by.Owner || a.Outcome != outcome {
		s.Fatalf("acquire %+v: got %+v, want done by %+v with %q", c, a, by, outcome)
	}
	s.near("age", a.Age, age, 0, s.Slack)
	s.near("left", a.Left, left, -s.Slack, 0)
}

// near wants a span within [want+low, want+high].
func (s *script) near(what string, got, want, low, high time.Duration) {
	s.Helper()
	if got < want+low || got > want+high {
		s.Fatalf("%s: got %v, want %v within %v and %v", what, got, want, low, high)
	}
}

func (s *script) renew(c claims.Claim, ttl time.Duration, want bool) {
	s.Helper()
	got, err := s.Claims.Renew(s.Context(), c, ttl)
	if err != nil || got != want {
		s.Fatalf("renew %+v: got %v, %v, want %v", c, got, err, want)
	}
}

func (s *script) release(c claims.Claim) {
	s.Helper()
	if err := s.Claims.Release(s.Context(), c); err != nil {
		s.Fatalf("release %+v: %v", c, err)
	}
}

func (s *script) settle(c claims.Claim, outcome string, ttl time.Duration) {
	s.Helper()
	if err := s.Claims.Settle(s.Context(), c, outcome, ttl); err != nil {
		s.Fatalf("settle %+v: %v", c, err)
	}
}
