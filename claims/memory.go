package claims

import (
	"container/heap"
	"context"
	"crypto/sha256"
	"fmt"
	"sync"
	"time"
	"unique"
)

// Memory keeps claims in the process. It is for the one process that owns its
// ledger: what it knows ends with the process, and so do the attempts that it
// kept apart.
//
// Its memory is bounded by the claims and tombstones that are alive: each call
// drops some of those that have ended, the oldest first.
type Memory struct {
	// start is what all times are counted from, on the monotonic clock, so
	// that a step of the wall clock neither ends nor prolongs a claim.
	start time.Time

	mu      sync.Mutex
	entries map[digest]*entry
	ends    byEnd
	minted  int64 // the newest fence of AcquireNext
}

// digest stands in for a key of any length: 128 bits of its SHA-256.
type digest [16]byte

// entry is a claim, or a tombstone once outcome is set.
type entry struct {
	key     digest
	fence   int64
	owner   unique.Handle[string]
	ends    time.Duration
	outcome unique.Handle[string]
	settled time.Duration
	at      int // where byEnd has it
}

// dropsPerCall bounds what one call spends on the ended entries of others. Two
// would do to keep up, because a call adds at most one entry.
const dropsPerCall = 32

// worthFreeing is how many entries it takes for an idle store to let go of the
// room that they had.
const worthFreeing = 1024

// NewMemory returns a store without claims.
func NewMemory() *Memory {
	return &Memory{start: time.Now(), entries: make(map[digest]*entry)}
}

