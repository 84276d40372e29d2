package capstest

import (
	"context"
	"errors"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed-4b260dfd/notifier/caps"
)

func spendUpToTheLimit(s *script) {
	c := limit(3, 9*second)
	s.room(3, c)
	s.denied("usual", 9*second, c)
}

// Units leave one by one, each exactly a window after it was spent.
func spendSlides(s *script) {
	c := limit(2, 4*second)
	s.granted("u1", "h", c)
	s.Pass(second)
	s.granted("u2", "h", c)
	s.Pass(second)
	s.denied("usual", 2*second, c)
	s.Pass(2*second + s.Slack) // u1 leaves
	s.granted("u3", "h", c)
	s.denied("usual", second-s.Slack, c)
	s.Pass(second + s.Slack) // u2 leaves
	s.room(1, c)
}

func spendAllOrNone(s *script) {
	wide, narrow := as("wide", limit(3, 9*second)), as("narrow", limit(1, 9*second))
	s.granted("u1", "h", narrow)
	s.denied("narrow", 9*second, wide, narrow)
	s.denied("narrow", 9*second, narrow, wide)
	s.room(3, wide) // the denials spent nothing
}

func spendLongestWaitOfTheFull(s *script) {
	short, long := as("short", limit(1, 2*second)), as("long", limit(1, 9*second))
	s.granted("u1", "h", short, long)
	s.denied("short", 9*second, short, long)
	s.denied("long", 9*second, long, short)
	s.denied("short", 2*second, short)
}

func spendRepeatTakesNoRoom(s *script) {
	c := limit(2, 9*second)
	for range 3 {
		s.granted("u1", "h", c)
	}
	s.granted("u2", "h", c)
	s.granted("u1", "h", c) // also where there is none left
	s.denied("usual", 9*second, c)
}

func spendRepeatMovesToNow(s *script) {
	c := limit(1, 3*second)
	s.granted("u1", "h", c)
	s.Pass(2 * second)
	s.granted("u1", "h", c)
	s.Pass(2 * second) // past the first end
	s.denied("usual", second, c)
	s.Pass(second + s.Slack)
	s.room(1, c)
}

// Three phones that ring together are one unit, and count from the last ring.
func spendHoldersShareAUnit(s *script) {
	c := limit(2, 3*second)
	s.granted("u1", "phone 1", c)
	s.Pass(second)
	s.granted("u1", "phone 2", c)
	s.granted("u1", "phone 3", c)
	s.granted("u2", "phone 1", c)
	s.denied("usual", 3*second, c)
	s.Pass(2*second + s.Slack) // phone 1's share has left; the unit has not
	s.denied("usual", second-s.Slack, c)
}

func spendUnitThatLeftIsNew(s *script) {
	c := limit(1, second)
	s.granted("u1", "h", c)
	s.Pass(second + s.Slack)
	s.granted("u2", "h", c)
	if d := s.spend("u1", "h", c); d.Granted {
		s.Fatal("a unit that had left its window was taken for one that counts")
	}
}

func spendScopesAreApart(s *script) {
	for _, name := range []string{"a", "b", "a\x00", "a/b", "{a}", "ä", "a b"} {
		s.room(1, as(name, limit(1, 9*second)))
	}
}

// The wait is until enough units have left, not until the next one has.
func spendLoweredLimit(s *script) {
	for _, unit := range []string{"u1", "u2", "u3"} {
		s.granted(unit, "h", limit(3, 9*second))
		s.Pass(second)
	}
	s.denied("usual", 8*second, limit(1, 9*second))
	s.denied("usual", 7*second, limit(2, 9*second))
	s.denied("usual", 6*second, limit(3, 9*second))
	s.granted("u2", "h", limit(1, 9*second)) // it counts already
}

func spendTwoWindowsOfOneScope(s *script) {
	short, long := limit(1, 2*second), limit(3, 9*second)
	s.granted("u1", "h", short, long)
	s.denied("usual", 2*second, short, long)
	s.Pass(2*second + s.Slack)
	s.granted("u2", "h", short, long)
	s.Pass(2*second + s.Slack)
	s.granted("u3", "h", short, long)
	s.Pass(2*second + s.Slack)
	s.denied("usual", 3*second-3*s.Slack, short, long)
	// u2 counts under the long window only: for the short one it is new, and
	// u3 is in its way once it is spent again.
	s.Pass(second)
	s.granted("u3", "h", short)
	if d := s.spend("u2", "h", short); d.Granted {
		s.Fatal("a unit that had left the shorter window was taken for one that counts in it")
	}
}

