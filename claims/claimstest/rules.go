package claimstest

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed-4b260dfd/notifier/claims"
)

func acquireAbsent(s *script) {
	a := s.acquire(claim(7, "a"), 5*second)
	if a.Status != claims.StatusGranted || a.Fence != 7 || a.By != "a" || a.Outcome != "" || a.Age != 0 {
		s.Fatalf("got %+v, want it granted to fence 7 of a", a)
	}
	s.near("left", a.Left, 5*second, -s.Slack, 0)
}

func acquireRepeatIsMine(s *script) {
	s.granted(claim(1, "a"), 2*second)
	s.Pass(second)
	s.granted(claim(1, "a"), 4*second)
	s.Pass(3 * second / 2) // past the first end
	s.refused(claim(2, "b"), claims.StatusHeld, claim(1, "a"), 5*second/2)
}

func acquireRepeatNeverShortens(s *script) {
	s.granted(claim(1, "a"), 5*second)
	s.granted(claim(1, "a"), second)
	s.refused(claim(2, "b"), claims.StatusHeld, claim(1, "a"), 5*second)
}

func acquireHeldByOlderFence(s *script) {
	s.granted(claim(3, "a"), 5*second)
	s.refused(claim(4, "b"), claims.StatusHeld, claim(3, "a"), 5*second)
	// The owner of the older fence is no exception: it makes another attempt.
	s.refused(claim(4, "a"), claims.StatusHeld, claim(3, "a"), 5*second)
	// A refusal takes and prolongs nothing.
	s.renew(claim(4, "b"), 5*second, false)
	s.renew(claim(3, "a"), 5*second, true)
}

func acquireStaleUnderNewerFence(s *script) {
	s.granted(claim(4, "b"), 5*second)
	s.refused(claim(3, "a"), claims.StatusStale, claim(4, "b"), 5*second)
	s.refused(claim(3, "b"), claims.StatusStale, claim(4, "b"), 5*second)
	s.renew(claim(4, "b"), 5*second, true)
}

func acquireConflictOfOwners(s *script) {
	s.granted(claim(4, "b"), 5*second)
	s.refused(claim(4, "a"), claims.StatusConflict, claim(4, "b"), 5*second)
	s.renew(claim(4, "b"), 5*second, true)
}

func acquireAfterTheEnd(s *script) {
	s.granted(claim(4, "a"), second)
	s.Pass(second + s.Slack)
	// Any fence will do: a claim that has ended leaves no memory, and a ledger
	// decides which fence is the newest.
	s.granted(claim(2, "b"), second)
}

func acquireKeysAreApart(s *script) {
	for i, key := range []string{"a", "b", "a\x00", "a/b", "{a}", "ä", "a b"} {
		s.granted(claims.Claim{Key: key, Fence: int64(i + 1), Owner: "x"}, 5*second)
	}
}

func acquireOneWinnerOfMany(s *script) {
	const attempts = 32
	var wins atomic.Int32
	var all sync.WaitGroup
	for i := range attempts {
		all.Go(func() {
			c := claims.Claim{Key: "effect", Fence: int64(i%4 + 1), Owner: strconv.Itoa(i)}
			a, err := s.Claims.Acquire(s.Context(), c, 30*second)
			if err != nil {
				s.Errorf("acquire: %v", err)
			}
			if a.Status == claims.StatusGranted {
				wins.Add(1)
			}
		})
	}
	all.Wait()
	if wins.Load() != 1 {
		s.Errorf("%d of %d attempts were granted the claim, want 1", wins.Load(), attempts)
	}
}

func renewProlongs(s *script) {
	s.granted(claim(1, "a"), 2*second)
	s.Pass(second)
	s.renew(claim(1, "a"), 4*second, true)
	s.refused(claim(2, "b"), claims.StatusHeld, claim(1, "a"), 4*second)
	s.renew(claim(1, "a"), second, true) // a delayed copy shortens nothing
	s.refused(claim(2, "b"), claims.StatusHeld, claim(1, "a"), 4*second)
}

func renewOnlyTheHolder(s *script) {
	s.granted(claim(2, "a"), 5*second)
	for _, other := range []claims.Claim{claim(1, "a"), claim(3, "a"), claim(2, "b")} {
		s.renew(other, 50*second, false)
	}
	s.refused(claim(3, "b"), claims.StatusHeld, claim(2, "a"), 5*second)
}

func renewNothingThere(s *script) {
	s.renew(claim(1, "a"), 5*second, false)
	s.granted(claim(1, "a"), second)
	s.Pass(second + s.Slack)
	s.renew(claim(1, "a"), 5*second, false)
	s.granted(claim(2, "b"), second) // the renewals took nothing
	s.settle(claim(2, "b"), "sent", 5*second)
	s.renew(claim(2, "b"), 50*second, false)
	s.done(claim(3, "a"), claim(2, "b"), "sent", 0, 5*second)
}

func releaseFreesAtOnce(s *script) {
	s.granted(claim(1, "a"), 50*second)
	s.release(claim(1, "a"))
	s.granted(claim(2, "b"), 50*second)
	s.release(claim(1, "a")) // a delayed copy takes nothing from the next
	s.refused(claim(3, "a"), claims.StatusHeld, claim(2, "b"), 50*second)
}

func releaseOnlyTheHolder(s *script) {
	s.release(claim(2, "a")) // nothing there: nothing happens
	s.granted(claim(2, "a"), 5*second)
	for _, other := range []claims.Claim{claim(1, "a"), claim(3, "a"), claim(2, "b")} {
		s.release(other)
	}
	s.refused(claim(3, "b"), claims.StatusHeld, claim(2, "a"), 5*second)
}

