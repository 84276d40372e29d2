// Package ratestest is what every store of paces must pass: in process, or
// behind a network.
package ratestest

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seed-4b260dfd/notifier/rates"
)

// Rates is a store of paces.
type Rates interface {
	Take(ctx context.Context, p rates.Pace, n int) (rates.Slots, error)
}

// Subject is a store under test, of which nothing has been taken.
type Subject struct {
	Rates
	// Other is another process's way to the same paces.
	Other Rates
	// Pass lets time go by on the store's clock.
	Pass func(time.Duration)
	// Exact says that the store's clock goes on by Pass alone. Otherwise it goes
	// on by itself, and answers are held to what cannot be exceeded.
	Exact bool
}

// Frame sets a Subject up, runs the test over it, and takes it down.
type Frame func(t *testing.T, test func(t *testing.T, s Subject))

// Run holds a store to every rule, each over a fresh Subject.
func Run(t *testing.T, frame Frame) {
	for _, rule := range rules {
		t.Run(rule.name, func(t *testing.T) {
			t.Parallel()
			frame(t, func(t *testing.T, s Subject) { rule.test(script{t, s}) })
		})
	}
}

var rules = [...]struct {
	name string
	test func(script)
}{
	{"FirstIsNow", firstIsNow},
	{"OnlySoFarAhead", onlySoFarAhead},
	{"SlowerThanAhead", slowerThanAhead},
	{"IdleSavesNothing", idleSavesNothing},
	{"KeysAreApart", keysAreApart},
	{"FasterTakesHoldSoon", fasterTakesHoldSoon},
	{"TogetherNoFaster", togetherNoFaster},
	{"Faults", faults},
	{"EndedContext", endedContext},
}

type script struct {
	*testing.T
	Subject
}

func pace(every time.Duration) rates.Pace { return rates.Pace{Key: "apns/shop", Every: every} }

func (s script) take(from Rates, p rates.Pace, n int) rates.Slots {
	s.Helper()
	got, err := from.Take(s.Context(), p, n)
	if err != nil {
		s.Fatalf("take %d: %v", n, err)
	}
	if got.N < 0 || got.N > n || got.N > 0 && got.Every != p.Every || got.N == 0 && got.First <= 0 {
		s.Fatalf("take %d, %v apart: got %+v", n, p.Every, got)
	}
	return got
}

// want wants slots of which the first is due at first. By a clock that goes on by
// itself it may be due sooner by then, and a slot more may have come in reach.
func (s script) want(got rates.Slots, n int, first time.Duration) {
	s.Helper()
	if s.Exact && (got.N != n || got.First != first) || got.N < n || got.First > first {
		s.Errorf("got %d slots from %v on, want %d from %v on", got.N, got.First, n, first)
	}
}

func firstIsNow(s script) {
	s.want(s.take(s, pace(time.Minute), 1), 1, 0)
}

func onlySoFarAhead(s script) {
	p := pace(100 * time.Millisecond) // at 0, 100 and 200 ms
	s.want(s.take(s, p, 50), 3, 0)
	if !s.Exact {
		return // what comes in reach meanwhile depends on the clock
	}
	s.want(s.take(s.Other, p, 50), 0, 50*time.Millisecond)
	s.Pass(60 * time.Millisecond)
	s.want(s.take(s, p, 50), 1, 240*time.Millisecond)
}

func slowerThanAhead(s script) {
	p := pace(10 * time.Second)
	s.want(s.take(s, p, 5), 1, 0)
	got := s.take(s.Other, p, 5)
	if got.N != 0 || got.First > p.Every-rates.Ahead || got.First < p.Every-rates.Ahead-5*time.Second {
		s.Errorf("got %+v, want none for %v", got, p.Every-rates.Ahead)
	}
}

func idleSavesNothing(s script) {
	p := pace(50 * time.Millisecond)
	s.want(s.take(s, p, 1), 1, 0)
	s.Pass(1500 * time.Millisecond)
	// At 0, 50 … 250 ms, whatever was not taken before.
	if got := s.take(s, p, 1000); got.N != 6 || got.First != 0 {
		s.Errorf("after an idle time: got %+v, want 6 from now on", got)
	}
}

func keysAreApart(s script) {
	s.want(s.take(s, pace(time.Minute), 1), 1, 0)
	s.want(s.take(s, rates.Pace{Key: "apns/shop2", Every: time.Minute}, 1), 1, 0)
}

// A pace that was slow and is set to be faster does not wait out the old one.
func fasterTakesHoldSoon(s script) {
	s.want(s.take(s, pace(time.Hour), 1), 1, 0)
	s.want(s.take(s, pace(100*time.Millisecond), 1), 1, rates.Ahead)
}

// Many who take as much as they get have no more than one would.
func togetherNoFaster(s script) {
	const every, lasts = 5 * time.Millisecond, time.Second
	var all sync.WaitGroup
	var mu sync.Mutex
	total := 0
	began := time.Now()
	for i := range 8 {
		from := s.Rates
		if i%2 == 1 {
			from = s.Other
		}
		all.Go(func() {
			for n := 1; time.Since(began) < lasts; n = n%7 + 1 {
				got := s.take(from, pace(every), n)
				mu.Lock()
				total += got.N
				mu.Unlock()
				s.Pass(max(got.First, time.Millisecond))
			}
		})
	}
	all.Wait()
	took := time.Since(began)
	if most := int((took+rates.Ahead)/every) + 1; total > most {
		s.Errorf("got %d slots in %v, want at most %d", total, took, most)
	}
	if least := int(lasts / every / 4); total < least {
		s.Errorf("got %d slots in %v, want %d or more", total, took, least)
	}
}

func faults(s script) {
	for _, tc := range []struct {
		p    rates.Pace
		n    int
		says string
	}{
		{rates.Pace{Every: time.Second}, 1, "key"},
		{rates.Pace{Key: "k"}, 1, "apart"},
		{rates.Pace{Key: "k", Every: -time.Second}, 1, "apart"},
		{rates.Pace{Key: "k", Every: 48 * time.Hour}, 1, "apart"},
		{rates.Pace{Key: "k", Every: time.Second}, 0, "1 or more"},
	} {
		if _, err := s.Take(s.Context(), tc.p, tc.n); err == nil || !strings.Contains(err.Error(), tc.says) {
			s.Errorf("%+v, %d: got %v, want an error that says %q", tc.p, tc.n, err, tc.says)
		}
	}
}

func endedContext(s script) {
	ctx, cancel := context.WithCancel(s.Context())
	cancel()
	if _, err := s.Take(ctx, pace(time.Minute), 1); !errors.Is(err, context.Canceled) {
		s.Errorf("got %v, want %v", err, context.Canceled)
	}
	s.want(s.take(s, pace(time.Minute), 1), 1, 0)
}