// In whichever order, the longer window decides for how long units are kept.
func spendTwoWindowsInOneCall(s *script) {
	short, long := as("a", limit(1, second)), as("a", limit(1, 4*second))
	s.granted("u1", "h", long, short)
	s.Pass(second + s.Slack)
	if d := s.spend("u2", "h", long, short); d.Granted {
		s.Fatal("a unit was forgotten within the longer window")
	}
	s.denied("a", 3*second-s.Slack, long)
	if d := s.spend("u2", "h", short); !d.Granted {
		s.Fatal("a unit that has left the shorter window counts in it")
	}
}

func spendNoCaps(s *script) {
	s.granted("u1", "h")
	s.refund("u1", "h")
}

func spendNeverBeyondTheLimitAtOnce(s *script) {
	const n, most = 64, 5
	c, other := limit(most, 90*second), as("other", limit(n, 90*second))
	var grants atomic.Int32
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			d, err := s.Caps.Spend(s.Context(), strconv.Itoa(i), "h", []caps.Cap{other, c})
			if err != nil {
				s.Errorf("spend: %v", err)
			}
			if d.Granted {
				grants.Add(1)
			}
		})
	}
	all.Wait()
	if grants.Load() != most {
		s.Errorf("%d units were granted, want %d", grants.Load(), most)
	}
	s.room(n-most, other)
}

func refundFreesTheUnit(s *script) {
	c := limit(1, 9*second)
	s.granted("u1", "h", c)
	s.refund("u1", "h", c)
	s.refund("u1", "h", c) // a repeat frees no more than the unit
	s.room(1, c)
}

func refundLastHolderFrees(s *script) {
	c := limit(1, 9*second)
	s.granted("u1", "phone 1", c)
	s.granted("u1", "phone 2", c)
	s.refund("u1", "phone 1", c)
	s.denied("usual", 9*second, c)
	s.refund("u1", "phone 2", c)
	s.room(1, c)
}

// After a refund the unit stands as if its holder had never spent it.
func refundUndoesASpend(s *script) {
	c := limit(1, 4*second)
	s.granted("u1", "phone 1", c)
	s.Pass(second)
	s.granted("u1", "phone 2", c)
	s.denied("usual", 4*second, c)
	s.refund("u1", "phone 2", c)
	s.denied("usual", 3*second, c)
}

func refundStrangers(s *script) {
	c := limit(1, 9*second)
	s.refund("u1", "h", c) // nothing there
	s.granted("u1", "h", c)
	s.refund("u1", "other", c)
	s.refund("u2", "h", c)
	s.refund("u1", "h", as("other", c))
	s.denied("usual", 9*second, c)
}

func refundOnlyItsCaps(s *script) {
	a, b := as("a", limit(1, 9*second)), as("b", limit(1, 9*second))
	s.granted("u1", "h", a, b)
	s.refund("u1", "h", a)
	s.denied("b", 9*second, a, b)
	s.room(1, a)
}

func fillCountsFromItsTime(s *script) {
	c := limit(1, 4*second)
	s.fill(c, "u1", "h", 3*second)
	s.denied("usual", second, c)
	s.Pass(second + s.Slack)
	s.room(1, c)
}

func fillBeyondTheLimit(s *script) {
	c := limit(1, 9*second)
	s.fill(c, "u1", "h", 3*second)
	s.fill(c, "u2", "h", 2*second)
	s.fill(c, "u3", "h", second)
	s.denied("usual", 8*second, c)
}

func fillAnyOrder(s *script) {
	c := limit(3, 9*second)
	s.fill(c, "u2", "h", 2*second)
	s.fill(c, "u1", "h", 3*second)
	s.fill(c, "u3", "h", second)
	s.denied("usual", 6*second, c)
}

func fillIdempotent(s *script) {
	c := limit(2, 9*second)
	at := time.Now().Add(-second)
	for range 3 {
		if err := s.Caps.Fill(s.Context(), c, "u1", "h", at); err != nil {
			s.Fatal(err)
		}
	}
	s.fill(c, "u1", "phone 2", second)
	s.room(1, c)
}

func fillTooOldOrToCome(s *script) {
	c := limit(2, 4*second)
	s.fill(c, "u1", "h", 4*second)
	s.fill(c, "u2", "h", 9*second)
	s.fill(c, "u3", "h", -9*second) // another clock's: counts as now
	s.fill(c, "u4", "h", -9*second)
	s.denied("usual", 4*second, c)
}

func fillNeverMovesBack(s *script) {
	c := limit(1, 4*second)
	s.granted("u1", "h", c)
	s.fill(c, "u1", "h", 3*second)
	s.fill(c, "u1", "phone 2", 3*second)
	s.denied("usual", 4*second, c)
	// What was filled is refunded like anything else.
	s.refund("u1", "h", c)
	s.denied("usual", second, c)
	s.refund("u1", "phone 2", c)
	s.room(1, c)
}

