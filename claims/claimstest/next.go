package claimstest

import (
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed-4b260dfd/notifier/claims"
)

func (s *script) next(owner string, ttl time.Duration) claims.Answer {
	s.Helper()
	a, err := s.AcquireNext(s.Context(), "effect", owner, ttl)
	if err != nil {
		s.Fatalf("acquire next for %s: %v", owner, err)
	}
	return a
}

// nextGranted acquires under a new fence, and wants it granted above one.
func (s *script) nextGranted(owner string, above int64) claims.Claim {
	s.Helper()
	a := s.next(owner, 5*second)
	if a.Status != claims.StatusGranted || a.By != owner || a.Fence <= above {
		s.Fatalf("acquire next for %s: got %+v, want it granted above fence %d", owner, a, above)
	}
	s.near("left", a.Left, 5*second, -s.Slack, 0)
	return claim(a.Fence, owner)
}

func nextGrows(s *script) {
	var last int64
	for i := range 20 {
		c := s.nextGranted(strconv.Itoa(i), last)
		last = c.Fence
		s.release(c)
	}
	a := s.next("short", second/4)
	s.Pass(second/4 + s.Slack)
	s.nextGranted("after the end", a.Fence)
}

func nextRepeatIsMine(s *script) {
	first := s.nextGranted("a", 0)
	s.Pass(second / 2)
	again := s.next("a", 5*second)
	if again.Status != claims.StatusGranted || again.Fence != first.Fence {
		s.Fatalf("a repeat: got %+v, want fence %d granted again", again, first.Fence)
	}
	s.near("left", again.Left, 5*second, -s.Slack, 0)
	s.renew(first, 9*second, true)
	if a := s.next("a", second); a.Left < 9*second-s.Slack {
		s.Errorf("a repeat shortened the claim to %v", a.Left)
	}
}

func nextRefused(s *script) {
	c := s.nextGranted("a", 0)
	a := s.next("b", 9*second)
	if a.Status != claims.StatusHeld || a.By != "a" || a.Fence != c.Fence {
		s.Fatalf("got %+v, want it held by %+v", a, c)
	}
	s.near("left", a.Left, 5*second, -s.Slack, 0)
	s.settle(c, "sent", 5*second)
	for _, owner := range []string{"a", "b"} {
		a := s.next(owner, 9*second)
		if a.Status != claims.StatusDone || a.By != "a" || a.Fence != c.Fence || a.Outcome != "sent" {
			s.Fatalf("for %s: got %+v, want done by %+v", owner, a, c)
		}
	}
}

func nextOneHolderPerFence(s *script) {
	s.oneHolder(func(owner string) (claims.Answer, error) {
		return s.AcquireNext(s.Context(), "effect", owner, 60*second)
	})
}

// The fences come from a ledger, which hands out each of them once.
func acquireOneHolderPerFence(s *script) {
	var fence atomic.Int64
	s.oneHolder(func(owner string) (claims.Answer, error) {
		return s.Claims.Acquire(s.Context(), claim(fence.Add(1), owner), 60*second)
	})
}

// oneHolder has many take and give back at once: no fence is granted to two of
// them, and no two hold the claim together.
func (s *script) oneHolder(take func(owner string) (claims.Answer, error)) {
	const owners, rounds = 8, 40
	var book holders
	var all sync.WaitGroup
	for i := range owners {
		all.Go(func() {
			for round := range rounds {
				owner := strconv.Itoa(i) + "/" + strconv.Itoa(round)
				a, err := take(owner)
				if err != nil {
					s.Errorf("acquire: %v", err)
					return
				}
				if a.Status != claims.StatusGranted {
					continue
				}
				c := claim(a.Fence, owner)
				book.begin(s, c)
				ours, err := s.Claims.Renew(s.Context(), c, 60*second)
				if err != nil || !ours {
					s.Errorf("renew %+v: got %v, %v, want it ours", c, ours, err)
				}
				book.end() // before the store is told, so that nobody is early
				if err := s.Claims.Release(s.Context(), c); err != nil {
					s.Errorf("release: %v", err)
				}
			}
		})
	}
	all.Wait()
	if len(book.fences) == 0 {
		s.Error("nobody was granted the claim")
	}
}

// holders is a book of who holds the claim, and of who ever did.
type holders struct {
	mu     sync.Mutex
	now    int
	fences map[int64]string
}

func (h *holders) begin(s *script, c claims.Claim) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.now++; h.now > 1 {
		s.Errorf("%d owners hold the claim at once", h.now)
	}
	if by, ok := h.fences[c.Fence]; ok {
		s.Errorf("fence %d was granted to %s and to %s", c.Fence, by, c.Owner)
	}
	if h.fences == nil {
		h.fences = map[int64]string{}
	}
	h.fences[c.Fence] = c.Owner
}

func (h *holders) end() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.now--
}
