package delivery_test

import (
	"context"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/seed-4b260dfd/notifier"
	"github.com/seed-4b260dfd/notifier/caps"
	"github.com/seed-4b260dfd/notifier/claims"
	"github.com/seed-4b260dfd/notifier/delivery"
)

// sharedStore is the store of claims and caps as a node sees it: it can be
// away, lose its data, be set wrongly, and keeps a mark.
type sharedStore struct {
	*claims.Memory

	mu     sync.Mutex
	caps   *caps.Memory
	away   bool
	intact bool
	faults []string
	kept   string
	// lost is until when the store keeps that it lost its data.
	lost time.Time
	// filling, when set, holds up Filled until it is closed.
	filling chan struct{}
	fills   int
	// refuse is how many times Filled fails first.
	refuse int
	reg    *prometheus.Registry
}

func newSharedStore() *sharedStore {
	return &sharedStore{Memory: claims.NewMemory(), caps: caps.NewMemory(), intact: true, reg: prometheus.NewRegistry()}
}

func (s *sharedStore) use(c *delivery.Config, _ map[string]string) {
	c.Claims, c.Caps, c.Store, c.SoleOwner, c.Registerer = claimsOf{s}, capsOf{s}, s, false, s.reg
}

func (s *sharedStore) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

func (s *sharedStore) lose() {
	s.set(func() { s.caps, s.intact, s.lost = caps.NewMemory(), false, time.Time{} })
}

// reach is the caps behind the network, or an error while they are away.
func (s *sharedStore) reach() (*caps.Memory, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.away {
		return nil, errAway
	}
	return s.caps, nil
}

func (s *sharedStore) Audit(context.Context) ([]string, error) {
	_, err := s.reach()
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.faults), err
}

func (s *sharedStore) Intact(context.Context) (bool, error) {
	_, err := s.reach()
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.intact, err
}

