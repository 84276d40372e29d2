package delivery

import (
	"slices"
	"sync"
	"time"
)

// brakeShare is how much of an hour's sends of an account may say that their
// address is dead before that is taken for the fault of something else: a
// provider in trouble, or credentials of another app. So many more of a few
// sends say so by chance that below brakeLeast sends those count as brakeLeast.
const (
	brakeShare = 0.2
	brakeLeast = 50
)

// brakeHour is the time that is counted over, in slices of brakeSlice.
const (
	brakeHour   = time.Hour
	brakeSlice  = time.Minute
	brakeSlices = int64(brakeHour / brakeSlice)
)

// brake stops the suppressing of dead addresses of one account in this process.
// It counts those that were not suppressed too, so that it holds for as long as
// the share does. The zero value is ready.
type brake struct {
	mu     sync.Mutex
	slices [brakeSlices]brakeCount
	// on is set while it holds.
	on bool
}

// brakeCount counts one slice of time: the n-th since 1970.
type brakeCount struct {
	n          int64
	sent, dead int
}

// sent counts a call that the provider answered for good.
func (b *brake) sent(now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.slice(now).sent++
}

// invalidate counts a dead address and reports whether it may be suppressed;
// tripped says that this is the first that may not.
func (b *brake) invalidate(now time.Time) (allowed, tripped bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.slice(now).dead++
	was := b.on
	b.on = b.tooMany(now)
	return !b.on, b.on && !was
}

// holds reports whether nothing is suppressed now.
func (b *brake) holds(now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.on = b.on && b.tooMany(now)
	return b.on
}

func (b *brake) slice(now time.Time) *brakeCount {
	n := now.UnixNano() / int64(brakeSlice)
	s := &b.slices[n%brakeSlices]
	if s.n != n {
		*s = brakeCount{n: n}
	}
	return s
}

func (b *brake) tooMany(now time.Time) bool {
	n, sent, dead := now.UnixNano()/int64(brakeSlice), 0, 0
	for i := range b.slices {
		if s := &b.slices[i]; s.n > n-brakeSlices && s.n <= n {
			sent, dead = sent+s.sent, dead+s.dead
		}
	}
	return float64(dead) > brakeShare*float64(max(sent, brakeLeast))
}

// brakedAccounts are the accounts whose dead addresses are not suppressed, for
// /readyz and the gauge.
func (e *Engine) brakedAccounts() (parts []string) {
	now := time.Now()
	for key, a := range e.accounts {
		if a.brake.holds(now) {
			parts = append(parts, "invalidation:"+string(key.channel)+"."+key.name)
		}
	}
	slices.Sort(parts)
	return parts
}
