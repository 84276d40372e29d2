package delivery_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/seed-4b260dfd/notifier"
	"github.com/seed-4b260dfd/notifier/caps"
	"github.com/seed-4b260dfd/notifier/channels"
	"github.com/seed-4b260dfd/notifier/claims"
	"github.com/seed-4b260dfd/notifier/delivery"
)

var errAway = errors.New("the store is away")

// awayClaims and awayCaps are the real ones, until the store is taken away.
type awayClaims struct {
	*claims.Memory
	away *atomic.Bool
	// acquired counts the asks while away.
	acquired atomic.Int64
}

func (a *awayClaims) Acquire(ctx context.Context, c claims.Claim, ttl time.Duration) (claims.Answer, error) {
	if a.away.Load() {
		a.acquired.Add(1)
		return claims.Answer{}, errAway
	}
	return a.Memory.Acquire(ctx, c, ttl)
}

func (a *awayClaims) Settle(ctx context.Context, c claims.Claim, outcome string, ttl time.Duration) error {
	if a.away.Load() {
		return errAway
	}
	return a.Memory.Settle(ctx, c, outcome, ttl)
}

type awayCaps struct {
	*caps.Memory
	away *atomic.Bool
}

func (a *awayCaps) Spend(ctx context.Context, unit, holder string, of []caps.Cap) (caps.Decision, error) {
	if a.away.Load() {
		return caps.Decision{}, errAway
	}
	return a.Memory.Spend(ctx, unit, holder, of)
}

// store is claims and caps that can be taken away.
type store struct {
	claims awayClaims
	caps   awayCaps
	away   atomic.Bool
	reg    *prometheus.Registry
}

func newStore() *store {
	s := &store{reg: prometheus.NewRegistry()}
	s.claims.Memory, s.claims.away = claims.NewMemory(), &s.away
	s.caps.Memory, s.caps.away = caps.NewMemory(), &s.away
	return s
}

func (s *store) use(c *delivery.Config, _ map[string]string) {
	c.Claims, c.Caps, c.SoleOwner, c.Registerer = &s.claims, &s.caps, false, s.reg
}

const (
	cappedAlert = "order: send_first\nexpires_after: 1h\nchannels: [{channel: apns}]\nlease: 10s\ndata: {n: {required: true}}\n" +
		"caps: [{name: one, per: [recipient], limit: 1, window: 1h, then: suppress}]\n"
	cappedWaiter = cappedAlert + "redis_down: wait\n"
	daringNudge  = "order: claim_first\nchannels: [{channel: apns}]\nlease: 10s\ndata: {n: {required: true}}\nredis_down: proceed\n"
)

func TestStoreAway_EachOrderGoesItsWay(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, typ, policy string
		proceeds          bool
	}{
		{"claim-first waits", "nudge", defaultPolicies["nudge"], false},
		{"claim-first proceeds when its policy says so", "nudge", daringNudge, true},
		{"send-first proceeds", "alert", cappedAlert, true},
		{"send-first waits when its policy says so", "alert", cappedWaiter, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := newStore()
			s.away.Store(true)
			w := newWorld(t, withPolicy(c.typ, c.policy), s.use)
			id := w.accept(request(c.typ, "a")).ID
			if !c.proceeds {
				until(t, "it waits", func() bool { return w.read(id).Reason == notifier.ReasonRedisDown })
				if n := w.provider.requests(); n != 0 {
					t.Fatalf("got %d requests while the store is away, want 0", n)
				}
				s.away.Store(false)
			}
			d := w.settled(id)
			if diff := cmp.Diff(ending{notifier.StateSent, "", 1, 1}, w.ending(d)); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
			if n := len(d.Attempts); n != 1 {
				t.Errorf("got %d attempts, want 1: waiting uses none", n)
			}
		})
	}
}

func TestStoreAway_UncountedAttemptsAreNamed(t *testing.T) {
	t.Parallel()
	s := newStore()
	s.away.Store(true)
	w := newWorld(t, withPolicy("alert", cappedAlert), s.use)
	for _, key := range []string{"a", "b"} {
		if d := w.settled(w.accept(request("alert", key)).ID); d.State != notifier.StateSent {
			t.Errorf("got %s %s, want sent beyond the cap", d.State, d.Reason)
		}
	}
	if got := counter(t, s.reg, "notifier_caps_uncounted_total", "one"); got != 2 {
		t.Errorf("got %v uncounted attempts of the cap, want 2", got)
	}
}

// counter sums a counter's values with a label value.
func counter(t *testing.T, reg *prometheus.Registry, name, label string) (sum float64) {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if l.GetValue() == label {
					sum += m.GetCounter().GetValue()
				}
			}
		}
	}
	return sum
}

