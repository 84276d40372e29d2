package delivery_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/seed-4b260dfd/notifier"
	"github.com/seed-4b260dfd/notifier/caps"
	"github.com/seed-4b260dfd/notifier/channels"
	"github.com/seed-4b260dfd/notifier/delivery"
)

// The edges at which two parts of the engine meet: what each test holds
// together came apart once.

// shared makes the engine believe that others may hold leases, so that its
// claims end with their leases.
func shared(c *delivery.Config, _ map[string]string) { c.SoleOwner = false }

const cappedNudge = "order: claim_first\nchannels: [{channel: apns}]\nlease: 1s\ndata: {n: {required: true}}\n" +
	"retry: {initial: 10ms, factor: 1, max: 10ms}\ncaps: [{name: one, per: [recipient], limit: 1, window: 1h, then: suppress}]\n"

// countedCaps counts the spends of each holder.
type countedCaps struct {
	*caps.Memory
	mu     sync.Mutex
	spends map[string]int
}

func (s *countedCaps) Spend(ctx context.Context, unit, holder string, of []caps.Cap) (caps.Decision, error) {
	d, err := s.Memory.Spend(ctx, unit, holder, of)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.spends[holder]++
	return d, err
}

func (s *countedCaps) count(holder string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.spends[holder]
}

// stalledPermit holds the first permit back until it is let go.
type stalledPermit struct {
	*faultyLedger
	calls atomic.Int64
	hold  chan struct{}
}

func (s *stalledPermit) Permit(ctx context.Context, o notifier.Owner, p []notifier.Permit) ([]bool, error) {
	if s.calls.Add(1) == 1 {
		<-s.hold
	}
	return s.faultyLedger.Permit(ctx, o, p)
}

func TestCaps_AFencedOffAttemptKeepsItsSuccessorsUnit(t *testing.T) {
	t.Parallel()
	counted := &countedCaps{Memory: caps.NewMemory(), spends: map[string]int{}}
	stalled := &stalledPermit{hold: make(chan struct{})}
	w := newWorld(t, withPolicy("nudge", cappedNudge), shared, func(c *delivery.Config, _ map[string]string) {
		c.Caps = counted
		stalled.faultyLedger = c.Ledger.(*faultyLedger)
		c.Ledger = stalled
	})
	first := w.accept(request("nudge", "a"))
	holder := w.read(first.ID).ID.String()
	until(t, "the second fence has spent the unit", func() bool { return counted.count(holder) == 2 })
	close(stalled.hold)
	if d := w.settled(first.ID); d.State != notifier.StateSent {
		t.Fatalf("got %s %s, want sent", d.State, d.Reason)
	}
	if d := w.settled(w.accept(request("nudge", "b")).ID); d.Reason != notifier.ReasonCapped {
		t.Errorf("got %s %s for a second message under a cap of one, want capped", d.State, d.Reason)
	}
}

// silent is a provider that connects and never answers: its calls never reach
// their gate.
type silent struct{}

func (silent) Send(ctx context.Context, c *channels.Call) channels.Result {
	<-ctx.Done()
	return channels.TransportResult(ctx.Err(), c.Guard)
}
func (silent) Close() error { return nil }

func TestClaimFirst_WaitingForRoomUsesNoTry(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withPolicy("nudge", "order: claim_first\nchannels: [{channel: apns, send_timeout: 2500ms}]\nlease: 1s\n"+
		"data: {n: {required: true}}\nretry: {initial: 10ms, factor: 1, max: 10ms, max_attempts: 2}\n"),
		shared, func(c *delivery.Config, _ map[string]string) {
			c.Accounts[notifier.ChannelAPNs]["shop"] = delivery.Account{Channel: silent{}, MaxInFlight: 400}
		})
	ids := make([]notifier.ID, 100)
	for i := range ids {
		ids[i] = w.accept(request("nudge", key(i))).ID
	}
	// Longer than max_attempts leases: the room is full all the while.
	enough := time.After(4 * time.Second)
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for waiting := true; waiting; {
		select {
		case <-tick.C:
		case <-enough:
			waiting = false
		}
		for _, id := range ids {
			if d := w.read(id); d.State == notifier.StateDead {
				t.Fatalf("got dead %s of a provider that is only slow; attempts %+v", d.Reason, d.Attempts)
			}
		}
	}
}

// heldAccept holds an answer back after its commit.
type heldAccept struct {
	*faultyLedger
	committed, hold chan struct{}
}

func (h *heldAccept) Accept(ctx context.Context, in []notifier.Intent) ([]notifier.Stored, error) {
	got, err := h.faultyLedger.Accept(ctx, in)
	select {
	case h.committed <- struct{}{}:
		<-h.hold
	default:
	}
	return got, err
}

func TestAccept_ACallerThatHangsUpStrandsNoLease(t *testing.T) {
	t.Parallel()
	held := &heldAccept{committed: make(chan struct{}), hold: make(chan struct{})}
	w := newWorld(t, func(c *delivery.Config, _ map[string]string) {
		held.faultyLedger = c.Ledger.(*faultyLedger)
		c.Ledger = held
	})
	ctx, hangUp := context.WithCancel(t.Context())
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		_, _ = w.engine.Accept(ctx, request("alert", "k")) // nobody is there for the answer
	}()
	<-held.committed
	hangUp()
	close(held.hold)
	<-answered
	got := w.accept(request("alert", "k"))
	if !got.Replayed {
		t.Fatal("what was committed is not known")
	}
	d := w.settled(got.ID)
	if want := (ending{notifier.StateSent, "", 1, 1}); w.ending(d) != want || len(d.Attempts) != 1 {
		t.Errorf("got %+v in %d attempts, want %+v in one", w.ending(d), len(d.Attempts), want)
	}
}

