// Package channelstest is the suite that every channel passes: what providers
// and networks do to a request, on a fresh connection and on one that is kept
// alive, and what may come of it.
//
// It counts requests in the provider's log, not in the channel. A channel
// brings its faults and the outcome that its table has for each; what holds
// for all of them is here.
package channelstest

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-4b260dfd/notifier"
	"github.com/seed-4b260dfd/notifier/channels"
	"github.com/seed-4b260dfd/notifier/channels/simulate"
)

// Subject is a channel under test.
type Subject struct {
	Kind channels.Kind
	// Open returns a sender to a simulated provider, with connections of its own.
	Open func(t *testing.T, s *simulate.Server) channels.Channel
	// Address returns the n-th of the addresses that the provider takes.
	Address func(s *simulate.Server, n int) notifier.Address
	// Fields are a message as its template renders it.
	Fields map[string]any
	// Crowd is how many calls are made at once to show that a refused one
	// hurts no neighbour; zero means 40.
	Crowd int
	Cases []Case
}

// Case is one fault and what it must come to.
type Case struct {
	Name string
	// Fault strikes the first request that reaches the provider, once: a
	// request that is sent again behind our back succeeds, and is seen.
	Fault simulate.Fault
	// Want is the result, without ProviderStatus and ProviderID unless they
	// are set here. A RetryAfter may be short by a sixtieth: a date comes nearer.
	Want channels.Result
	// Also is a second result that is as good, where it depends on which of
	// two things the network did first.
	Also *channels.Result
	// Received is how many requests the provider has received whole: one, or
	// none when the connection broke before.
	Received int
	// Fresh leaves out the kept-alive connection: the fault strikes while one is made.
	Fresh bool
	// Timeout is the attempt's deadline; zero means that it should not matter.
	Timeout time.Duration
	// After runs on the result, for what Want cannot say.
	After func(t *testing.T, r channels.Result)
}

// ample is a deadline that no attempt of these tests meets.
const ample = 30 * time.Second

// Run holds the subject to the suite.
func Run(t *testing.T, s Subject) {
	t.Helper()
	for _, c := range s.Cases {
		t.Run("fresh/"+c.Name, func(t *testing.T) {
			t.Parallel()
			s.strike(t, c, false)
		})
		if c.Fresh {
			continue
		}
		t.Run("warm/"+c.Name, func(t *testing.T) {
			t.Parallel()
			s.strike(t, c, true)
		})
	}
	t.Run("gate/refuses_alone", func(t *testing.T) { t.Parallel(); s.refusedAlone(t) })
	t.Run("gate/hurts_no_neighbour", func(t *testing.T) { t.Parallel(); s.refusedInACrowd(t) })
	t.Run("gate/looks_once", func(t *testing.T) { t.Parallel(); s.looksOnce(t) })
	t.Run("context/ended_before", func(t *testing.T) { t.Parallel(); s.endedBefore(t) })
	t.Run("provider/unreachable", func(t *testing.T) { t.Parallel(); s.unreachable(t) })
	t.Run("content/same_bytes", func(t *testing.T) { t.Parallel(); s.sameContent(t) })
}

// bench is a provider of its own and a sender to it.
type bench struct {
	t       *testing.T
	subject *Subject
	server  *simulate.Server
	sender  channels.Channel
	content notifier.Content
}

func (s *Subject) bench(t *testing.T) *bench {
	t.Helper()
	server, err := simulate.Start(simulate.Config{Dir: t.TempDir()})
	if err != nil {
		t.Fatalf("start the provider: %v", err)
	}
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Errorf("close the provider: %v", err)
		}
	})
	content, err := s.Kind.Prepare(s.Fields)
	if err != nil {
		t.Fatalf("prepare %v: %v", s.Fields, err)
	}
	sender := s.Open(t, server)
	t.Cleanup(func() {
		if err := sender.Close(); err != nil {
			t.Errorf("close the sender: %v", err)
		}
	})
	return &bench{t: t, subject: s, server: server, sender: sender, content: content}
}

// delivery returns the n-th delivery of a bench; the same one each time but
// for the time of acceptance.
func (b *bench) delivery(n int) *notifier.Delivery {
	b.t.Helper()
	address := b.subject.Address(b.server, n)
	if err := b.subject.Kind.CheckAddress(address); err != nil {
		b.t.Fatalf("address %d: %v", n, err)
	}
	channel := b.subject.Kind.Channel()
	key := fmt.Sprintf("order-%d", n)
	now := time.Now()
	return &notifier.Delivery{
		ID:         notifier.DeliveryID{Notification: notifier.NewID(now, uint16(n), [8]byte{byte(n >> 8), byte(n)}), Ordinal: 1},
		Tenant:     "default",
		Key:        key,
		Type:       "order_shipped",
		Recipient:  "u_1",
		Order:      notifier.OrderSendFirst,
		Lane:       notifier.Lane{Channel: channel, Account: "main", Priority: notifier.PriorityNormal},
		Address:    address,
		Content:    b.content,
		CollapseID: key,
		EffectKey:  notifier.EffectKey("default", key, channel, address.Value),
		AcceptedAt: now,
		SendAt:     now,
		ExpiresAt:  now.Add(time.Hour),
	}
}

