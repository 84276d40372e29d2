package ledgertest

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/seed-4b260dfd/notifier"
)

const (
	tenant = "shop"
	// me and you are two processes.
	me  = notifier.Owner("me")
	you = notifier.Owner("you")

	claimFirst = notifier.OrderClaimFirst
	sendFirst  = notifier.OrderSendFirst

	leaseFor  = time.Minute
	permitFor = 10 * time.Second
	expiry    = time.Hour
	keepFor   = 24 * time.Hour
	// maxAttempts and maxUnknown are small, so that rows reach them.
	maxAttempts = 3
	maxUnknown  = 2
)

var lane = notifier.Lane{Channel: notifier.ChannelAPNs, Account: "shop", Priority: notifier.PriorityNormal}

// world is one ledger and its clock.
type world struct {
	*testing.T
	ctx   context.Context
	l     Ledger
	clock *Clock
}

func newWorld(t *testing.T, open Open) *world {
	c := NewClock()
	return &world{T: t, ctx: t.Context(), l: open(t, c.Now), clock: c}
}

// pass lets time pass.
func (w *world) pass(d time.Duration) { w.clock.Add(d) }

// intent is a complete intent with n deliveries in one lane.
func (w *world) intent(key string, order notifier.Order, n int) notifier.Intent {
	in := notifier.Intent{
		Tenant: tenant, Key: key, Type: "order_shipped", Recipient: "u_42", Order: order, PolicyVersion: "sha256:1",
		Fingerprint: [32]byte{1, 2, 3}, Parts: map[string]string{"type": "aa", "to": "bb"},
		ExpiresAt: w.clock.Now().Add(expiry), KeepFor: keepFor,
	}
	for i := range n {
		address := "token-of-" + key + "-" + string(rune('a'+i))
		in.Deliveries = append(in.Deliveries, notifier.Delivery{
			Lane: lane, Address: notifier.Address{Value: address, Name: "Ann", Keys: notifier.PushKeys{P256dh: "BCV…", Auth: "BTB…"}, RegisteredAt: time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)},
			Content: json.RawMessage(`{"title":"Your order left"}`), CollapseID: "order-42",
			EffectKey: notifier.EffectKey(tenant, key, lane.Channel, address),
			Terms: notifier.Terms{
				Lease: leaseFor, SendTimeout: 20 * time.Second, Unknown: notifier.UnknownResend, Tombstone: 15 * time.Minute,
				RedisDown: notifier.RedisDownProceed,
				Retry:     notifier.Retry{Initial: time.Second, Factor: 2, Max: time.Minute, MaxAttempts: maxAttempts, MaxUnknown: maxUnknown},
				Caps:      []notifier.Cap{{Name: "per-order", Key: "scope", Limit: 3, Window: time.Hour, Then: notifier.CapSuppress}},
			},
		})
	}
	return in
}

func (w *world) accept(intents ...notifier.Intent) []notifier.Stored {
	w.Helper()
	got, err := w.l.Accept(w.ctx, intents)
	if err != nil {
		w.Fatalf("accept: %v", err)
	}
	if len(got) != len(intents) {
		w.Fatalf("accept: got %d answers to %d intents", len(got), len(intents))
	}
	return got
}

// pending accepts one delivery that waits.
func (w *world) pending(order notifier.Order) notifier.DeliveryID {
	w.Helper()
	return notifier.DeliveryID{Notification: w.accept(w.intent("k", order, 1))[0].ID}
}

func (w *world) lease(limit int, owner notifier.Owner) []notifier.Leased {
	w.Helper()
	got, err := w.l.Lease(w.ctx, lane, limit, owner)
	if err != nil {
		w.Fatalf("lease: %v", err)
	}
	return got
}

// again leases the one delivery that is due.
func (w *world) again(owner notifier.Owner) notifier.Leased {
	w.Helper()
	got := w.lease(10, owner)
	if len(got) != 1 {
		w.Fatalf("lease: got %d deliveries, want 1", len(got))
	}
	return got[0]
}

// hold is again, for a row that needs the lease's name alone.
func (w *world) hold(owner notifier.Owner) notifier.Hold {
	w.Helper()
	l := w.again(owner)
	return l.Hold()
}

// leased accepts one delivery and leases it to me.
func (w *world) leased(order notifier.Order) notifier.Leased {
	w.Helper()
	w.pending(order)
	return w.again(me)
}

func (w *world) permit(owner notifier.Owner, h notifier.Hold) bool {
	w.Helper()
	got, err := w.l.Permit(w.ctx, owner, []notifier.Permit{{Hold: h, For: permitFor}})
	if err != nil {
		w.Fatalf("permit: %v", err)
	}
	return got[0]
}