// failingRenew fails once.
type failingRenew struct {
	*faultyLedger
	calls atomic.Int64
}

func (r *failingRenew) Renew(ctx context.Context, o notifier.Owner, h []notifier.Hold) ([]bool, error) {
	if r.calls.Add(1) == 1 {
		return nil, errors.New("one bad moment")
	}
	return r.faultyLedger.Renew(ctx, o, h)
}

func TestSendFirst_OneFailedRenewalStartsNoSecondCall(t *testing.T) {
	t.Parallel()
	w := newWorld(t, shared, withPolicy("alert", "order: send_first\nchannels: [{channel: apns, send_timeout: 12s}]\nexpires_after: 1h\n"+
		"lease: 1500ms\ndata: {n: {required: true}}\nretry: {initial: 10ms, factor: 1, max: 10ms}\n"),
		func(c *delivery.Config, _ map[string]string) {
			c.Ledger = &failingRenew{faultyLedger: c.Ledger.(*faultyLedger)}
		})
	w.provider.answer = func(ctx context.Context, _ int, _ *channels.Call) channels.Result {
		select {
		case <-time.After(4 * time.Second):
		case <-ctx.Done():
		}
		return result(notifier.OutcomeSent, "")
	}
	d := w.settled(w.accept(request("alert", "k")).ID)
	if want := (ending{notifier.StateSent, "", 1, 1}); w.ending(d) != want {
		t.Errorf("got %+v, want %+v", w.ending(d), want)
	}
}

// lossyReturn writes the first return and loses its answer.
type lossyReturn struct {
	*faultyLedger
	lost atomic.Bool
}

func (l *lossyReturn) Return(ctx context.Context, o notifier.Owner, r []notifier.Return) ([]notifier.Settled, error) {
	got, err := l.faultyLedger.Return(ctx, o, r)
	if err == nil && !l.lost.Swap(true) {
		return nil, errors.New("the answer was lost")
	}
	return got, err
}

func TestMetrics_TheLastUnknownIsNoRepeatAndEndsOnce(t *testing.T) {
	t.Parallel()
	reg := prometheus.NewRegistry()
	w := newWorld(t, withPolicy("alert", "order: send_first\nchannels: [{channel: apns}]\nexpires_after: 1h\ndata: {n: {required: true}}\n"+
		"retry: {initial: 10ms, factor: 1, max: 10ms, max_attempts: 8, max_unknown: 1}\n"),
		func(c *delivery.Config, _ map[string]string) {
			c.Registerer = reg
			c.Ledger = &lossyReturn{faultyLedger: c.Ledger.(*faultyLedger)}
		})
	w.provider.answer = script(result(notifier.OutcomeUnknown, notifier.ReasonReplyLost))
	w.settled(w.accept(request("alert", "k")).ID)
	w.stop()
	for name, want := range map[string]float64{"notifier_possible_repeats_total": 0, "notifier_finished_total": 1} {
		if got := total(t, reg, name); got != want {
			t.Errorf("%s: got %v, want %v", name, got, want)
		}
	}
}

// total sums a counter over its labels.
func total(t *testing.T, reg *prometheus.Registry, name string) (sum float64) {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name {
			for _, m := range f.GetMetric() {
				sum += m.GetCounter().GetValue()
			}
		}
	}
	return sum
}

// choosy is an account that cannot reach every address.
type choosy struct{ *provider }

func (choosy) CheckAddress(notifier.Address) error {
	return &notifier.Error{Code: notifier.CodeInvalid, Field: "secret", Message: "the account has no such secret"}
}

func TestAccept_AnAccountRefusesAnAddress(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *delivery.Config, _ map[string]string) {
		shop := c.Accounts[notifier.ChannelAPNs]["shop"]
		c.Accounts[notifier.ChannelAPNs]["shop"] = delivery.Account{Channel: choosy{shop.Channel.(*provider)}}
	})
	_, err := w.engine.Accept(t.Context(), request("nudge", "k"))
	wantCode(t, err, notifier.CodeInvalid, "to.apns[0].secret")
}

// A ledger that is away is said to be that, also to those who only read.
func TestRead_LedgerAway(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.accept(request("alert", "a")).ID
	w.settled(id)
	away, cancel := context.WithCancel(t.Context())
	cancel()
	var own *notifier.Error
	if _, err := w.engine.ByKey(away, "default", "a"); !errors.As(err, &own) || own.Code != notifier.CodeLedgerUnavailable {
		t.Errorf("by key: got %v, want %s", err, notifier.CodeLedgerUnavailable)
	}
	if _, err := w.engine.Notification(away, "default", id); !errors.As(err, &own) || own.Code != notifier.CodeLedgerUnavailable {
		t.Errorf("by id: got %v, want %s", err, notifier.CodeLedgerUnavailable)
	}
	if _, err := w.engine.Pauses(away); !errors.As(err, &own) || own.Code != notifier.CodeLedgerUnavailable {
		t.Errorf("pauses: got %v, want %s", err, notifier.CodeLedgerUnavailable)
	}
	if _, err := w.engine.ByKey(t.Context(), "default", "never"); !errors.As(err, &own) || own.Code != notifier.CodeNotFound {
		t.Errorf("a key that was never used: got %v, want %s", err, notifier.CodeNotFound)
	}
}
