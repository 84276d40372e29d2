package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-4b260dfd/notifier"
	"github.com/seed-4b260dfd/notifier/channels/simulate"
)

// What a kill costs claim-first is bounded: the permits of one micro-batch and
// the calls on the wire, however much is in flight. Here a hundred messages
// come at once, and the process dies with a permit in its hand.
func TestCrash_PermitsOpenAtTheKill(t *testing.T) {
	t.Parallel()
	// permitBatch is the engine's. inTheProcess is for calls that had passed
	// their gate and whose bytes had not left: no provider can tell them from
	// those that had not.
	const messages, permitBatch, inTheProcess = 100, 32, 8
	bin := buildBinary(t, "faultpoint")
	sim := startProviders(t)
	sim.SetFaults([]simulate.Fault{{Channel: "apns", Kind: simulate.FaultDelay, Delay: 50 * time.Millisecond}})
	dir := installation(t, sim, 0, map[string]string{"note": quickPolicy(notifier.OrderClaimFirst, 0)})
	s := newServer(t, bin, dir, "NOTIFIER_FAULT=permit.after", "NOTIFIER_FAULT_KEY=key-40", "NOTIFIER_FAULT_ONCE="+filepath.Join(dir, "struck"))
	s.start()
	ids := sendAtOnce(s, sim, messages)
	permitted := map[string]bool{}
	s.awaitDeath()
	for _, l := range openLeases(t, s.ledger()) {
		if l.permitted {
			permitted[l.id] = true
		}
	}
	s.start()
	notes := s.settled(ids())
	entries := sim.Effects()
	s.checkPromise(entries, notes)
	unknown, called := map[string]bool{}, 0
	for _, d := range deliveriesOf(notes, "note") {
		if d.State == notifier.StateUnknown {
			unknown[d.ID.String()] = true
		}
	}
	for _, e := range entries {
		if permitted[e.Delivery] {
			called++
		}
	}
	if diff := cmp.Diff(permitted, unknown); diff != "" {
		t.Errorf("not the deliveries whose permit the kill met are unknown (-permit +unknown):\n%s", diff)
	}
	if lost := len(permitted) - called; lost < 1 || lost > permitBatch+inTheProcess {
		t.Errorf("%d permits were open and not called, want 1 to %d", lost, permitBatch+inTheProcess)
	}
	t.Logf("%d permits open at the kill, %d of them called; %d of %d messages sent", len(permitted), called, messages-len(unknown), messages)
}

// sendAtOnce starts as many senders. The function that it returns waits until
// each has been answered, whatever befalls the server, and returns the ids.
func sendAtOnce(s *server, sim *simulate.Server, messages int) func() []string {
	ids, errs := make([]string, messages), make([]error, messages)
	var senders sync.WaitGroup
	for i := range messages {
		m := message{Key: fmt.Sprintf("key-%d", i), Type: "note", Recipient: fmt.Sprintf("u_%d", i),
			To: to(sim, "apns", i), Data: map[string]string{"text": "hello"}}
		senders.Go(func() { ids[i], errs[i] = s.send(m) })
	}
	return func() []string {
		s.t.Helper()
		senders.Wait()
		if err := errors.Join(errs...); err != nil {
			s.t.Fatal(err)
		}
		return ids
	}
}