// effectKey is the claim's key of a request's only delivery.
func effectKey(key string) string {
	return notifier.EffectKey("default", key, notifier.ChannelAPNs, "token-of-"+key)
}

func TestWitness_ATombstoneClosesWhatTheLedgerForgot(t *testing.T) {
	t.Parallel()
	for _, typ := range []string{"alert", "nudge"} {
		for outcome, want := range map[notifier.Outcome]ending{
			notifier.OutcomeSent:    {notifier.StateSent, "", 1, 0},
			notifier.OutcomeUnknown: {notifier.StateUnknown, notifier.ReasonWorkerLost, 1, 0},
		} {
			t.Run(typ+" "+outcome.String(), func(t *testing.T) {
				t.Parallel()
				s := newStore()
				gone := claims.Claim{Key: effectKey("a"), Fence: 7, Owner: "of-before"}
				if err := s.claims.Settle(t.Context(), gone, outcome.String(), time.Hour); err != nil {
					t.Fatal(err)
				}
				w := newWorld(t, s.use)
				d := w.settled(w.accept(request(typ, "a")).ID)
				if diff := cmp.Diff(want, w.ending(d)); diff != "" {
					t.Errorf("(-want +got)\n%s", diff)
				}
				if len(d.Attempts) != 1 || d.Attempts[0].Reason != notifier.ReasonLedgerRewound {
					t.Errorf("got the attempts %+v, want one that says why", d.Attempts)
				}
			})
		}
	}
}

func TestWitness_ALiveClaimAheadOfTheLedgerIsWaitedFor(t *testing.T) {
	t.Parallel()
	for name, ahead := range map[string]claims.Claim{
		"a newer fence":               {Key: effectKey("a"), Fence: 9, Owner: "of-before"},
		"the same fence, other owner": {Key: effectKey("a"), Fence: 1, Owner: "of-before"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStore()
			if _, err := s.claims.Acquire(t.Context(), ahead, 1500*time.Millisecond); err != nil {
				t.Fatal(err)
			}
			w := newWorld(t, s.use)
			began := time.Now()
			id := w.accept(request("nudge", "a")).ID
			d := w.settled(id)
			if diff := cmp.Diff(ending{notifier.StateSent, "", 1, 1}, w.ending(d)); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
			if waited := time.Since(began); waited < time.Second {
				t.Errorf("it was sent after %s, while the claim was held", waited)
			}
		})
	}
}

// sharing is a ledger that several engines use.
type sharing struct{ *faultyLedger }

func TestShared_TwoEnginesSendEachDeliveryOnce(t *testing.T) {
	t.Parallel()
	s := newStore()
	first := newWorld(t, s.use)
	engines := []*delivery.Engine{first.engine, second(t, first, s)}
	const n = 60
	ids := make([]notifier.ID, n)
	var mu sync.Mutex
	var all sync.WaitGroup
	for i := range n {
		typ := []string{"alert", "nudge"}[i%2]
		for _, e := range engines {
			all.Go(func() {
				got, err := e.Accept(t.Context(), request(typ, key(i)))
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				if !ids[i].IsZero() && ids[i] != got.ID {
					t.Errorf("one key has the ids %v and %v", ids[i], got.ID)
				}
				ids[i] = got.ID
			})
		}
		all.Wait()
	}
	for i, id := range ids {
		if d := first.settled(id); d.State != notifier.StateSent {
			t.Errorf("notification %d: got %s %s, want sent", i, d.State, d.Reason)
		}
	}
	if got := first.provider.requests(); got != n {
		t.Errorf("got %d requests, want %d", got, n)
	}
}

// second starts another engine over the ledger, the store and the provider of a
// world, and ends it before the world does.
func second(t *testing.T, w *world, s *store) *delivery.Engine {
	t.Helper()
	bodies := map[string]string{}
	for name, body := range defaultPolicies {
		bodies[name] = body
	}
	cfg := delivery.Config{
		Ledger: sharing{w.ledger}, Claims: &s.claims, Caps: &s.caps, Drain: 5 * time.Second,
		Kinds:    map[notifier.Channel]channels.Kind{notifier.ChannelAPNs: kind{notifier.ChannelAPNs}},
		Accounts: map[notifier.Channel]map[string]delivery.Account{notifier.ChannelAPNs: {"shop": {Channel: w.provider}}},
	}
	cfg.Policies, cfg.Templates = load(t, bodies)
	e, err := delivery.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- e.Run(ctx) }()
	stop := sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("run: %v", err)
		}
	})
	stopFirst := w.stop
	w.stop = func() { stop(); stopFirst() }
	t.Cleanup(stop)
	until(t, "ready", func() bool { _, err := e.Ready(ctx); return err == nil })
	return e
}
