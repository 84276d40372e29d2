package caps

import (
	"container/heap"
	"context"
	"crypto/sha256"
	"fmt"
	"sync"
	"time"
)

// Memory keeps caps in the process. It is for the one process that owns its
// ledger, and is filled from that ledger at start.
//
// Its memory is bounded by the units that still count: each call drops some of
// the scopes whose last unit has left its window, the oldest first.
type Memory struct {
	// start is what all times are counted from, on the monotonic clock, so
	// that a step of the wall clock frees no unit.
	start time.Time

	mu     sync.Mutex
	scopes map[name]*scope
	ends   byEnd
}

// scope is a window, where it is kept.
type scope struct {
	window
	key name
	// due is when to look whether it is empty: never later than window.ends.
	due time.Duration
	at  int // where byEnd has it
}

// dropsPerCall bounds what one call spends on the scopes of others.
const dropsPerCall = 32

// worthFreeing is how many scopes it takes for an idle store to let go of the
// room that they had.
const worthFreeing = 1024

// NewMemory returns a store in which nothing has been spent.
func NewMemory() *Memory {
	return &Memory{start: time.Now(), scopes: make(map[name]*scope)}
}

// Spend spends one unit on all of the caps, or on none when one of them is
// full. A unit that counts already takes no further room: the holder joins it,
// or is known, and its time moves to now. An error says that nothing was spent.
func (m *Memory) Spend(ctx context.Context, unit, holder string, caps []Cap) (Decision, error) {
	if err := begin(ctx, check(unit, holder, caps)); err != nil {
		return Decision{}, fmt.Errorf("spend: %w", err)
	}
	u, h := nameOf(unit), nameOf(holder)
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.tick()
	d := Decision{Granted: true}
	for _, c := range caps {
		s := m.scopes[nameOf(c.Key)]
		if s == nil {
			continue
		}
		after := s.room(u, now, c.Limit, c.Window)
		if after > 0 && d.Granted {
			d = Decision{Denied: c.Name}
		}
		d.After = max(d.After, after)
	}
	if d.Granted {
		for _, c := range caps {
			m.spend(c, u, h, now, now)
		}
	}
	return d, nil
}

// Refund takes the holder's share in the unit away from all of the caps, for
// an attempt that provably reached nobody. The unit is free again when no other
// holder is left.
func (m *Memory) Refund(ctx context.Context, unit, holder string, caps []Cap) error {
	if err := begin(ctx, check(unit, holder, caps)); err != nil {
		return fmt.Errorf("refund: %w", err)
	}
	u, h := nameOf(unit), nameOf(holder)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.tick()
	for _, c := range caps {
		if s := m.scopes[nameOf(c.Key)]; s != nil {
			s.refund(u, h)
			m.settle(s)
		}
	}
	return nil
}

// Fill puts back what a record says was spent at a time, whether or not there
// is room: it did happen. A time to come counts as now; one that has left the
// window changes nothing, and neither does one before the same holder's own.
func (m *Memory) Fill(ctx context.Context, c Cap, unit, holder string, at time.Time) error {
	if err := begin(ctx, check(unit, holder, []Cap{c})); err != nil {
		return fmt.Errorf("fill: %w", err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.tick()
	then := now - max(0, time.Since(at))
	if within(then, now, c.Window) {
		m.spend(c, nameOf(unit), nameOf(holder), then, now)
	}
	return nil
}

// begin returns the caller's fault, or else that of a context that has ended.
func begin(ctx context.Context, fault error) error {
	if fault != nil {
		return fault
	}
	return ctx.Err()
}

// tick returns the time, and drops some of the scopes that are empty by it.
func (m *Memory) tick() time.Duration {
	now := time.Since(m.start)
	for range dropsPerCall {
		if len(m.ends) == 0 || m.ends[0].due > now {
			break
		}
		m.ends[0].prune(now)
		m.settle(m.ends[0])
	}
	if len(m.ends) == 0 && cap(m.ends) >= worthFreeing {
		// Map and heap keep the room of their largest moment.
		m.scopes, m.ends = make(map[name]*scope), nil
	}
	return now
}

func (m *Memory) spend(c Cap, u, h name, at, now time.Duration) {
	key := nameOf(c.Key)
	s := m.scopes[key]
	if s == nil {
		s = &scope{key: key}
		m.scopes[key] = s
		heap.Push(&m.ends, s)
	}
	s.prune(now)
	s.spend(u, h, at, c.Window)
	m.settle(s)
}

// settle puts a scope that has changed in its place, or away when it is empty.
func (m *Memory) settle(s *scope) {
	if len(s.units) == 0 {
		heap.Remove(&m.ends, s.at)
		delete(m.scopes, s.key)
		return
	}
	s.due = s.window.ends()
	heap.Fix(&m.ends, s.at)
}

func nameOf(s string) name {
	sum := sha256.Sum256([]byte(s))
	return name(sum[:len(name{})])
}

// byEnd is a heap of the scopes, the first to be empty on top.
type byEnd []*scope

func (h byEnd) Len() int           { return len(h) }
func (h byEnd) Less(i, j int) bool { return h[i].due < h[j].due }
func (h byEnd) Swap(i, j int)      { h[i], h[j] = h[j], h[i]; h[i].at, h[j].at = i, j }

// Push adds a scope at the end: for container/heap.
func (h *byEnd) Push(x any) {
	s := x.(*scope)
	s.at = len(*h)
	*h = append(*h, s)
}

// Pop takes the last scope away: for container/heap.
func (h *byEnd) Pop() any {
	last := len(*h) - 1
	s := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return s
}
