package delivery_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-4b260dfd/notifier"
	"github.com/seed-4b260dfd/notifier/delivery"
)

// markedLedger is the real ledger, and one that can have gone back in time.
type markedLedger struct {
	*faultyLedger
	changes, trusted atomic.Int64

	mu      sync.Mutex
	given   int
	rewound bool
	// forgetful has it not know the pauses of people.
	forgetful bool
	// used says that it is no new one.
	used  bool
	asked []string
}

func (m *markedLedger) use(c *delivery.Config, _ map[string]string) {
	m.faultyLedger = c.Ledger.(*faultyLedger)
	c.Ledger = m
}

func (m *markedLedger) Mark(_ context.Context, was string) (string, bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.asked = append(m.asked, was)
	if was != "" && m.rewound {
		return "", false, nil
	}
	m.given++
	return fmt.Sprintf("mark %d", m.given), true, nil
}

func (m *markedLedger) Used(context.Context) (bool, error) { return m.used, nil }

func (m *markedLedger) Changes() int64      { return m.changes.Load() }
func (m *markedLedger) Trust(changes int64) { m.trusted.Store(changes) }

// Resume is a person's word that the ledger is to be gone on with.
func (m *markedLedger) Resume(ctx context.Context, id, by, why string) (notifier.Pause, bool, error) {
	p, ended, err := m.faultyLedger.Resume(ctx, id, by, why)
	if err == nil && p.Cause == notifier.PauseRewound {
		m.mu.Lock()
		m.rewound = false
		m.mu.Unlock()
	}
	return p, ended, err
}

func (m *markedLedger) Pauses(ctx context.Context) ([]notifier.Pause, error) {
	list, err := m.faultyLedger.Pauses(ctx)
	if m.forgetful {
		list = slices.DeleteFunc(list, func(p notifier.Pause) bool { return p.Cause != notifier.PauseRewound })
	}
	return list, err
}

func (m *markedLedger) rewind() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.rewound = true
}

// wantRewound wants claim-first paused, by one pause, until it is resumed; and
// not again.
func wantRewound(t *testing.T, w *world, s *sharedStore) {
	t.Helper()
	w.awaitDegraded(s.reg, "paused", "ledger_rewound")
	held := w.accept(request("nudge", "held")).ID
	w.wantSent("alert", "goes on")
	w.putAway(held) // perhaps leased in between, as soon as the other pause had ended
	list, err := w.engine.Pauses(t.Context())
	if err != nil || len(list) != 1 {
		t.Fatalf("got the pauses %+v, %v; want one", list, err)
	}
	want := notifier.Pause{Order: notifier.OrderClaimFirst, Cause: notifier.PauseRewound}
	if diff := cmp.Diff(want, notifier.Pause{Type: list[0].Type, Order: list[0].Order, Cause: list[0].Cause}); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	w.resume(list[0].ID)
	if d := w.settled(held); d.State != notifier.StateSent {
		t.Errorf("got %s %s after it was resumed, want sent", d.State, d.Reason)
	}
	s.set(func() { s.kept = "" }) // seen again once another look is over
	until(t, "the mark moves on", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.kept != ""
	})
	if got := w.degraded(); len(got) != 0 {
		t.Errorf("degraded are %v after it was resumed, want none", got)
	}
}

func TestRewound_AtTheStartBeforeAnyLease(t *testing.T) {
	t.Parallel()
	first := newWorld(t)
	persons := first.pause(notifier.Pause{Channel: notifier.ChannelAPNs}) // its rows stay due
	due := first.accept(request("nudge", "a")).ID
	first.stop()

	s, ledger := newSharedStore(), &markedLedger{rewound: true, forgetful: true}
	s.kept = "of commits that are gone"
	w := openWorld(t, first.path, s.use, ledger.use)
	ledger.mu.Lock()
	if got := ledger.asked[0]; got != s.kept {
		t.Errorf("the ledger was asked for %q first, want what the store kept", got)
	}
	ledger.mu.Unlock()
	w.putAway(due) // leased, and handed back
	w.resume(persons.ID)
	if n := w.provider.requests(); n != 0 {
		t.Errorf("got %d requests, want none before it is resumed", n)
	}
	wantRewound(t, w, s)
	if d := w.settled(due); d.State != notifier.StateSent {
		t.Errorf("got %s %s after it was resumed, want sent", d.State, d.Reason)
	}
}

func TestRewound_WhileRunning(t *testing.T) {
	t.Parallel()
	s, ledger := newSharedStore(), &markedLedger{}
	w := newWorld(t, s.use, ledger.use)
	w.awaitDegraded(s.reg)
	ledger.rewind()
	wantRewound(t, w, s)
}

// Until the store has said which mark it has, none is given out: it would cover
// up that an older one is missing.
func TestRewound_FoundOutWhenTheStoreIsBack(t *testing.T) {
	t.Parallel()
	s, ledger := newSharedStore(), &markedLedger{rewound: true}
	s.away, s.kept = true, "of commits that are gone"
	w := newWorld(t, s.use, ledger.use)
	w.awaitDegraded(s.reg, "redis", "caps_rebuilding")
	ledger.mu.Lock()
	if len(ledger.asked) != 0 {
		t.Errorf("the ledger was asked for %q while the store was away, want nothing", ledger.asked)
	}
	ledger.mu.Unlock()
	s.set(func() { s.away = false })
	wantRewound(t, w, s)
}

// A server that took another one's place is trusted once it was looked at.
func TestRewound_ChangesAreTrustedAfterALook(t *testing.T) {
	t.Parallel()
	s, ledger := newSharedStore(), &markedLedger{}
	w := newWorld(t, s.use, ledger.use)
	for n := int64(1); n < 3; n++ {
		ledger.changes.Store(n)
		until(t, "it is trusted", func() bool { return ledger.trusted.Load() == n })
	}
	if got := w.degraded(); slices.Contains(got, "ledger_rewound") {
		t.Errorf("degraded are %v, want no rewind", got)
	}
}