func releaseNeverATombstone(s *script) {
	s.granted(claim(1, "a"), 5*second)
	s.settle(claim(1, "a"), "sent", 5*second)
	s.release(claim(1, "a"))
	s.done(claim(2, "b"), claim(1, "a"), "sent", 0, 5*second)
}

func settleAnswersDoneToAll(s *script) {
	s.granted(claim(2, "a"), 5*second)
	s.settle(claim(2, "a"), "sent", 9*second)
	s.Pass(second)
	// To a newer attempt, to one that a ledger numbers anew, to a twin, and to
	// the one that settled: none of them may take it for leave to act.
	for _, c := range []claims.Claim{claim(3, "b"), claim(1, "b"), claim(2, "b"), claim(2, "a")} {
		s.done(c, claim(2, "a"), "sent", second, 8*second)
	}
}

func settleEnds(s *script) {
	s.granted(claim(1, "a"), second/2)
	s.settle(claim(1, "a"), "sent", second)
	s.Pass(second + s.Slack)
	s.granted(claim(2, "b"), second)
}

func settleNothingThere(s *script) {
	s.settle(claim(1, "a"), "sent", 5*second)
	s.done(claim(2, "b"), claim(1, "a"), "sent", 0, 5*second)
}

// The sweep writes for an owner that is gone, over the claim that it left.
func settleByAnotherForTheLost(s *script) {
	s.granted(claim(3, "a"), 5*second)
	s.settle(claim(3, "sweeper"), "unknown", 9*second)
	s.renew(claim(3, "a"), 5*second, false)
	s.done(claim(4, "b"), claim(3, "sweeper"), "unknown", 0, 9*second)
}

// An attempt that was fenced off comes back with a success: the effect is
// there, and the newer attempt must not add another.
func settleOlderFenceOverNewerClaim(s *script) {
	s.granted(claim(1, "a"), second)
	s.Pass(second + s.Slack)
	s.granted(claim(2, "b"), 9*second)
	s.settle(claim(1, "a"), "sent", 5*second)
	s.renew(claim(2, "b"), 9*second, false)
	s.release(claim(2, "b"))
	s.done(claim(3, "c"), claim(1, "a"), "sent", 0, 9*second)
}

func settleNewerFenceStands(s *script) {
	s.settle(claim(2, "a"), "unknown", 5*second)
	s.settle(claim(3, "b"), "sent", 5*second)
	s.done(claim(4, "c"), claim(3, "b"), "sent", 0, 5*second)
	s.settle(claim(2, "a"), "unknown", 9*second)
	s.done(claim(4, "c"), claim(3, "b"), "sent", 0, 9*second)
}

func settleRepeatKeepsTheAge(s *script) {
	s.settle(claim(1, "a"), "sent", 5*second)
	s.Pass(2 * second)
	s.settle(claim(1, "a"), "sent", 5*second)
	s.done(claim(2, "b"), claim(1, "a"), "sent", 2*second, 5*second)
}

func settleLaterWordOfOneFenceStands(s *script) {
	s.settle(claim(1, "sweeper"), "unknown", 5*second)
	s.Pass(second)
	s.settle(claim(1, "a"), "sent", 5*second)
	s.done(claim(2, "b"), claim(1, "a"), "sent", 0, 5*second)
}

func settleNeverShortens(s *script) {
	s.granted(claim(1, "a"), 9*second)
	s.settle(claim(1, "a"), "sent", second)
	s.done(claim(2, "b"), claim(1, "a"), "sent", 0, 9*second)
	s.settle(claim(1, "a"), "sent", 12*second)
	s.settle(claim(1, "a"), "sent", second)
	s.done(claim(2, "b"), claim(1, "a"), "sent", 0, 12*second)
}

// every calls each method.
func (s *script) every(ctx context.Context, c claims.Claim, outcome string, ttl time.Duration) map[string]error {
	_, acquire := s.Claims.Acquire(ctx, c, ttl)
	_, next := s.AcquireNext(ctx, c.Key, c.Owner, ttl)
	_, renew := s.Claims.Renew(ctx, c, ttl)
	return map[string]error{
		"acquire": acquire,
		"next":    next,
		"renew":   renew,
		"settle":  s.Claims.Settle(ctx, c, outcome, ttl),
		"release": s.Claims.Release(ctx, c),
	}
}

func faults(s *script) {
	for _, c := range []claims.Claim{{Fence: 1, Owner: "a"}, {Key: "other", Owner: "a"}, {Key: "effect", Fence: 1}} {
		for method, err := range s.every(s.Context(), c, "sent", second) {
			if err == nil && (method != "next" || c.Fence != 0) { // it brings no fence
				s.Errorf("%s %+v: got no error", method, c)
			}
		}
	}
	for method, err := range s.every(s.Context(), claim(1, "a"), "sent", 0) {
		if err == nil && method != "release" {
			s.Errorf("%s for no time: got no error", method)
		}
	}
	if s.Claims.Settle(s.Context(), claim(1, "a"), "", second) == nil {
		s.Error("settle without an outcome: got no error")
	}
	s.granted(claim(1, "b"), second) // none of them left anything
}

func endedContext(s *script) {
	ctx, cancel := context.WithCancel(s.Context())
	cancel()
	for method, err := range s.every(ctx, claim(1, "a"), "sent", 5*second) {
		if !errors.Is(err, context.Canceled) {
			s.Errorf("%s: got %v, want %v", method, err, context.Canceled)
		}
	}
	s.granted(claim(1, "b"), second)
}
