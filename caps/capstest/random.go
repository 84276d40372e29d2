package capstest

import (
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/seed-4b260dfd/notifier/caps"
)

// model is the rule written down naively: every share that was granted and not
// refunded, by scope, unit and holder. It forgets nothing and is asked by
// going through all of it.
type model map[share]moment

type share struct{ scope, unit, holder string }

// moment is when something happened: at some time from first to last, since a
// real clock goes on while it does.
type moment struct{ first, last time.Duration }

// times returns when each unit of a scope was spent last.
func (m model) times(scope string) map[string]moment {
	units := map[string]moment{}
	for s, at := range m {
		if s.scope == scope {
			known := units[s.unit]
			units[s.unit] = moment{max(known.first, at.first), max(known.last, at.last)}
		}
	}
	return units
}

// admits says whether a unit may be spent now: yes, no, or either, when one of
// the others leaves its window about now.
func (m model) admits(unit string, now moment, on []caps.Cap) (yes, no bool) {
	yes = true
	for _, c := range on {
		surely, perhaps := 0, 0
		for u, at := range m.times(c.Key) {
			if u == unit {
				continue
			}
			if at.first+c.Window > now.last {
				surely++
			}
			if at.last+c.Window > now.first {
				perhaps++
			}
		}
		at, ok := m.times(c.Key)[unit]
		yes = yes && (perhaps < c.Limit || ok && at.first+c.Window > now.last)
		no = no || surely >= c.Limit && (!ok || at.last+c.Window <= now.first)
	}
	return yes, no
}

// Random spends, repeats, refunds and pauses give exactly what the model says,
// so that no window ever holds more than its limit and no unit is held back
// without need. The pauses are whole steps of a few seconds, to hit boundaries.
func randomAgreesWithTheModel(s *script) {
	steps, pauses := 3000, 3000
	clock := func() time.Duration { return 0 }
	if s.Slack > 0 {
		// A real clock: boundaries cannot be hit, and every pause is waited for.
		steps, pauses = 400, 6
		began := time.Now()
		clock = func() time.Duration { return time.Since(began) }
	}
	random := rand.New(rand.NewPCG(1, 2))
	m := model{}
	var passed time.Duration // on a clock that stands still
	all := []caps.Cap{
		{Name: "a", Key: "a", Slot: "slot", Limit: 2, Window: 3 * second},
		{Name: "b", Key: "b", Slot: "slot", Limit: 3, Window: 5 * second},
		{Name: "c", Key: "c", Slot: "slot", Limit: 5, Window: 8 * second},
	}
	for step := range steps {
		on := all[random.IntN(len(all)):][:1]
		if random.IntN(2) == 0 {
			on = all
		}
		unit, holder := strconv.Itoa(random.IntN(9)), strconv.Itoa(random.IntN(2))
		switch random.IntN(8) {
		case 0, 1:
			s.refund(unit, holder, on...)
			for _, c := range on {
				delete(m, share{c.Key, unit, holder})
			}
		case 2:
			if pauses > 0 {
				pauses--
				s.Pass(second + s.Slack)
				if s.Slack == 0 {
					passed += second
				}
			}
		default:
			before := passed + clock()
			d := s.spend(unit, holder, on...)
			now := moment{before, passed + clock()}
			if yes, no := m.admits(unit, now, on); d.Granted && no || !d.Granted && yes {
				s.Fatalf("step %d: unit %s by %s on %v: got %+v, want granted %v; spent: %v", step, unit, holder, on, d, yes, m)
			}
			for _, c := range on {
				if d.Granted {
					m[share{c.Key, unit, holder}] = now
				}
			}
		}
	}
}
