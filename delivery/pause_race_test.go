package delivery_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-4b260dfd/notifier"
	"github.com/seed-4b260dfd/notifier/caps"
	"github.com/seed-4b260dfd/notifier/channels"
	"github.com/seed-4b260dfd/notifier/claims"
	"github.com/seed-4b260dfd/notifier/delivery"
)

// held is a store or a channel that stops at a point until it is let go.
type held struct {
	once    sync.Once
	reached chan struct{}
	let     chan struct{}
}

func newHeld() *held { return &held{reached: make(chan struct{}), let: make(chan struct{})} }

// stop holds up the first that comes.
func (h *held) stop() {
	h.once.Do(func() {
		close(h.reached)
		<-h.let
	})
}

type heldClaims struct {
	*claims.Memory
	held *held
}

func (h *heldClaims) Acquire(ctx context.Context, c claims.Claim, ttl time.Duration) (claims.Answer, error) {
	a, err := h.Memory.Acquire(ctx, c, ttl)
	h.held.stop()
	return a, err
}

// heldChannel stops before the gate: the connection takes its time.
type heldChannel struct {
	channels.Channel
	held *held
}

func (h *heldChannel) Send(ctx context.Context, c *channels.Call) channels.Result {
	h.held.stop()
	return h.Channel.Send(ctx, c)
}

// A pause that comes while an attempt is on its way stops it short of the
// permit, of the call, or at the gate, and gives claim and cap unit back.
func TestPause_ComesWhileAnAttemptIsOnItsWay(t *testing.T) {
	t.Parallel()
	const capped = "caps: [{name: one, per: [recipient], limit: 1, window: 1h}]\n"
	for name, atGate := range map[string]bool{"after the claim": false, "at the gate": true} {
		for _, typ := range []string{"nudge", "alert"} {
			t.Run(typ+" "+name, func(t *testing.T) {
				t.Parallel()
				h := newHeld()
				counted := &countedCaps{Memory: caps.NewMemory(), spends: map[string]int{}}
				w := newWorld(t, withPolicy(typ, defaultPolicies[typ]+capped), func(c *delivery.Config, _ map[string]string) {
					c.Caps = counted
					if !atGate {
						c.Claims = &heldClaims{claims.NewMemory(), h}
						return
					}
					shop := c.Accounts[notifier.ChannelAPNs]["shop"]
					shop.Channel = &heldChannel{shop.Channel, h}
					c.Accounts[notifier.ChannelAPNs]["shop"] = shop
				})
				var permits atomic.Int64
				w.ledger.set(func() error { permits.Add(1); return nil }, nil)
				id := w.accept(request(typ, "k")).ID
				<-h.reached
				p := w.pause(notifier.Pause{Type: typ})
				close(h.let)
				w.putAway(id)
				if got := w.provider.requests(); got != 0 {
					t.Errorf("got %d requests after the pause, want none", got)
				}
				if n := permits.Load(); n > 0 && !atGate {
					t.Errorf("%d permits were asked for after the pause, want none", n)
				}
				if d := w.shown(id); d.PossibleEffects != 0 || len(d.Attempts) > 0 && !atGate {
					t.Errorf("got %d possible effects and the attempts %+v, want none", d.PossibleEffects, d.Attempts)
				}
				w.resume(p.ID)
				if d := w.settled(id); d.State != notifier.StateSent || d.PossibleEffects != 1 {
					t.Errorf("got %s %s with %d possible effects, want sent with 1", d.State, d.Reason, d.PossibleEffects)
				}
				// The cap of one was spent once in the end: the next is denied.
				if d := w.settled(w.accept(request(typ, "next")).ID); d.Reason != notifier.ReasonCapped {
					t.Errorf("the next ended %s %s, want capped", d.State, d.Reason)
				}
			})
		}
	}
}

// What waits for a pause spends nothing of a cap.
func TestPause_SpendsNoCap(t *testing.T) {
	t.Parallel()
	counted := &countedCaps{Memory: caps.NewMemory(), spends: map[string]int{}}
	w := newWorld(t, withPolicy("alert", defaultPolicies["alert"]+"caps: [{name: one, per: [recipient], limit: 1, window: 1h}]\n"),
		func(c *delivery.Config, _ map[string]string) { c.Caps = counted })
	w.pause(notifier.Pause{Type: "alert"})
	id := w.accept(request("alert", "k")).ID
	w.putAway(id)
	counted.mu.Lock()
	defer counted.mu.Unlock()
	if len(counted.spends) != 0 {
		t.Errorf("spent %v, want nothing", counted.spends)
	}
}

// lateReturns holds up the first hand-back as paused.
type lateReturns struct {
	*faultyLedger
	held *held
}

func (l *lateReturns) Return(ctx context.Context, o notifier.Owner, back []notifier.Return) ([]notifier.Settled, error) {
	if back[0].Reason == notifier.ReasonPaused {
		l.held.stop()
	}
	return l.faultyLedger.Return(ctx, o, back)
}

// A worker that hands back a paused delivery after the sweep has released the
// others strands nothing.
func TestPause_HandedBackAfterItsEnd(t *testing.T) {
	t.Parallel()
	h := newHeld()
	w := newWorld(t, func(c *delivery.Config, _ map[string]string) {
		c.Ledger = &lateReturns{c.Ledger.(*faultyLedger), h}
	})
	p := w.pause(notifier.Pause{Type: "nudge"})
	id := w.accept(request("nudge", "k")).ID
	<-h.reached
	w.resume(p.ID)
	swept, err := w.ledger.Sweep(t.Context(), 100, false) // releases nothing: it is leased
	if err != nil || len(swept) != 0 {
		t.Fatalf("got %+v, %v; want nothing swept", swept, err)
	}
	close(h.let)
	w.putAway(id)
	if d := w.settled(id); d.State != notifier.StateSent {
		t.Errorf("got %s, want sent", d.State)
	}
}
