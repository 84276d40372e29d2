package delivery

import (
	"math/rand/v2"
	"sync"
	"time"
)

const (
	// budgetWindow is how long first attempts count for the retries, in seconds.
	budgetWindow = 60
	// budgetFloor is how many retries a second there may always be, and
	// budgetBurst how many of those that nobody made may be made up for.
	budgetFloor = 1
	budgetBurst = 10
	// budgetPatience bounds how long a retry is put away for at a time.
	budgetPatience = 5 * time.Minute
)

// budget bounds the retries of one account on this node, so that a provider in
// trouble does not get all of its work twice: to a share of the first attempts
// of the last minute, and to no less than one a second.
type budget struct {
	// share is how many retries there may be for each first attempt; zero: any number.
	share float64

	mu sync.Mutex
	// firsts and retries count by second, in a ring that ends with the second at.
	firsts, retries [budgetWindow]int
	first, retry    int // their sums
	at              int64
	// spared are the retries of the floor that were not made, as of then.
	spared float64
	then   time.Time
	// next is when the last of the retries that were put away is due.
	next time.Time
}

// note counts a first attempt.
func (b *budget) note(now time.Time) {
	if b.share == 0 {
		return
	}
	b.mu.Lock()
	b.turn(now)
	b.firsts[b.at%budgetWindow]++
	b.first++
	b.mu.Unlock()
}

// take spends one retry, or says how long to put it away for. Those that are
// put away get times one after the other, as far apart as the budget bears, so
// that each comes back about once.
func (b *budget) take(now time.Time) (wait time.Duration, ok bool) {
	if b.share == 0 {
		return 0, true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.turn(now)
	allowed := b.share * float64(b.first)
	switch {
	case float64(b.retry)+1 <= allowed:
	case b.spared >= 1:
		b.spared--
	default:
		rate := max(budgetFloor, allowed/budgetWindow)
		if b.next.Before(now) {
			b.next = now
		}
		b.next = b.next.Add(time.Duration(float64(time.Second) / rate))
		if wait = b.next.Sub(now); wait > budgetPatience {
			// Far more than can be retried soon: they come back spread out.
			b.next = now.Add(budgetPatience)
			wait = budgetPatience/2 + rand.N(budgetPatience/2)
		}
		return wait, false
	}
	b.retries[b.at%budgetWindow]++
	b.retry++
	return 0, true
}

// turn forgets what is older than the window.
func (b *budget) turn(now time.Time) {
	second := now.Unix()
	if b.at == 0 {
		b.spared = budgetBurst
	} else {
		b.spared = min(budgetBurst, b.spared+budgetFloor*max(0, now.Sub(b.then).Seconds()))
	}
	b.then = now
	if second-b.at >= budgetWindow {
		b.firsts, b.retries, b.first, b.retry = [budgetWindow]int{}, [budgetWindow]int{}, 0, 0
		b.at = second
	}
	for ; b.at < second; b.at++ {
		i := (b.at + 1) % budgetWindow
		b.first, b.retry = b.first-b.firsts[i], b.retry-b.retries[i]
		b.firsts[i], b.retries[i] = 0, 0
	}
}
