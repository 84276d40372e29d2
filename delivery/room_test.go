package delivery_test

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/seed-4b260dfd/notifier"
	"github.com/seed-4b260dfd/notifier/channels"
	"github.com/seed-4b260dfd/notifier/delivery"
)

// slowToConnect is a channel whose calls wait for a connection before their
// gate, and for an answer after it.
type slowToConnect struct {
	connected, answered chan struct{}
	// ahead counts the calls before their gate, most their largest number.
	ahead, most, onWire atomic.Int64
}

func (s *slowToConnect) Send(_ context.Context, c *channels.Call) channels.Result {
	n := s.ahead.Add(1)
	for most := s.most.Load(); n > most && !s.most.CompareAndSwap(most, n); most = s.most.Load() {
	}
	<-s.connected
	s.ahead.Add(-1)
	if err := c.Guard.Pass(); err != nil {
		return channels.Result{Outcome: notifier.OutcomeNotSent, Reason: notifier.ReasonGate}
	}
	s.onWire.Add(1)
	<-s.answered
	return channels.Result{Outcome: notifier.OutcomeSent}
}

func (*slowToConnect) Close() error { return nil }

// What a crash makes unknown without having been sent is bounded, though a
// hundred calls may be on the wire.
func TestClaimFirst_PermitsAheadOfTheirCalls(t *testing.T) {
	t.Parallel()
	const batch, messages = 32, 70
	slow := &slowToConnect{connected: make(chan struct{}), answered: make(chan struct{})}
	w := newWorld(t, func(c *delivery.Config, _ map[string]string) {
		c.Accounts[notifier.ChannelAPNs]["shop"] = delivery.Account{Channel: slow}
	})
	ids := make([]notifier.ID, messages)
	for i := range ids {
		ids[i] = w.accept(request("nudge", key(i))).ID
	}
	until(t, "one batch has its permits", func() bool { return slow.ahead.Load() == batch })
	close(slow.connected)
	until(t, "all are on the wire at once", func() bool { return slow.onWire.Load() == messages })
	close(slow.answered)
	for _, id := range ids {
		if d := w.settled(id); d.State != notifier.StateSent {
			t.Errorf("%s ended %s %s", d.ID, d.State, d.Reason)
		}
	}
	if most := slow.most.Load(); most > batch {
		t.Errorf("%d calls were permitted and had not passed their gate, want at most %d", most, batch)
	}
}
