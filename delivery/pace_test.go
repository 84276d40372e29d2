package delivery

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-4b260dfd/notifier"
	"github.com/seed-4b260dfd/notifier/rates"
)

// paced is an account whose dispatchers, of one process each, lease and call in
// no time.
type paced struct {
	t     *testing.T
	rates Rates
	nodes []*account
	calls map[notifier.Priority][]time.Time
	all   []time.Time
}

func newPaced(t *testing.T, perSecond float64, nodes int) *paced {
	p := &paced{t: t, rates: rates.NewMemory(), calls: map[notifier.Priority][]time.Time{}}
	for range nodes {
		p.nodes = append(p.nodes, newAccount(notifier.ChannelSMS, "main", Account{MaxInFlight: 10_000, MaxPerSecond: perSecond}))
	}
	return p
}

// drive lets every node call, with a backlog in some lanes, for a time.
func (p *paced) drive(lasts time.Duration, lanes ...notifier.Priority) {
	e := &Engine{cfg: Config{Rates: p.rates}, log: slog.New(slog.DiscardHandler)}
	type wake struct{ at time.Time }
	next := make([]wake, len(p.nodes))
	for start := time.Now(); time.Since(start) < lasts; <-time.After(time.Millisecond) {
		for i, a := range p.nodes {
			for _, lane := range lanes {
				a.due[lane] = start
			}
			for !time.Now().Before(next[i].at) {
				lane, n, sleep := a.next()
				if n == 0 {
					if s := a.lacking(); s != nil {
						e.refill(context.Background(), a, s)
						continue
					}
					next[i].at = time.Now().Add(sleep)
					break
				}
				for range n {
					p.calls[lane] = append(p.calls[lane], time.Now())
					p.all = append(p.all, time.Now())
				}
				a.fill(lane, n, n)
				a.used[lane] -= n
			}
		}
	}
}

// held wants no more than so many calls in any second.
func (p *paced) held(calls []time.Time, most int) {
	p.t.Helper()
	for i := range calls {
		if j := i + most; j < len(calls) && calls[j].Sub(calls[i]) < time.Second {
			p.t.Fatalf("more than %d calls in the second from %v on", most, calls[i].Sub(calls[0]))
		}
	}
}

func TestPace_NeverMoreInAnySecond(t *testing.T) {
	t.Parallel()
	for _, perSecond := range []int{1, 3, 4, 10, 50, 333, 2000} {
		for _, nodes := range []int{1, 3} {
			synctest.Test(t, func(t *testing.T) {
				const lasts = 10 * time.Second
				p := newPaced(t, float64(perSecond), nodes)
				p.drive(lasts, notifier.Priorities[:]...)
				<-time.After(time.Minute)
				p.drive(lasts, notifier.Priorities[:]...)
				p.held(p.all, perSecond)
				if least := perSecond * 20 * 4 / 5; len(p.all) < least {
					t.Errorf("%d a second, %d nodes: got %d calls in 20 s, want %d or more", perSecond, nodes, len(p.all), least)
				}
			})
		}
	}
}

// A quarter is high's, and of the rest the lower lanes have their turns.
func TestPace_Lanes(t *testing.T) {
	t.Parallel()
	const high, normal, bulk = notifier.PriorityHigh, notifier.PriorityNormal, notifier.PriorityBulk
	synctest.Test(t, func(t *testing.T) {
		p := newPaced(t, 100, 1)
		p.drive(10*time.Second, normal, bulk)
		p.held(p.all, 75)
		if n, b := len(p.calls[normal]), len(p.calls[bulk]); b < n/10 || b > n/6 {
			t.Errorf("got %d calls of normal and %d of bulk, want about an eighth", n, b)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		p := newPaced(t, 100, 1)
		p.drive(10*time.Second, high, normal, bulk)
		p.held(p.all, 100)
		n := map[notifier.Priority]int{}
		for _, lane := range notifier.Priorities {
			n[lane] = len(p.calls[lane])
		}
		if n[high] < 6*n[normal] || n[normal] < 50 || n[bulk] < 50 {
			t.Errorf("got %v, want high before all, and the others not without", n)
		}
	})
}

// Slots that were taken for nothing can be used while their time lasts.
func TestPace_GivenBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPace("k", 1000)
		now := time.Now()
		p.shared.at, p.shared.n = now.Add(-20*time.Millisecond), 30
		lane := notifier.PriorityNormal
		ready := p.ready(lane, now)
		if want := int(20*time.Millisecond/p.shared.every) + 1; ready != want {
			t.Fatalf("got %d ready, want %d", ready, want)
		}
		p.use(lane, ready, now)
		if got := p.ready(lane, now); got != 0 {
			t.Errorf("got %d ready after all were used, want none", got)
		}
		p.shared.move(-5)
		if got := p.ready(lane, now); got != 5 {
			t.Errorf("got %d ready after five were given back, want 5", got)
		}
		if got := p.ready(lane, now.Add(paceLate+30*time.Millisecond)); got != 0 {
			t.Errorf("got %d ready when their time is over, want none", got)
		}
	})
}

// away is a store that answers nothing.
type away struct{}

func (away) Take(context.Context, rates.Pace, int) (rates.Slots, error) {
	return rates.Slots{}, errors.New("away")
}

func TestPace_StoreThatFailsStopsIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPaced(t, 100, 1)
		kept := p.rates
		p.rates = away{}
		p.drive(time.Second, notifier.PriorityNormal)
		if len(p.all) != 0 {
			t.Errorf("got %d calls without a slot, want none", len(p.all))
		}
		p.rates = kept
		p.drive(time.Second, notifier.PriorityNormal)
		if len(p.all) < 50 {
			t.Errorf("got %d calls in the second after it came back, want 50 or more", len(p.all))
		}
	})
}
