package delivery_test

import (
	"context"
	"encoding/json"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/seed-4b260dfd/notifier"
	"github.com/seed-4b260dfd/notifier/caps"
	"github.com/seed-4b260dfd/notifier/channels"
	"github.com/seed-4b260dfd/notifier/claims"
	"github.com/seed-4b260dfd/notifier/delivery"
	"github.com/seed-4b260dfd/notifier/ledger/sqlite"
	"github.com/seed-4b260dfd/notifier/policy"
	"github.com/seed-4b260dfd/notifier/templates"
)

// provider is a channel that keeps its own log, as a real provider does, and
// answers as the test says.
type provider struct {
	// answer decides the n-th call (from 1) to one effect key. Nil: sent. It
	// runs before the gate; a Result returned with pass false never passed it.
	answer func(ctx context.Context, n int, c *channels.Call) channels.Result

	mu   sync.Mutex
	log  []effect
	seen chan effect
}

type effect struct {
	key      string
	delivery notifier.DeliveryID
	fence    int64
}

func (p *provider) Send(ctx context.Context, c *channels.Call) channels.Result {
	if err := c.Guard.Pass(); err != nil {
		return channels.Result{Outcome: notifier.OutcomeNotSent, Reason: notifier.ReasonGate}
	}
	p.mu.Lock()
	n := 1
	for _, e := range p.log {
		if e.key == c.Delivery.EffectKey {
			n++
		}
	}
	e := effect{c.Delivery.EffectKey, c.Delivery.ID, c.Fence}
	p.log = append(p.log, e)
	answer := p.answer
	p.mu.Unlock()
	p.seen <- e
	if answer == nil {
		return channels.Result{Outcome: notifier.OutcomeSent, ProviderStatus: "200"}
	}
	return answer(ctx, n, c)
}

func (p *provider) Close() error { return nil }

func (p *provider) requests() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.log)
}

// kind is a channel without rules: what is rendered is what is sent.
type kind struct{ channel notifier.Channel }

func (k kind) Channel() notifier.Channel           { return k.channel }
func (k kind) SendTimeout() time.Duration          { return 20 * time.Second }
func (kind) CheckAddress(a notifier.Address) error { return nil }
func (kind) Prepare(f map[string]any) (notifier.Content, error) {
	return json.Marshal(f)
}

// faultyLedger is the real ledger with knobs.
type faultyLedger struct {
	*sqlite.Ledger
	mu       sync.Mutex
	permit   func() error // after the permit was written
	complete func() error // instead of the write
}

func (f *faultyLedger) set(permit, complete func() error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.permit, f.complete = permit, complete
}

func (f *faultyLedger) Permit(ctx context.Context, o notifier.Owner, p []notifier.Permit) ([]bool, error) {
	got, err := f.Ledger.Permit(ctx, o, p)
	f.mu.Lock()
	fault := f.permit
	f.mu.Unlock()
	if fault != nil && err == nil {
		if err := fault(); err != nil {
			return nil, err
		}
	}
	return got, err
}

func (f *faultyLedger) Complete(ctx context.Context, o notifier.Owner, c []notifier.Completion) ([]notifier.Settled, error) {
	f.mu.Lock()
	fault := f.complete
	f.mu.Unlock()
	if fault != nil {
		if err := fault(); err != nil {
			return nil, err
		}
	}
	return f.Ledger.Complete(ctx, o, c)
}

// world is an engine over a real ledger and a scripted provider.
type world struct {
	t        *testing.T
	engine   *delivery.Engine
	ledger   *faultyLedger
	provider *provider
	path     string
	stop     func()
}

const template = "title: \"{{.n}}\"\nbody: hello\n"

var defaultPolicies = map[string]string{
	"alert": "order: send_first\nchannels: [{channel: apns}]\nexpires_after: 1h\nlease: 10s\n" +
		"data: {n: {required: true}}\nretry: {initial: 10ms, factor: 1, max: 10ms, max_attempts: 8, max_unknown: 3}\n",
	"nudge": "order: claim_first\nchannels: [{channel: apns}]\nlease: 10s\n" +
		"data: {n: {required: true}}\nretry: {initial: 10ms, factor: 1, max: 10ms}\n",
}

type option func(*delivery.Config, map[string]string)

func withPolicy(name, body string) option {
	return func(_ *delivery.Config, p map[string]string) { p[name] = body }
}