// A record moves a share back as little as a unit.
func fillNeverMovesAShareBack(s *script) {
	c := limit(1, 4*second)
	s.granted("u1", "phone 1", c)
	s.granted("u1", "phone 2", c)
	s.fill(c, "u1", "phone 1", 3*second)
	s.refund("u1", "phone 2", c)
	s.denied("usual", 4*second, c)
}

// Many records at once are each of them alone: over many scopes, and of one
// scope in any order, several holders and copies among them.
func fillMany(s *script) {
	const scopes, units = 30, 10
	now := time.Now()
	var records []caps.Spent
	on := make([]caps.Cap, scopes)
	for i := range on {
		on[i] = as(strconv.Itoa(i), limit(units+1, 40*second))
		on[i].Slot = strconv.Itoa(i)
		for u := range units {
			// The oldest is by the first holder, and is moved by the second.
			ago := time.Duration(units-u) * second
			records = append(records,
				caps.Spent{Cap: on[i], Unit: strconv.Itoa(u), Holder: "phone 1", At: now.Add(-ago)},
				caps.Spent{Cap: on[i], Unit: strconv.Itoa(u), Holder: "phone 2", At: now.Add(-ago + second/2)})
		}
	}
	for _, seed := range []uint64{1, 2} { // twice: nothing changes
		rand.New(rand.NewPCG(seed, seed)).Shuffle(len(records), func(i, j int) { records[i], records[j] = records[j], records[i] })
		if err := s.Caps.FillAll(s.Context(), records); err != nil {
			s.Fatal(err)
		}
	}
	for _, c := range on {
		gone := time.Since(now)
		s.granted("one more", "h", c)
		s.denied(c.Name, 40*second-units*second+second/2-gone, c)
	}
}

func fillManyWithAFault(s *script) {
	good := limit(1, 9*second)
	err := s.Caps.FillAll(s.Context(), []caps.Spent{
		{Cap: good, Unit: "u1", Holder: "h", At: time.Now()},
		{Cap: good, Unit: "u2", At: time.Now()},
	})
	if err == nil {
		s.Error("a record without a holder: got no error")
	}
	if err := s.Caps.FillAll(s.Context(), nil); err != nil {
		s.Errorf("no records: got %v", err)
	}
}

// every calls each method.
func (s *script) every(ctx context.Context, unit, holder string, c caps.Cap) map[string]error {
	_, spend := s.Caps.Spend(ctx, unit, holder, []caps.Cap{limit(1, second), c})
	return map[string]error{
		"spend":    spend,
		"refund":   s.Caps.Refund(ctx, unit, holder, []caps.Cap{c}),
		"fill":     s.Caps.Fill(ctx, c, unit, holder, time.Now()),
		"fill all": s.Caps.FillAll(ctx, []caps.Spent{{Cap: c, Unit: unit, Holder: holder, At: time.Now()}}),
	}
}

func faults(s *script) {
	good := limit(1, 9*second)
	for _, f := range []struct {
		unit, holder string
		c            caps.Cap
	}{
		{"", "h", good},
		{"u", "", good},
		{"u", "h", caps.Cap{Name: "x", Slot: good.Slot, Limit: 1, Window: second}},
		{"u", "h", caps.Cap{Name: "x", Slot: good.Slot, Key: "k", Window: second}},
		{"u", "h", caps.Cap{Name: "x", Slot: good.Slot, Key: "k", Limit: 1}},
	} {
		for method, err := range s.every(s.Context(), f.unit, f.holder, f.c) {
			if err == nil {
				s.Errorf("%s %+v: got no error", method, f)
			}
		}
	}
	other := good
	other.Slot = "another"
	if _, err := s.Caps.Spend(s.Context(), "u", "h", []caps.Cap{good, other}); err == nil {
		s.Error("spend on caps of two slots: got no error")
	}
	if err := s.Caps.Refund(s.Context(), "u", "h", []caps.Cap{good, other}); err == nil {
		s.Error("refund of caps of two slots: got no error")
	}
	s.room(1, good) // none of them left anything
}

func endedContext(s *script) {
	ctx, cancel := context.WithCancel(s.Context())
	cancel()
	c := limit(1, 9*second)
	for method, err := range s.every(ctx, "u", "h", c) {
		if !errors.Is(err, context.Canceled) {
			s.Errorf("%s: got %v, want %v", method, err, context.Canceled)
		}
	}
	s.room(1, c)
}
