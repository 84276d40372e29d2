package delivery

import (
	"testing"
	"time"
)

func TestBrake(t *testing.T) {
	t.Parallel()
	var b brake
	now := time.Date(2026, 12, 1, 9, 0, 30, 0, time.UTC)
	// dead has n calls say so, and returns how many may be suppressed.
	dead := func(n int) (allowed, tripped int) {
		for range n {
			b.sent(now)
			may, first := b.invalidate(now)
			if may {
				allowed++
			}
			if first {
				tripped++
			}
		}
		return allowed, tripped
	}
	if allowed, tripped := dead(100); allowed != 10 || tripped != 1 || !b.holds(now) {
		t.Errorf("100 of 100: got %d suppressed, tripped %d times, held %v; want a fifth of 50, once, and held", allowed, tripped, b.holds(now))
	}
	// The share is that of all sends: others make room, and a lull does not.
	now = now.Add(30 * time.Minute)
	for range 399 {
		b.sent(now)
	}
	if !b.holds(now) {
		t.Error("100 of 499: it does not hold any more")
	}
	b.sent(now)
	if b.holds(now) {
		t.Error("100 of 500: it holds still")
	}
	if allowed, tripped := dead(1); allowed != 0 || tripped != 1 {
		t.Errorf("101 of 501: got %d suppressed, tripped %d times; want none, and once more", allowed, tripped)
	}
	// After an hour the first are forgotten, and after two all are.
	now = now.Add(brakeHour - 30*time.Minute)
	if b.holds(now) {
		t.Error("1 of 401: it holds still")
	}
	now = now.Add(3 * brakeHour)
	if allowed, tripped := dead(11); allowed != 10 || tripped != 1 {
		t.Errorf("hours later: got %d suppressed, tripped %d times; want 10 and once", allowed, tripped)
	}
}
