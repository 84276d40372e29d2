package caps

import (
	crand "crypto/rand"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/seed-4b260dfd/notifier/redisscript"
	"github.com/seed-4b260dfd/notifier/servertest"
)

// event is what one call came to, and when by the server's clock.
type event struct {
	at           int64 // microseconds
	refund       bool
	unit, holder string
	on           []Cap
	got          Decision
}

// history is the rule written down naively: all shares that were granted and
// not refunded, by the scope's key, the unit and the holder.
type history map[string]map[string]map[string]int64

// counted returns the times of the units that count, the oldest first, and
// whether one of them is the unit.
func (h history) counted(c Cap, unit string, now int64) (times []int64, known bool) {
	for u, shares := range h[c.Key] {
		latest := int64(0)
		for _, at := range shares {
			latest = max(latest, at)
		}
		if latest > now-c.Window.Microseconds() {
			times = append(times, latest)
			known = known || u == unit
		}
	}
	slices.Sort(times)
	return times, known
}

// decide says what a spend must come to.
func (h history) decide(e event) Decision {
	d := Decision{Granted: true}
	for _, c := range e.on {
		times, known := h.counted(c, e.unit, e.at)
		if known || len(times) < c.Limit {
			continue
		}
		if d.Granted {
			d = Decision{Denied: c.Name}
		}
		left := times[len(times)-c.Limit] + c.Window.Microseconds() - e.at
		d.After = max(d.After, time.Duration(left)*time.Microsecond)
	}
	return d
}

func (h history) apply(e event) {
	for _, c := range e.on {
		if h[c.Key] == nil {
			h[c.Key] = map[string]map[string]int64{}
		}
		if e.refund {
			delete(h[c.Key][e.unit], e.holder)
			continue
		}
		if h[c.Key][e.unit] == nil {
			h[c.Key][e.unit] = map[string]int64{}
		}
		h[c.Key][e.unit][e.holder] = e.at
	}
}

// testRedisAgreesWithTheModel has many callers spend and refund at once, over
// connections of their own, and then goes through what they were told in the
// order of the server's clock: every answer is the naive rule's to the
// microsecond, and no window ever holds more units than its limit.
func testRedisAgreesWithTheModel(t *testing.T, url string) {
	const callers, calls = 16, 250
	prefix := crand.Text()
	var mu sync.Mutex
	bySlot := map[string][]event{}
	var all sync.WaitGroup
	for i := range callers {
		client, err := redisscript.Open(url)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = client.Close() })
		r := NewRedis(redisscript.NewRunner(client), prefix)
		all.Go(func() {
			random := rand.New(rand.NewPCG(7, uint64(i)))
			for range calls {
				slot, e := randomCall(random, strconv.Itoa(i))
				var err error
				if e.refund {
					e.at, err = r.refund(t.Context(), e.unit, e.holder, e.on)
				} else {
					e.got, e.at, err = r.spend(t.Context(), e.unit, e.holder, e.on)
				}
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				bySlot[slot] = append(bySlot[slot], e)
				mu.Unlock()
			}
		})
	}
	all.Wait()
	denied, granted := 0, 0
	for slot, events := range bySlot {
		slices.SortFunc(events, func(a, b event) int { return int(a.at - b.at) })
		h := history{}
		for i, e := range events {
			if i > 0 && events[i-1].at == e.at {
				t.Fatalf("%s: two calls at %d: the order is not known", slot, e.at)
			}
			if want := h.decide(e); !e.refund && e.got != want {
				t.Fatalf("%s: call %d of %d: got %+v, want %+v for %+v", slot, i, len(events), e.got, want, e)
			}
			switch {
			case e.refund:
				h.apply(e)
			case e.got.Granted:
				granted++
				h.apply(e)
				h.within(t, e)
			default:
				denied++
			}
		}
	}
	if granted < callers*calls/20 || denied < callers*calls/20 {
		t.Errorf("%d granted and %d denied: the limits were hardly met", granted, denied)
	}
}

// within wants no scope of a spend over its limit. Where two caps share a key,
// a spend on one of them alone is not held to the other's limit.
func (h history) within(t *testing.T, e event) {
	t.Helper()
	for _, c := range e.on {
		if c.Name == "c" || c.Name == "d" {
			continue
		}
		if times, _ := h.counted(c, "", e.at); len(times) > c.Limit {
			t.Fatalf("%d units of %q within %v, want at most %d", len(times), c.Name, c.Window, c.Limit)
		}
	}
}

// randomCall makes a call on one of three recipients. Units are shared between
// callers, holders are not.
func randomCall(random *rand.Rand, caller string) (slot string, e event) {
	slot = "recipient " + strconv.Itoa(random.IntN(3))
	all := []Cap{
		{Name: "a", Key: slot + "/a", Slot: slot, Limit: 2, Window: 4 * time.Millisecond},
		{Name: "b", Key: slot + "/b", Slot: slot, Limit: 3, Window: 10 * time.Millisecond},
		{Name: "c", Key: slot + "/c", Slot: slot, Limit: 5, Window: 25 * time.Millisecond},
		{Name: "d", Key: slot + "/c", Slot: slot, Limit: 8, Window: 60 * time.Millisecond},
	}
	e = event{unit: strconv.Itoa(random.IntN(12)), holder: caller + "/" + strconv.Itoa(random.IntN(2)), refund: random.IntN(4) == 0, on: all}
	if random.IntN(2) == 0 {
		e.on = all[random.IntN(len(all)):][:1]
	}
	return slot, e
}

func TestRedis_AgreesWithTheModel(t *testing.T) {
	t.Parallel()
	needsServer(t)
	t.Run("standalone", func(t *testing.T) {
		t.Parallel()
		testRedisAgreesWithTheModel(t, servertest.SharedRedis(t).URL())
	})
	t.Run("cluster", func(t *testing.T) {
		t.Parallel()
		testRedisAgreesWithTheModel(t, servertest.NewRedisCluster(t).URL())
	})
}

func needsServer(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("-short leaves out what needs a server")
	}
}
