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
type model map[share]time.Duration

type share struct{ scope, unit, holder string }

// times returns when each unit of a scope was spent last.
func (m model) times(scope string) map[string]time.Duration {
	units := map[string]time.Duration{}
	for s, at := range m {
		if last, ok := units[s.unit]; s.scope == scope && (!ok || at > last) {
			units[s.unit] = at
		}
	}
	return units
}

// admits says whether a unit may be spent now.
func (m model) admits(unit string, now time.Duration, on []caps.Cap) bool {
	for _, c := range on {
		n := 0
		for u, at := range m.times(c.Key) {
			if u != unit && at+c.Window > now {
				n++
			}
		}
		at, ok := m.times(c.Key)[unit]
		if n >= c.Limit && (!ok || at+c.Window <= now) {
			return false
		}
	}
	return true
}

// Random spends, repeats, refunds and pauses give exactly what the model says,
// so that no window ever holds more than its limit and no unit is held back
// without need. The pauses are whole steps of a few seconds, to hit boundaries.
func randomAgreesWithTheModel(s *script) {
	steps, pauses := 3000, 3000
	if s.Slack > 0 {
		// A real clock: boundaries cannot be hit, and every pause is waited for.
		steps, pauses = 400, 6
	}
	random := rand.New(rand.NewPCG(1, 2))
	m := model{}
	var now time.Duration
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
				now += second + s.Slack
			}
		default:
			want := m.admits(unit, now, on)
			if d := s.spend(unit, holder, on...); d.Granted != want {
				s.Fatalf("step %d: unit %s by %s on %v: got %+v, want granted %v; spent: %v", step, unit, holder, on, d, want, m)
			}
			for _, c := range on {
				if want {
					m[share{c.Key, unit, holder}] = now
				}
			}
		}
	}
}