func (s *sharedStore) Filled(ctx context.Context) error {
	s.mu.Lock()
	hold := s.filling
	s.mu.Unlock()
	if hold != nil {
		select {
		case <-hold:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.refuse > 0 {
		s.refuse--
		return errAway
	}
	s.intact, s.fills = true, s.fills+1
	return nil
}

func (s *sharedStore) Lost(_ context.Context, lasts time.Duration) (time.Duration, error) {
	if _, err := s.reach(); err != nil {
		return 0, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if until := time.Now().Add(lasts); lasts > 0 && until.After(s.lost) {
		s.lost = until
	}
	return max(time.Until(s.lost), 0), nil
}

func (s *sharedStore) Mark(_ context.Context, was, is string) (string, error) {
	if _, err := s.reach(); err != nil {
		return "", err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if is != "" && (s.kept == "" || s.kept == was) {
		s.kept = is
	}
	return s.kept, nil
}

type claimsOf struct{ *sharedStore }

func (c claimsOf) Acquire(ctx context.Context, of claims.Claim, ttl time.Duration) (claims.Answer, error) {
	if _, err := c.reach(); err != nil {
		return claims.Answer{}, err
	}
	return c.Memory.Acquire(ctx, of, ttl)
}

type capsOf struct{ s *sharedStore }

func (c capsOf) Spend(ctx context.Context, unit, holder string, of []caps.Cap) (caps.Decision, error) {
	m, err := c.s.reach()
	if err != nil {
		return caps.Decision{}, err
	}
	return m.Spend(ctx, unit, holder, of)
}

func (c capsOf) Refund(ctx context.Context, unit, holder string, of []caps.Cap) error {
	m, err := c.s.reach()
	if err != nil {
		return err
	}
	return m.Refund(ctx, unit, holder, of)
}

func (c capsOf) Fill(ctx context.Context, of caps.Cap, unit, holder string, at time.Time) error {
	m, err := c.s.reach()
	if err != nil {
		return err
	}
	return m.Fill(ctx, of, unit, holder, at)
}

func (w *world) degraded() []string {
	w.t.Helper()
	parts, err := w.engine.Ready(w.t.Context())
	if err != nil {
		w.t.Fatalf("not ready: %v", err)
	}
	return parts
}

// awaitDegraded waits until exactly these parts are degraded, and the gauge says so.
func (w *world) awaitDegraded(reg *prometheus.Registry, want ...string) {
	w.t.Helper()
	until(w.t, "degraded are "+strconv.Quote(cmp.Diff([]string(nil), want)), func() bool { return slices.Equal(w.degraded(), want) })
	if got := gauge(w.t, reg, "notifier_degraded"); got != float64(len(want)) {
		w.t.Errorf("the gauge says that %v parts are degraded, want %d", got, len(want))
	}
	for _, part := range want {
		if got := gauge(w.t, reg, "notifier_degraded", part); got != 1 {
			w.t.Errorf("the gauge of %s is %v, want 1", part, got)
		}
	}
}

// wantCapped wants a further notification to be one too many.
func (w *world) wantCapped(key string) {
	w.t.Helper()
	if d := w.settled(w.accept(request("alert", key)).ID); d.Reason != notifier.ReasonCapped {
		w.t.Errorf("got %s %s, want it capped: the units of before count", d.State, d.Reason)
	}
}

func (w *world) wantSent(typ, key string) {
	w.t.Helper()
	if d := w.settled(w.accept(request(typ, key)).ID); d.State != notifier.StateSent {
		w.t.Errorf("got %s %s, want sent", d.State, d.Reason)
	}
}

func TestStore_LostDataIsRebuiltFromTheLedger(t *testing.T) {
	t.Parallel()
	s := newSharedStore()
	w := newWorld(t, withPolicy("alert", cappedWaiter), s.use)
	w.awaitDegraded(s.reg)
	w.wantSent("alert", "a")
	s.set(func() { s.filling = make(chan struct{}) })
	s.lose()
	w.awaitDegraded(s.reg, "redis_data_lost", "caps_rebuilding")
	// Meanwhile who waits for Redis waits, and the caps do not say yes.
	id := w.accept(request("alert", "b")).ID
	until(t, "it waits", func() bool { return w.read(id).Reason == notifier.ReasonRedisDown })
	s.set(func() { close(s.filling) })
	w.awaitDegraded(s.reg, "redis_data_lost") // until the tombstones of before would have ended
	if d := w.settled(id); d.Reason != notifier.ReasonCapped {
		t.Errorf("got %s %s, want it capped by what was sent before the loss", d.State, d.Reason)
	}
}

func TestStore_FilledByNobodyAtTheStart(t *testing.T) {
	t.Parallel()
	s := newSharedStore()
	s.lose()
	w := newWorld(t, s.use)
	w.awaitDegraded(s.reg)
	s.set(func() {
		if s.fills != 1 || !s.intact {
			t.Errorf("filled %d times, want once", s.fills)
		}
	})
}

func TestStore_AnOutageIsMadeUpFor(t *testing.T) {
	t.Parallel()
	for name, atStart := range map[string]bool{"away while running": false, "away at the start": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSharedStore()
			s.away = atStart
			w := newWorld(t, withPolicy("alert", cappedAlert), s.use)
			s.set(func() { s.away = true })
			until(t, "redis is degraded", func() bool { return slices.Contains(w.degraded(), "redis") })
			w.wantSent("alert", "a") // uncounted
			s.set(func() { s.away = false })
			w.awaitDegraded(s.reg)
			w.wantCapped("b")
		})
	}
}

// What nobody has ever filled was not lost, however long it takes to fill it.
func TestStore_NeverFilledIsNotLost(t *testing.T) {
	t.Parallel()
	s := newSharedStore()
	s.intact, s.refuse = false, 2
	w := newWorld(t, s.use)
	until(t, "it is filled", func() bool { return !slices.Contains(w.degraded(), "caps_rebuilding") })
	w.awaitDegraded(s.reg)
}

// A node that starts after the loss says it as well: it was told by the store,
// or finds a used ledger beside a store that nobody has filled.
func TestStore_LossIsKnownToWhoStartsLater(t *testing.T) {
	t.Parallel()
	s := newSharedStore()
	w := newWorld(t, s.use)
	s.lose()
	w.awaitDegraded(s.reg, "redis_data_lost")
	s.reg = prometheus.NewRegistry()
	newWorld(t, s.use).awaitDegraded(s.reg, "redis_data_lost")
	s.set(func() { s.lost = time.Time{} })
	s.reg = prometheus.NewRegistry()
	newWorld(t, s.use).awaitDegraded(s.reg)
}

func TestStore_LossWhileNobodyRan(t *testing.T) {
	t.Parallel()
	for name, used := range map[string]bool{"a used ledger": true, "a new ledger": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSharedStore()
			s.lose()
			m := &markedLedger{used: used}
			w := newWorld(t, s.use, m.use)
			if !used {
				w.awaitDegraded(s.reg)
				return
			}
			w.awaitDegraded(s.reg, "redis_data_lost")
			s.set(func() {
				if time.Until(s.lost) <= 0 {
					t.Error("the store was not told that it lost its data")
				}
			})
		})
	}
}

func TestStore_RebuildThatFailsIsBegunAgain(t *testing.T) {
	t.Parallel()
	s := newSharedStore()
	w := newWorld(t, withPolicy("alert", cappedAlert), s.use)
	w.wantSent("alert", "a")
	s.set(func() { s.away = true })
	s.lose()
	until(t, "redis is degraded", func() bool { return slices.Contains(w.degraded(), "redis") })
	s.set(func() { s.away = false })
	w.awaitDegraded(s.reg, "redis_data_lost")
	w.wantCapped("b")
}

func TestStore_Settings(t *testing.T) {
	t.Parallel()
	s := newSharedStore()
	s.faults = []string{"maxmemory-policy is allkeys-lru"}
	w := newWorld(t, s.use)
	w.awaitDegraded(s.reg, "redis_config")
	w.wantSent("nudge", "a")
}
