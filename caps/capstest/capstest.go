// Package capstest is what every store of caps must pass: in process, or behind
// a network.
package capstest

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/seed-4b260dfd/notifier/caps"
)

// Caps is a store of caps.
type Caps interface {
	Spend(ctx context.Context, unit, holder string, caps []caps.Cap) (caps.Decision, error)
	Refund(ctx context.Context, unit, holder string, caps []caps.Cap) error
	Fill(ctx context.Context, c caps.Cap, unit, holder string, at time.Time) error
	FillAll(ctx context.Context, records []caps.Spent) error
}

// Subject is a store under test, in which nothing has been spent.
type Subject struct {
	Caps
	// Pass lets time go by on the store's clock.
	Pass func(time.Duration)
	// Slack is by how much the store's clock may go on during a test besides
	// what Pass lets by: zero for one that stands still. It is half the unit of
	// time at most.
	Slack time.Duration
}

// Frame sets a Subject up, runs the test over it, and takes it down.
type Frame func(t *testing.T, test func(t *testing.T, s Subject))

// The unit of time of the suite: long enough to be told apart on a real
// server, short enough to be waited for.
const second = 3 * time.Second

// Run holds a store to every rule, each over a fresh Subject.
func Run(t *testing.T, frame Frame) {
	for _, rule := range rules {
		t.Run(rule.name, func(t *testing.T) {
			t.Parallel()
			frame(t, func(t *testing.T, s Subject) { rule.test(&script{T: t, Subject: s}) })
		})
	}
}

var rules = [...]struct {
	name string
	test func(*script)
}{
	{"Spend_UpToTheLimit", spendUpToTheLimit},
	{"Spend_Slides", spendSlides},
	{"Spend_AllOrNone", spendAllOrNone},
	{"Spend_LongestWaitOfTheFull", spendLongestWaitOfTheFull},
	{"Spend_RepeatTakesNoRoom", spendRepeatTakesNoRoom},
	{"Spend_RepeatMovesToNow", spendRepeatMovesToNow},
	{"Spend_HoldersShareAUnit", spendHoldersShareAUnit},
	{"Spend_UnitThatLeftIsNew", spendUnitThatLeftIsNew},
	{"Spend_ScopesAreApart", spendScopesAreApart},
	{"Spend_LoweredLimit", spendLoweredLimit},
	{"Spend_TwoWindowsOfOneScope", spendTwoWindowsOfOneScope},
	{"Spend_TwoWindowsInOneCall", spendTwoWindowsInOneCall},
	{"Spend_NoCaps", spendNoCaps},
	{"Spend_NeverBeyondTheLimitAtOnce", spendNeverBeyondTheLimitAtOnce},
	{"Refund_FreesTheUnit", refundFreesTheUnit},
	{"Refund_LastHolderFrees", refundLastHolderFrees},
	{"Refund_UndoesASpend", refundUndoesASpend},
	{"Refund_Strangers", refundStrangers},
	{"Refund_OnlyItsCaps", refundOnlyItsCaps},
	{"Fill_CountsFromItsTime", fillCountsFromItsTime},
	{"Fill_BeyondTheLimit", fillBeyondTheLimit},
	{"Fill_AnyOrder", fillAnyOrder},
	{"Fill_Idempotent", fillIdempotent},
	{"Fill_TooOldOrToCome", fillTooOldOrToCome},
	{"Fill_NeverMovesBack", fillNeverMovesBack},
	{"Fill_NeverMovesAShareBack", fillNeverMovesAShareBack},
	{"Fill_Many", fillMany},
	{"Fill_ManyWithAFault", fillManyWithAFault},
	{"Random_AgreesWithTheModel", randomAgreesWithTheModel},
	{"Faults", faults},
	{"EndedContext", endedContext},
}

// script is a test in the words of the rules.
type script struct {
	*testing.T
	Subject
}

// limit returns the cap of the suite's usual scope.
func limit(n int, window time.Duration) caps.Cap {
	return caps.Cap{Name: "usual", Key: "recipient", Slot: "slot", Limit: n, Window: window}
}

// as returns the cap under another name, which is another scope too.
func as(name string, c caps.Cap) caps.Cap {
	c.Name, c.Key = name, c.Key+"/"+name
	return c
}

func (s *script) spend(unit, holder string, on ...caps.Cap) caps.Decision {
	s.Helper()
	d, err := s.Caps.Spend(s.Context(), unit, holder, on)
	if err != nil {
		s.Fatalf("spend %s by %s: %v", unit, holder, err)
	}
	return d
}

func (s *script) granted(unit, holder string, on ...caps.Cap) {
	s.Helper()
	if d := s.spend(unit, holder, on...); d != (caps.Decision{Granted: true}) {
		s.Fatalf("spend %s by %s: got %+v, want it granted", unit, holder, d)
	}
}

// denied spends a unit of its own and wants it denied.
func (s *script) denied(by string, after time.Duration, on ...caps.Cap) {
	s.Helper()
	d := s.spend("denied", "h", on...)
	if d.Granted || d.Denied != by || d.After > after || d.After < after-s.Slack {
		s.Fatalf("got %+v, want it denied by %q for %v (less at most %v)", d, by, after, s.Slack)
	}
}

func (s *script) refund(unit, holder string, on ...caps.Cap) {
	s.Helper()
	if err := s.Caps.Refund(s.Context(), unit, holder, on); err != nil {
		s.Fatalf("refund %s by %s: %v", unit, holder, err)
	}
}

// fill fills a unit that was spent some time ago.
func (s *script) fill(c caps.Cap, unit, holder string, ago time.Duration) {
	s.Helper()
	if err := s.Caps.Fill(s.Context(), c, unit, holder, time.Now().Add(-ago)); err != nil {
		s.Fatalf("fill %s by %s: %v", unit, holder, err)
	}
}

// room wants that exactly n more units can be spent, and spends them.
func (s *script) room(n int, on caps.Cap) {
	s.Helper()
	for i := range n {
		s.granted("room"+strconv.Itoa(i), "h", on)
	}
	if d := s.spend("room"+strconv.Itoa(n), "h", on); d.Granted {
		s.Fatalf("there is room for more than %d", n)
	}
}