// attempt makes one attempt, and checks what holds for every one.
func (b *bench) attempt(d *notifier.Delivery, fence int64, timeout time.Duration, look func() error) channels.Result {
	b.t.Helper()
	if timeout == 0 {
		timeout = ample
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	g := &channels.Guard{Look: look}
	r := b.sender.Send(ctx, &channels.Call{Delivery: d, Fence: fence, Guard: g})
	if g.HiddenResend() {
		b.t.Errorf("fence %d: something tried to send a second time", fence)
	}
	return r
}

// received returns the provider's log lines for one attempt.
func (b *bench) received(d *notifier.Delivery, fence int64) []simulate.Entry {
	var found []simulate.Entry
	for _, e := range b.server.Effects() {
		if e.Delivery == d.ID.String() && e.Fence == fence {
			found = append(found, e)
		}
	}
	return found
}

// strike makes an attempt that meets the fault and one that does not.
func (s *Subject) strike(t *testing.T, c Case, warm bool) {
	b := s.bench(t)
	if warm {
		b.mustSend(b.delivery(0), 1)
	}
	f := c.Fault
	f.Channel, f.Times = string(s.Kind.Channel()), 1
	b.server.SetFaults([]simulate.Fault{f})
	d := b.delivery(1)
	got := b.attempt(d, 1, c.Timeout, nil)
	first := b.received(d, 1)
	b.check(c, got, first)

	b.server.SetFaults(nil)
	b.mustSend(d, 2)
	second := b.received(d, 2)
	if again := b.received(d, 1); len(again) != len(first) {
		t.Errorf("the first attempt had %d requests when it ended and has %d now", len(first), len(again))
	}
	if len(first) != 1 || len(second) != 1 {
		return // check has said what is wrong, or nothing arrived
	}
	type ids struct{ EffectKey, CollapseID, BodyHash string }
	if diff := cmp.Diff(ids{first[0].EffectKey, first[0].CollapseID, first[0].BodyHash},
		ids{second[0].EffectKey, second[0].CollapseID, second[0].BodyHash}); diff != "" {
		t.Errorf("the second attempt differs from the first (-first +second):\n%s", diff)
	}
}

// check compares an attempt's result with the case, and with what the provider saw.
func (b *bench) check(c Case, got channels.Result, received []simulate.Entry) {
	b.t.Helper()
	want := c.Want
	if c.Also != nil && got.Outcome == c.Also.Outcome {
		want = *c.Also
	}
	if want.ProviderStatus == "" {
		want.ProviderStatus = got.ProviderStatus
	}
	if want.ProviderID == "" {
		want.ProviderID = got.ProviderID
	}
	if late := want.RetryAfter - got.RetryAfter; late > 0 && late <= want.RetryAfter/60 {
		want.RetryAfter = got.RetryAfter
	}
	if want.InvalidSince.IsZero() {
		want.InvalidSince = got.InvalidSince
	}
	if diff := cmp.Diff(want, got); diff != "" {
		b.t.Errorf("result (-want +got):\n%s", diff)
	}
	if len(received) != c.Received {
		b.t.Errorf("the provider received %d requests, want %d: %+v", len(received), c.Received, received)
	}
	b.believable(got, received)
	if c.After != nil {
		c.After(b.t, got)
	}
}

// believable checks that an outcome does not contradict the provider's log.
func (b *bench) believable(got channels.Result, received []simulate.Entry) {
	b.t.Helper()
	effects, maybe := 0, 0
	for _, e := range received {
		if e.TookEffect {
			effects++
		}
		if e.MayTakeEffect {
			maybe++
		}
	}
	switch got.Outcome {
	case notifier.OutcomeUnknown:
	case notifier.OutcomeSent:
		if effects != 1 {
			b.t.Errorf("the outcome is sent, and the provider's log has %d effects", effects)
		}
	case notifier.OutcomeRejected, notifier.OutcomeInvalidAddress:
		if effects != 0 {
			b.t.Errorf("the outcome is %v, and the provider's log has %d effects", got.Outcome, effects)
		}
	case notifier.OutcomeNotSent:
		if maybe != 0 {
			b.t.Errorf("the outcome is not_sent, and the provider's log has %d requests that may take effect", maybe)
		}
	}
}

func (b *bench) mustSend(d *notifier.Delivery, fence int64) {
	b.t.Helper()
	got := b.attempt(d, fence, 0, nil)
	if got.Outcome != notifier.OutcomeSent {
		b.t.Fatalf("fence %d: got %+v, want sent", fence, got)
	}
	if n := len(b.received(d, fence)); n != 1 {
		b.t.Fatalf("fence %d: the provider received %d requests, want 1", fence, n)
	}
}

// each runs f for 0 to n-1, all at once.
func each(n int, f func(i int)) {
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { f(i) })
	}
	wg.Wait()
}
