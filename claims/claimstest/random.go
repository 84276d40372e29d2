package claimstest

import (
	"math/rand/v2"
	"strconv"

	"github.com/seed-4b260dfd/notifier/claims"
)

// model is the table of README, written down for claims that do not end.
type model map[string]held

type held struct {
	fence          int64
	owner, outcome string
}

func (m model) acquire(c claims.Claim) claims.Status {
	h, there := m[c.Key]
	switch {
	case !there:
		m[c.Key] = held{fence: c.Fence, owner: c.Owner}
		return claims.StatusGranted
	case h.outcome != "":
		return claims.StatusDone
	case h.fence > c.Fence:
		return claims.StatusStale
	case h.fence < c.Fence:
		return claims.StatusHeld
	case h.owner != c.Owner:
		return claims.StatusConflict
	}
	return claims.StatusGranted
}

func (m model) holds(c claims.Claim) bool {
	return m[c.Key] == held{fence: c.Fence, owner: c.Owner}
}

func (m model) settle(c claims.Claim, outcome string) {
	if h := m[c.Key]; h.outcome == "" || c.Fence > h.fence || c.Fence == h.fence && outcome != h.outcome {
		m[c.Key] = held{fence: c.Fence, owner: c.Owner, outcome: outcome}
	}
}

// Random calls give what the model says; and each is made once or twice, as
// after a lost answer, and the copy gives the same and changes nothing.
func randomAgreesWithTheModel(s *script) {
	const steps = 3000
	random := rand.New(rand.NewPCG(3, 4))
	// Some fences are those of a clock in nanoseconds, which only integers tell
	// apart; some owners and outcomes look like parts of a record.
	fences := []int64{1, 2, 9, 10, 11, 1<<53 - 1, 1 << 53, 1<<53 + 1, 1<<63 - 2, 1<<63 - 1}
	owners := []string{"a", "b", "a b", "4:sent", " ", "\x00\n|", "ö"}
	outcomes := []string{"sent", "unknown", "3:x", "\n 1"}
	m := model{}
	for step := range steps {
		c := claims.Claim{
			Key:   "k" + strconv.Itoa(random.IntN(3)) + "/" + strconv.Itoa(step/40),
			Fence: fences[random.IntN(len(fences))], Owner: owners[random.IntN(len(owners))],
		}
		if h := m[c.Key]; h.fence > 0 && random.IntN(3) == 0 {
			c.Fence, c.Owner = h.fence, h.owner // the holder comes back
		}
		outcome := outcomes[random.IntN(len(outcomes))]
		verb := random.IntN(10)
		for range 1 + random.IntN(2) {
			s.randomStep(m, verb, c, outcome)
		}
		if s.Failed() {
			s.Fatalf("step %d", step)
		}
	}
}

func (s *script) randomStep(m model, verb int, c claims.Claim, outcome string) {
	const ttl = 1000 * second
	switch verb {
	default:
		want := m.acquire(c)
		h := m[c.Key]
		a := s.acquire(c, ttl)
		if a.Status != want || a.Fence != h.fence || a.By != h.owner || a.Outcome != h.outcome {
			s.Errorf("acquire %+v: got %+v, want %v by %+v", c, a, want, h)
		}
	case 0, 1:
		s.renew(c, ttl, m.holds(c))
	case 2, 3:
		s.release(c)
		if m.holds(c) {
			delete(m, c.Key)
		}
	case 4:
		s.settle(c, outcome, ttl)
		m.settle(c, outcome)
	}
}
