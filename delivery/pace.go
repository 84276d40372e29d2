package delivery

import (
	"context"
	"math"
	"time"

	"github.com/seed-4b260dfd/notifier"
	"github.com/seed-4b260dfd/notifier/rates"
)

// Rates spreads the calls of an account over time, for all processes together.
type Rates interface {
	Take(ctx context.Context, p rates.Pace, n int) (rates.Slots, error)
}

const (
	// paceLate is how long after its time a slot may be used: what leases wait to
	// be made in batches, and what a scheduler may be late. The slots are as much
	// further apart, so that no second holds more calls than it may all the same.
	paceLate = 50 * time.Millisecond
	// paceAtOnce bounds how much a process takes ahead at a time.
	paceAtOnce = 100 * time.Millisecond
	// paceTimeout bounds the question, and paceRefused is how long to wait after one
	// that failed.
	paceTimeout = 250 * time.Millisecond
	paceRefused = 200 * time.Millisecond
	// paceTurn is how many slots a lane has for each that a lane below it has, when
	// both have something due.
	paceTurn = 8
)

// pace is what this process has of an account's rate: slots that it was given
// and has not used. A quarter of the rate is high's alone, as of the slots for
// calls; the rest everybody's. It is guarded by account.mu.
type pace struct {
	own, shared sequence
	// owed is how much of the others' slots each lane has coming to it.
	owed map[notifier.Priority]float64
}

// sequence is a run of slots: n of them from at on.
type sequence struct {
	rates.Pace
	at    time.Time
	every time.Duration
	n     int
	// size is how many to ask for next, and askAt when that is worth it.
	size  int
	askAt time.Time
}

// newPace returns nil for an account without a limit. Fewer than four a second
// are not divided.
func newPace(account string, perSecond float64) *pace {
	if perSecond == 0 {
		return nil
	}
	p := &pace{owed: map[notifier.Priority]float64{}}
	own := math.Floor(perSecond / 4)
	p.shared = newSequence(account, perSecond-own)
	if own > 0 {
		p.own = newSequence(account+"/high", own)
	}
	return p
}

func newSequence(key string, perSecond float64) sequence {
	every := time.Duration(float64(time.Second+paceLate) / perSecond)
	return sequence{Pace: rates.Pace{Key: key, Every: every}, every: every, size: 1}
}

// ready is how many slots may be used now. Those whose time is past are gone.
func (s *sequence) ready(now time.Time) int {
	if over := now.Add(-paceLate).Sub(s.at); s.n > 0 && over > 0 {
		gone := min(s.n, int((over-1)/s.every)+1)
		s.at, s.n = s.at.Add(time.Duration(gone)*s.every), s.n-gone
		s.size = max(1, s.size/2)
	}
	if s.n == 0 || s.at.After(now) {
		return 0
	}
	return min(s.n, int(now.Sub(s.at)/s.every)+1)
}

// move uses n slots, or with a negative n gives back as many.
func (s *sequence) move(n int) {
	s.at, s.n = s.at.Add(time.Duration(n)*s.every), s.n-n
	if s.n == 0 {
		s.size = min(2*s.size, int(paceAtOnce/s.Every)+1)
	}
}

// wait is how long until enough slots are ready to be worth a lease.
func (s *sequence) wait(now time.Time) time.Duration {
	if s.n == 0 {
		return s.askAt.Sub(now)
	}
	return s.at.Add(min(paceLate/2, time.Duration(s.n-1)*s.every)).Sub(now)
}

// ready is how many slots a lane may use now.
func (p *pace) ready(lane notifier.Priority, now time.Time) int {
	n := p.shared.ready(now)
	if lane == notifier.PriorityHigh && p.own.Key != "" {
		n += p.own.ready(now)
	}
	return n
}

// use takes slots that are ready: high its own ones first.
func (p *pace) use(lane notifier.Priority, n int, now time.Time) {
	if lane == notifier.PriorityHigh && p.own.Key != "" {
		mine := min(n, p.own.ready(now))
		p.own.move(mine)
		n -= mine
	}
	p.shared.move(n)
}

// wants is what should be asked for so that a lane can go on; nil: there are
// slots, if only later, or it is not worth asking yet.
func (p *pace) wants(lane notifier.Priority, now time.Time) *sequence {
	if s := &p.own; lane == notifier.PriorityHigh && s.Key != "" && s.n == 0 && !now.Before(s.askAt) {
		return s
	}
	if s := &p.shared; s.n == 0 && !now.Before(s.askAt) {
		return s
	}
	return nil
}

// wait is how long a lane that has no slot ready sleeps.
func (p *pace) wait(lane notifier.Priority, now time.Time) time.Duration {
	d := p.shared.wait(now)
	if lane == notifier.PriorityHigh && p.own.Key != "" {
		d = min(d, p.own.wait(now))
	}
	return max(d, time.Millisecond)
}

// turns notes that a lane had n slots while those below it waited.
func (p *pace) turns(lane notifier.Priority, n int, waits func(notifier.Priority) bool) {
	p.owed[lane] = max(0, p.owed[lane]-float64(n))
	below := false
	for _, other := range notifier.Priorities {
		switch {
		case other == lane:
			below = true
		case !waits(other):
			p.owed[other] = 0
		case below:
			p.owed[other] = min(paceTurn, p.owed[other]+float64(n)/paceTurn)
		}
	}
}

// first is the lane that goes before all others, because they have had their
// turns before it; none: they go in their order.
func (p *pace) first(waits func(notifier.Priority) bool) notifier.Priority {
	for i := len(notifier.Priorities) - 1; i > 0; i-- {
		if lane := notifier.Priorities[i]; p.owed[lane] >= 1 && waits(lane) {
			return lane
		}
	}
	return ""
}

// most is how many slots a lane may use at a time: that it goes first for once
// does not make it the first.
func (p *pace) most(lane notifier.Priority) int {
	if owed := p.owed[lane]; owed >= 1 {
		return int(owed)
	}
	return math.MaxInt
}

// refill asks for slots.
func (e *Engine) refill(ctx context.Context, a *account, s *sequence) {
	a.mu.Lock()
	p, n := s.Pace, s.size
	a.mu.Unlock()
	asking, cancel := context.WithTimeout(ctx, paceTimeout)
	defer cancel()
	got, err := e.cfg.Rates.Take(asking, p, n)
	now := time.Now()
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case err != nil:
		if ctx.Err() == nil {
			e.log.Error("take slots of a rate", "channel", string(a.kind), "account", a.name, "err", err)
		}
		s.askAt = now.Add(paceRefused)
	case got.N == 0:
		s.askAt = now.Add(got.First)
	default:
		s.at, s.n, s.every = now.Add(got.First), got.N, got.Every
		s.askAt = time.Time{}
	}
}