func withSlots(n int) option {
	return func(c *delivery.Config, _ map[string]string) {
		shop := c.Accounts[notifier.ChannelAPNs]["shop"]
		shop.MaxInFlight = n
		c.Accounts[notifier.ChannelAPNs]["shop"] = shop
	}
}

func newWorld(t *testing.T, opts ...option) *world {
	t.Helper()
	return openWorld(t, filepath.Join(t.TempDir(), "notifier.db"), opts...)
}

func openWorld(t *testing.T, path string, opts ...option) *world {
	t.Helper()
	l, err := sqlite.Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, path: path, ledger: &faultyLedger{Ledger: l}, provider: &provider{seen: make(chan effect, 1000)}}
	bodies := map[string]string{}
	for name, body := range defaultPolicies {
		bodies[name] = body
	}
	cfg := delivery.Config{
		Ledger: w.ledger, Claims: claims.NewMemory(), Caps: caps.NewMemory(), SoleOwner: true, Drain: 5 * time.Second,
		Kinds:    map[notifier.Channel]channels.Kind{notifier.ChannelAPNs: kind{notifier.ChannelAPNs}},
		Accounts: map[notifier.Channel]map[string]delivery.Account{notifier.ChannelAPNs: {"shop": {Channel: w.provider}}},
	}
	for _, o := range opts {
		o(&cfg, bodies)
	}
	cfg.Policies, cfg.Templates = load(t, bodies)
	if w.engine, err = delivery.New(cfg); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- w.engine.Run(ctx) }()
	w.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("run: %v", err)
		}
		if broken := l.Check(context.Background()); len(broken) > 0 {
			t.Errorf("the ledger's invariants: %v", broken)
		}
		if err := l.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	t.Cleanup(w.stop)
	until(t, "ready", func() bool { _, err := w.engine.Ready(ctx); return err == nil })
	return w
}

func load(t *testing.T, bodies map[string]string) (*policy.Set, *templates.Set) {
	t.Helper()
	fsys := fstest.MapFS{}
	for name, body := range bodies {
		fsys["policies/"+name+".yaml"] = &fstest.MapFile{Data: []byte(body)}
		fsys["templates/"+name+"/push.yaml"] = &fstest.MapFile{Data: []byte(template)}
	}
	ps, problems := policy.Load(fsys, "policies")
	ts, more := templates.Load(fsys, "templates")
	for _, p := range append(problems, more...) {
		if !p.Warning {
			t.Fatal(p)
		}
	}
	return ps, ts
}

// until polls a condition that another goroutine brings about.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	limit := time.After(20 * time.Second)
	for !ok() {
		select {
		case <-tick.C:
		case <-limit:
			t.Fatalf("waited in vain for: %s", what)
		}
	}
}

func request(typ, key string) notifier.Request {
	return notifier.Request{
		Tenant: "default", Key: key, Type: typ, Recipient: "u_1",
		To:   map[notifier.Channel][]notifier.Address{notifier.ChannelAPNs: {{Value: "token-of-" + key}}},
		Data: map[string]any{"n": key},
	}
}

func (w *world) accept(req notifier.Request) notifier.Accepted {
	w.t.Helper()
	got, err := w.engine.Accept(w.t.Context(), req)
	if err != nil {
		w.t.Fatal(err)
	}
	return got
}

// settled waits for the end of a notification and returns its only delivery.
func (w *world) settled(id notifier.ID) notifier.DeliveryState {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), 20*time.Second)
	defer cancel()
	if err := w.engine.Wait(ctx, "default", id); err != nil {
		w.t.Fatalf("wait: %v", err)
	}
	return w.read(id)
}

func (w *world) read(id notifier.ID) notifier.DeliveryState {
	w.t.Helper()
	n, err := w.ledger.Notification(w.t.Context(), "default", id)
	if err != nil {
		w.t.Fatal(err)
	}
	if len(n.Deliveries) != 1 {
		w.t.Fatalf("got %d deliveries, want 1", len(n.Deliveries))
	}
	return n.Deliveries[0]
}

// ending is what a test says of a delivery's end.
type ending struct {
	State    notifier.State
	Reason   notifier.Reason
	Possible int
	Requests int
}

func (w *world) ending(d notifier.DeliveryState) ending {
	return ending{d.State, d.Reason, d.PossibleEffects, w.provider.requests()}
}

func key(i int) string { return "k-" + strconv.Itoa(i) }