// Acquire takes the claim for ttl. An error says that nothing was decided;
// whatever stands in the way is an Answer.
func (m *Memory) Acquire(ctx context.Context, c Claim, ttl time.Duration) (Answer, error) {
	if err := begin(ctx, c.checkFor(ttl)); err != nil {
		return Answer{}, fmt.Errorf("acquire: %w", err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.tick()
	e := m.find(c.Key, now)
	status := e.meets(c)
	if status == StatusGranted {
		if e == nil {
			e = m.add(c, now+ttl)
		}
		m.prolong(e, now+ttl)
	}
	return e.answer(status, now), nil
}

// AcquireNext takes the claim for ttl under a fence that the store makes: above
// every earlier one, and at least the time in microseconds. It is for those who
// have no ledger to number their attempts. The fence is in the answer, and with
// key and owner it is the claim for Renew, Release and Settle.
//
// Two calls with one owner are taken for copies of one call, and are granted
// the same claim: the owner must name the attempt, and not only the process.
// The answer is StatusGranted, StatusHeld or StatusDone. Do not use Acquire on
// the same keys: it brings fences that this one does not know.
//
// A fence orders attempts and stops none: a holder that sleeps past the end of
// its claim goes on when it wakes, beside the next one. Only what is acted upon
// can refuse it, by keeping the highest fence that it has seen. What keeps no
// fence, such as a person who gets a message, needs a ledger that is asked
// before each effect.
func (m *Memory) AcquireNext(ctx context.Context, key, owner string, ttl time.Duration) (Answer, error) {
	c := Claim{Key: key, Fence: 1, Owner: owner}
	if err := begin(ctx, c.checkFor(ttl)); err != nil {
		return Answer{}, fmt.Errorf("acquire: %w", err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.tick()
	e := m.find(key, now)
	switch {
	case e == nil:
		m.minted = max(m.minted+1, time.Now().UnixMicro())
		c.Fence = m.minted
		e = m.add(c, now+ttl)
	case e.done():
		return e.answer(StatusDone, now), nil
	case e.owner.Value() != owner:
		return e.answer(StatusHeld, now), nil
	}
	m.prolong(e, now+ttl)
	return e.answer(StatusGranted, now), nil
}

// Renew prolongs the claim to ttl from now, and reports whether it still is
// the caller's. A claim that has ended, or became a tombstone, is not renewed.
func (m *Memory) Renew(ctx context.Context, c Claim, ttl time.Duration) (bool, error) {
	if err := begin(ctx, c.checkFor(ttl)); err != nil {
		return false, fmt.Errorf("renew: %w", err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.tick()
	e := m.find(c.Key, now)
	if !e.heldBy(c) {
		return false, nil
	}
	m.prolong(e, now+ttl)
	return true, nil
}

// Release gives the claim back untouched. It does nothing unless the claim is
// the caller's, and never takes a tombstone away.
func (m *Memory) Release(ctx context.Context, c Claim) error {
	if err := begin(ctx, c.check()); err != nil {
		return fmt.Errorf("release: %w", err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if e := m.find(c.Key, m.tick()); e.heldBy(c) {
		heap.Remove(&m.ends, e.at)
		delete(m.entries, e.key)
	}
	return nil
}

// Settle leaves a tombstone with the outcome for ttl. It is for those who know
// that the effect may have taken place, whether or not they still hold the
// claim: an effect of an older attempt is no less real because a newer attempt
// has claimed it since, and the newer one learns of it when it renews. Of two
// tombstones the one with the newer fence stands, of one fence the later; the
// age counts from the first with that fence and outcome, and the time to live
// is the longer of the two.
func (m *Memory) Settle(ctx context.Context, c Claim, outcome string, ttl time.Duration) error {
	if err := begin(ctx, c.checkSettle(outcome, ttl)); err != nil {
		return fmt.Errorf("settle: %w", err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.tick()
	e := m.find(c.Key, now)
	if e == nil {
		e = m.add(c, now+ttl)
	}
	word := unique.Make(outcome)
	if !e.done() || c.Fence > e.fence || c.Fence == e.fence && word != e.outcome {
		e.fence, e.owner, e.outcome, e.settled = c.Fence, unique.Make(c.Owner), word, now
	}
	m.prolong(e, now+ttl)
	return nil
}

// begin returns the caller's fault, or else that of a context that has ended.
func begin(ctx context.Context, fault error) error {
	if fault != nil {
		return fault
	}
	return ctx.Err()
}

// tick returns the time, and drops some of what has ended by it.
func (m *Memory) tick() time.Duration {
	now := time.Since(m.start)
	for range dropsPerCall {
		if len(m.ends) == 0 || m.ends[0].ends > now {
			break
		}
		delete(m.entries, heap.Pop(&m.ends).(*entry).key)
	}
	if len(m.ends) == 0 && cap(m.ends) >= worthFreeing {
		// Map and heap keep the room of their largest moment.
		m.entries, m.ends = make(map[digest]*entry), nil
	}
	return now
}

// find returns what is alive under the key, or nil.
func (m *Memory) find(key string, now time.Duration) *entry {
	e := m.entries[digestOf(key)]
	if e == nil || e.ends > now {
		return e
	}
	heap.Remove(&m.ends, e.at)
	delete(m.entries, e.key)
	return nil
}

func (m *Memory) add(c Claim, ends time.Duration) *entry {
	e := &entry{key: digestOf(c.Key), fence: c.Fence, owner: unique.Make(c.Owner), ends: ends}
	m.entries[e.key] = e
	heap.Push(&m.ends, e)
	return e
}

func (m *Memory) prolong(e *entry, ends time.Duration) {
	if ends > e.ends {
		e.ends = ends
		heap.Fix(&m.ends, e.at)
	}
}

func digestOf(key string) digest {
	sum := sha256.Sum256([]byte(key))
	return digest(sum[:len(digest{})])
}

// answer tells of the entry.
func (e *entry) answer(status Status, now time.Duration) Answer {
	a := Answer{Status: status, By: e.owner.Value(), Fence: e.fence, Left: e.ends - now}
	if e.done() {
		a.Outcome, a.Age = e.outcome.Value(), now-e.settled
	}
	return a
}

// done reports whether the entry is a tombstone.
func (e *entry) done() bool { return e.outcome != unique.Handle[string]{} }

// heldBy reports whether the entry is the claim that c took.
func (e *entry) heldBy(c Claim) bool {
	return e != nil && !e.done() && e.fence == c.Fence && e.owner.Value() == c.Owner
}

// meets decides an Acquire of c that finds the entry, or nothing.
func (e *entry) meets(c Claim) Status {
	switch {
	case e == nil || e.heldBy(c):
		return StatusGranted
	case e.done():
		return StatusDone
	case e.fence > c.Fence:
		return StatusStale
	case e.fence < c.Fence:
		return StatusHeld
	default:
		return StatusConflict
	}
}

// byEnd is a heap of the entries, the first to end on top.
type byEnd []*entry

func (h byEnd) Len() int           { return len(h) }
func (h byEnd) Less(i, j int) bool { return h[i].ends < h[j].ends }
func (h byEnd) Swap(i, j int)      { h[i], h[j] = h[j], h[i]; h[i].at, h[j].at = i, j }

// Push adds an entry at the end: for container/heap.
func (h *byEnd) Push(x any) {
	e := x.(*entry)
	e.at = len(*h)
	*h = append(*h, e)
}

// Pop takes the last entry away: for container/heap.
func (h *byEnd) Pop() any {
	last := len(*h) - 1
	e := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return e
}
