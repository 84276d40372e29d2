package channelstest

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-4b260dfd/notifier"
	"github.com/seed-4b260dfd/notifier/channels"
)

var errTooLate = errors.New("the lease has ended")

func refuse() error { return errTooLate }

// refusedAlone: a request that the gate refuses is not received, and the next
// one under the same sender is.
func (s *Subject) refusedAlone(t *testing.T) {
	for _, warm := range []bool{false, true} {
		b := s.bench(t)
		if warm {
			b.mustSend(b.delivery(0), 1)
		}
		d := b.delivery(1)
		got := b.attempt(d, 1, 0, refuse)
		if got.Outcome != notifier.OutcomeNotSent || got.Reason != notifier.ReasonGate {
			t.Errorf("warm %v: got %+v, want not_sent, gate", warm, got)
		}
		b.mustSend(d, 2)
		if r := b.received(d, 1); len(r) != 0 {
			t.Errorf("warm %v: the provider received what the gate refused: %+v", warm, r)
		}
	}
}

// refusedInACrowd: of many calls at once every second is refused, and each of
// the others arrives, once.
func (s *Subject) refusedInACrowd(t *testing.T) {
	n := s.Crowd
	if n == 0 {
		n = 40
	}
	b := s.bench(t)
	b.mustSend(b.delivery(n), 1)
	results := make([]channels.Result, n)
	each(n, func(i int) {
		var look func() error
		if i%2 == 1 {
			look = refuse
		}
		results[i] = b.attempt(b.delivery(i), 1, 0, look)
	})
	count := map[notifier.Outcome]int{}
	for i, r := range results {
		count[r.Outcome]++
		refused := i%2 == 1
		if refused && (r.Outcome != notifier.OutcomeNotSent || r.Reason != notifier.ReasonGate) {
			t.Errorf("call %d: got %+v, want not_sent, gate", i, r)
		}
		if !refused && r.Outcome != notifier.OutcomeSent {
			t.Errorf("call %d: got %+v, want sent", i, r)
		}
	}
	seen := map[string]int{}
	for _, e := range b.server.Effects() {
		seen[e.Address]++
	}
	for i := range n {
		want := 1 - i%2
		if got := seen[b.subject.Address(b.server, i).Value]; got != want {
			t.Errorf("call %d: the provider received %d requests, want %d", i, got, want)
		}
	}
	if diff := cmp.Diff(map[notifier.Outcome]int{notifier.OutcomeSent: (n + 1) / 2, notifier.OutcomeNotSent: n / 2}, count); diff != "" {
		t.Errorf("outcomes (-want +got):\n%s", diff)
	}
}

// looksOnce: the last look is taken once in an attempt.
func (s *Subject) looksOnce(t *testing.T) {
	b := s.bench(t)
	var looks atomic.Int32
	got := b.attempt(b.delivery(1), 1, 0, func() error { looks.Add(1); return nil })
	if got.Outcome != notifier.OutcomeSent || looks.Load() != 1 {
		t.Errorf("got %+v after %d looks, want sent after 1", got, looks.Load())
	}
}

// endedBefore: with a context that has ended nothing is sent.
func (s *Subject) endedBefore(t *testing.T) {
	b := s.bench(t)
	d := b.delivery(1)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	got := b.sender.Send(ctx, &channels.Call{Delivery: d, Fence: 1, Guard: &channels.Guard{}})
	if got.Outcome != notifier.OutcomeNotSent {
		t.Errorf("got %+v, want not_sent", got)
	}
	b.mustSend(d, 2)
	if r := b.received(d, 1); len(r) != 0 {
		t.Errorf("the provider received a request whose context had ended: %+v", r)
	}
}

// unreachable: a provider that cannot be connected to has received nothing.
func (s *Subject) unreachable(t *testing.T) {
	b := s.bench(t)
	d := b.delivery(1)
	if err := b.server.Close(); err != nil {
		t.Fatalf("close the provider: %v", err)
	}
	got := b.attempt(d, 1, 0, nil)
	if got.Outcome != notifier.OutcomeNotSent || got.Reason != notifier.ReasonUnreachable {
		t.Errorf("got %+v, want not_sent, unreachable", got)
	}
	if got.ProviderStatus == "" {
		t.Error("the result does not say what went wrong")
	}
}

// sameContent: what is stored at acceptance follows from the fields alone.
func (s *Subject) sameContent(t *testing.T) {
	first, err := s.Kind.Prepare(s.Fields)
	if err != nil {
		t.Fatalf("prepare: %v", err)
	}
	for range 10 {
		again, err := s.Kind.Prepare(s.Fields)
		if err != nil {
			t.Fatalf("prepare again: %v", err)
		}
		if diff := cmp.Diff(string(first), string(again)); diff != "" {
			t.Fatalf("the same fields gave other content (-first +again):\n%s", diff)
		}
	}
}
