package rates

import (
	"context"
	"sync"
	"time"
)

// Memory keeps paces in the process, for the only one that there is.
type Memory struct {
	// start is what times are counted from, on the monotonic clock.
	start time.Time

	mu    sync.Mutex
	paces map[string]*schedule
}

// NewMemory returns a store of which nothing has been taken. It keeps a few bytes
// for each key that it is ever asked for.
func NewMemory() *Memory { return &Memory{start: time.Now(), paces: map[string]*schedule{}} }

// Take hands out up to n slots, or none and the time to ask again.
func (m *Memory) Take(ctx context.Context, p Pace, n int) (Slots, error) {
	if err := begin(ctx, p, n); err != nil {
		return Slots{}, err
	}
	return m.take(p.Key, micros(p.Every), n), nil
}

func (m *Memory) take(key string, every int64, n int) Slots {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.paces[key]
	if s == nil {
		s = new(schedule)
		m.paces[key] = s
	}
	granted, from := s.take(time.Since(m.start).Microseconds(), every, n)
	return slots(granted, from, every)
}
