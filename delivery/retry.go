package delivery

import (
	"math"
	"math/rand/v2"
	"time"

	"github.com/seed-4b260dfd/notifier"
)

// unknownPatience is how much longer the wait after an unknown outcome is: a
// lost reply is no reason to hurry towards a repeat.
const unknownPatience = 6

// Backoff is the wait after the n-th failure in a row, counted from 0: Initial
// × Factorⁿ, at most Max, six times that after an unknown outcome. Half of it is
// fixed, half scaled by random, which lies in [0, 1).
func Backoff(r notifier.Retry, n int, unknown bool, random float64) time.Duration {
	wait := float64(r.Initial) * math.Pow(r.Factor, float64(n))
	if limit := float64(r.Max); wait > limit || math.IsNaN(wait) {
		wait = limit
	}
	if unknown {
		wait *= unknownPatience
	}
	return time.Duration(wait/2 + wait/2*random)
}

// wait is how long a delivery waits after an attempt that did not settle it. A
// provider's own word goes before ours, and is never undercut.
func wait(l *notifier.Leased, retryAfter time.Duration, unknown bool) time.Duration {
	if retryAfter > 0 {
		return retryAfter + time.Duration(rand.Float64()*0.1*float64(retryAfter))
	}
	return Backoff(l.Terms.Retry, l.Fails, unknown, rand.Float64())
}