// permitted accepts one claim-first delivery and gets me the permit to call.
func (w *world) permitted() notifier.Leased {
	w.Helper()
	l := w.leased(claimFirst)
	if !w.permit(me, l.Hold()) {
		w.Fatal("the permit was refused")
	}
	return l
}

func (w *world) renew(owner notifier.Owner, h notifier.Hold) bool {
	w.Helper()
	got, err := w.l.Renew(w.ctx, owner, []notifier.Hold{h})
	if err != nil {
		w.Fatalf("renew: %v", err)
	}
	return got[0]
}

// sent is the completion of a call that the provider took.
func (w *world) sent(h notifier.Hold) notifier.Completion {
	return notifier.Completion{Hold: h, State: notifier.StateSent, Called: true, Attempt: notifier.Attempt{
		StartedAt: w.clock.Now(), Outcome: notifier.OutcomeSent, ProviderStatus: "200", ProviderID: "p-1",
	}}
}

func (w *world) complete(owner notifier.Owner, c notifier.Completion) notifier.Settled {
	w.Helper()
	got, err := w.l.Complete(w.ctx, owner, []notifier.Completion{c})
	if err != nil {
		w.Fatalf("complete: %v", err)
	}
	return got[0]
}

func (w *world) giveBack(owner notifier.Owner, b notifier.Return) notifier.Settled {
	w.Helper()
	got, err := w.l.Return(w.ctx, owner, []notifier.Return{b})
	if err != nil {
		w.Fatalf("return: %v", err)
	}
	return got[0]
}

func (w *world) sweep(all bool) []notifier.Swept {
	w.Helper()
	got, err := w.l.Sweep(w.ctx, 100, all)
	if err != nil {
		w.Fatalf("sweep: %v", err)
	}
	return got
}

func (w *world) expire() []notifier.Swept {
	w.Helper()
	got, err := w.l.Expire(w.ctx, 100)
	if err != nil {
		w.Fatalf("expire: %v", err)
	}
	return got
}

func (w *world) cancel(ids ...notifier.DeliveryID) []notifier.Cancelled {
	w.Helper()
	got, err := w.l.Cancel(w.ctx, tenant, ids, notifier.ReasonCaller)
	if err != nil {
		w.Fatalf("cancel: %v", err)
	}
	return got
}

func (w *world) witness(owner notifier.Owner, e notifier.Evidence) {
	w.Helper()
	if err := w.l.Witness(w.ctx, owner, []notifier.Evidence{e}); err != nil {
		w.Fatalf("witness: %v", err)
	}
}

func (w *world) spent(since time.Time) []notifier.Spent {
	w.Helper()
	var got []notifier.Spent
	err := w.l.Spent(w.ctx, since, func(s notifier.Spent) error {
		got = append(got, s)
		return nil
	})
	if err != nil {
		w.Fatalf("spent: %v", err)
	}
	return got
}

func (w *world) read(id notifier.ID) *notifier.Notification {
	w.Helper()
	n, err := w.l.Notification(w.ctx, tenant, id)
	if err != nil {
		w.Fatalf("read: %v", err)
	}
	return n
}

// state reads one delivery.
func (w *world) state(id notifier.DeliveryID) notifier.DeliveryState {
	w.Helper()
	return w.read(id.Notification).Deliveries[id.Ordinal]
}

// wantState checks where a delivery stands and how often it may have arrived.
func (w *world) wantState(id notifier.DeliveryID, state notifier.State, reason notifier.Reason, effects int) {
	w.Helper()
	d := w.state(id)
	if d.State != state || d.Reason != reason || d.PossibleEffects != effects {
		w.Errorf("got %q %q with %d possible effects, want %q %q with %d", d.State, d.Reason, d.PossibleEffects, state, reason, effects)
	}
}

func (w *world) wantNone(what string, got []notifier.Leased) {
	w.Helper()
	if len(got) != 0 {
		w.Errorf("leased %d %s, want none", len(got), what)
	}
}

func diff[T any](w *world, what string, got, want T) {
	w.Helper()
	addresses := cmp.Comparer(func(a, b notifier.Address) bool {
		return a.Value == b.Value && a.Account == b.Account && a.Name == b.Name && a.Secret == b.Secret && a.Keys == b.Keys && a.RegisteredAt.Equal(b.RegisteredAt)
	})
	if d := cmp.Diff(want, got, addresses, cmpopts.EquateEmpty()); d != "" {
		w.Errorf("%s (-want +got):\n%s", what, d)
	}
}

func notFound(err error) bool {
	var e *notifier.Error
	return errors.As(err, &e) && e.Code == notifier.CodeNotFound
}
