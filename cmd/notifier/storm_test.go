package main

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-4b260dfd/notifier"
	"github.com/seed-4b260dfd/notifier/channels/simulate"
)

// The storm: what is sent, and how often the server is killed meanwhile.
const (
	stormKills = 20
	// stormPerRound is how many notifications of each order are sent between
	// two kills: 300 in all.
	stormPerRound = 15
	// stormCappedPerRound goes to few recipients, each order to its own: 60 in
	// all, six to each of ten, of which a cap lets three through.
	stormCappedPerRound = 3
	stormCappedPeople   = 10
	stormCap            = 3
	// stormAnswerDelay is how long a provider takes to answer, so that kills
	// meet calls on the wire.
	stormAnswerDelay = 20 * time.Millisecond
	// stormInFlight is how many calls an account may have on the wire, and
	// stormOnWire how many the three may: what a kill can cost on any machine.
	// Half of it is claim-first's: should every kill meet full accounts, some
	// fifty of 300 are lost.
	stormInFlight = 2
	stormOnWire   = 3 * stormInFlight
)

// storm is one run.
type storm struct {
	t      *testing.T
	sim    *simulate.Server
	server *server
	rand   *rand.Rand // of the test's own goroutine

	senders sync.WaitGroup
	mu      sync.Mutex
	ids     []string
	errs    []error

	sent  int
	kills []stormKill
}

// stormKill is what a kill met.
type stormKill struct {
	at   time.Time
	open []openLease
}

// It runs beside no other test: how many calls a kill meets depends on how
// much of the machine the server has.
func TestStorm(t *testing.T) {
	bin := buildBinary(t, "faultpoint")
	for seed := range uint64(3) {
		t.Run(fmt.Sprintf("seed_%d", seed), func(t *testing.T) {
			t.Logf("seed %d", seed)
			s := newStorm(t, bin, seed)
			s.rage()
			notes := s.server.settled(s.ids)
			entries := s.sim.Effects()
			s.server.checkPromise(entries, notes)
			s.checkClaimFirst(notes)
			s.checkSendFirst(entries, notes)
			s.checkCaps(entries, notes)
		})
	}
}

func newStorm(t *testing.T, bin string, seed uint64) *storm {
	sim := startProviders(t)
	sim.SetFaults([]simulate.Fault{{Kind: simulate.FaultDelay, Delay: stormAnswerDelay}})
	dir := installation(t, sim, stormInFlight, map[string]string{
		"claim":        quickPolicy(notifier.OrderClaimFirst, 0),
		"send":         quickPolicy(notifier.OrderSendFirst, 0),
		"claim_capped": quickPolicy(notifier.OrderClaimFirst, stormCap),
		"send_capped":  quickPolicy(notifier.OrderSendFirst, stormCap),
	})
	return &storm{t: t, sim: sim, server: newServer(t, bin, dir), rand: rand.New(rand.NewPCG(seed, 0))}
}

// rage sends and kills, and returns when every sender has its answer.
func (s *storm) rage() {
	s.server.start()
	for round := range stormKills {
		s.sendRound(round)
		life := time.NewTimer(200*time.Millisecond + time.Duration(s.rand.Int64N(int64(200*time.Millisecond))))
		<-life.C
		s.server.kill()
		s.kills = append(s.kills, stormKill{at: time.Now(), open: openLeases(s.t, s.server.ledger())})
		s.server.start()
	}
	s.senders.Wait()
	for _, err := range s.errs {
		s.t.Error(err)
	}
	if len(s.ids) != s.sent {
		s.t.Fatalf("%d of %d were answered", len(s.ids), s.sent)
	}
}

// sendRound starts the senders of a round, each at a moment of its own.
func (s *storm) sendRound(round int) {
	channels := [...]string{"apns", "email", "webhook"}
	for _, typ := range []string{"claim", "send"} {
		for i := range stormPerRound {
			n := round*stormPerRound + i
			s.sendSoon(typ, fmt.Sprintf("u_%d", n), channels[n%len(channels)], n)
		}
		for i := range stormCappedPerRound {
			n := round*stormCappedPerRound + i
			person := n % stormCappedPeople
			// One channel each: a cap counts each channel's attempts as units of their own.
			s.sendSoon(typ+"_capped", fmt.Sprintf("%s_capped_%d", typ, person), channels[person%len(channels)], n)
		}
	}
}

// sendSoon sends one message while the server lives, or a little later: most
// kills meet calls, and some meet callers.
func (s *storm) sendSoon(typ, recipient, channel string, n int) {
	m := message{Key: fmt.Sprintf("%s-%d", typ, n), Type: typ, Recipient: recipient,
		To: to(s.sim, channel, s.sent), Data: map[string]string{"text": fmt.Sprintf("message %d", n)}}
	s.sent++
	after := time.NewTimer(time.Duration(s.rand.Int64N(int64(300 * time.Millisecond))))
	s.senders.Go(func() {
		<-after.C
		id, err := s.server.send(m)
		s.mu.Lock()
		defer s.mu.Unlock()
		if err != nil {
			s.errs = append(s.errs, err)
			return
		}
		s.ids = append(s.ids, id)
	})
}

// checkClaimFirst: what ended unknown is, to the delivery, what had its permit
// at a kill; and a kill meets no more of them than there can be calls.
func (s *storm) checkClaimFirst(notes []notifier.Notification) {
	unknown, sent := map[string]bool{}, 0
	for _, d := range deliveriesOf(notes, "claim") {
		if d.State == notifier.StateSent {
			sent++
		} else if d.State != notifier.StateUnknown {
			s.t.Errorf("claim-first %s ended %s %s", d.ID, d.State, d.Reason)
		}
	}
	for _, d := range deliveriesOf(notes, "claim", "claim_capped") {
		if d.State == notifier.StateUnknown {
			unknown[d.ID.String()] = true
		}
	}
	open := map[string]bool{}
	for i, k := range s.kills {
		permitted := 0
		for _, l := range k.open {
			if l.permitted {
				permitted++
				open[l.id] = true
			}
		}
		if permitted > stormOnWire {
			s.t.Errorf("kill %d met %d open permits, and at most %d calls could be on the wire", i, permitted, stormOnWire)
		}
	}
	if diff := cmp.Diff(open, unknown); diff != "" {
		s.t.Errorf("claim-first: not the deliveries whose permit a kill met are unknown (-permit +unknown):\n%s", diff)
	}
	if total := stormKills * stormPerRound; sent*100 < total*80 {
		s.t.Errorf("claim-first: %d of %d sent, want at least 80 %%", sent, total)
	}
	s.t.Logf("claim-first: %d sent; %d permits open at %d kills, as many unknown", sent, len(open), len(s.kills))
}

// checkSendFirst: all sent, and each request that was followed by another was
// under a lease that a kill met; and a kill makes no more repeats than there
// can be calls.
func (s *storm) checkSendFirst(entries []simulate.Entry, notes []notifier.Notification) {
	type attempt struct {
		id    string
		fence int64
	}
	killed := map[attempt]int{} // by which kill
	for i, k := range s.kills {
		for _, l := range k.open {
			killed[attempt{l.id, l.fence}] = i
		}
	}
	lines := map[string][]int64{}
	for _, e := range entries {
		lines[e.Delivery] = append(lines[e.Delivery], e.Fence)
	}
	repeats, repeatsOf := 0, make([]int, len(s.kills))
	for _, d := range deliveriesOf(notes, "send") {
		if d.State != notifier.StateSent {
			s.t.Errorf("send-first %s ended %s %s", d.ID, d.State, d.Reason)
		}
		for _, fence := range lines[d.ID.String()] {
			if fence == slices.Max(lines[d.ID.String()]) {
				continue
			}
			i, ok := killed[attempt{d.ID.String(), fence}]
			if !ok {
				s.t.Errorf("send-first %s was repeated after fence %d, which no kill met", d.ID, fence)
				continue
			}
			repeats++
			repeatsOf[i]++
		}
	}
	unanswered := 0
	for i, k := range s.kills {
		unanswered += k.unanswered(entries)
		if repeatsOf[i] > stormOnWire {
			s.t.Errorf("kill %d made %d repeats, and at most %d calls could be on the wire", i, repeatsOf[i], stormOnWire)
		}
	}
	if unanswered == 0 {
		s.t.Error("no kill met a request that its provider had not answered")
	}
	s.t.Logf("send-first: all sent, %d repeats; %d requests that the providers had not answered at %d kills", repeats, unanswered, len(s.kills))
}

// unanswered is how many requests, by their own log, the providers had taken in
// and not answered when the kill came.
func (k *stormKill) unanswered(entries []simulate.Entry) (n int) {
	for _, e := range entries {
		if !e.Time.After(k.at) && e.Time.Add(stormAnswerDelay).After(k.at) {
			n++
		}
	}
	return n
}

// checkCaps: through all kills nobody was reached more often than the cap
// allows, and it did have to hold somebody back.
func (s *storm) checkCaps(entries []simulate.Entry, notes []notifier.Notification) {
	recipient, capped, suppressed := map[string]string{}, 0, 0
	for i := range notes {
		n := &notes[i]
		if n.Type != "claim_capped" && n.Type != "send_capped" {
			continue
		}
		capped++
		for _, d := range n.Deliveries {
			recipient[d.ID.String()] = n.Recipient
			switch {
			case d.State == notifier.StateSuppressed && d.Reason == notifier.ReasonCapped:
				suppressed++
			case d.State == notifier.StateSent, n.Order == notifier.OrderClaimFirst && d.State == notifier.StateUnknown:
			default:
				s.t.Errorf("%s %s ended %s %s", n.Type, d.ID, d.State, d.Reason)
			}
		}
	}
	reached := map[string]int{}
	for _, e := range entries {
		if r := recipient[e.Delivery]; r != "" && e.MayTakeEffect {
			reached[r]++
		}
	}
	for r, n := range reached {
		if n > stormCap {
			s.t.Errorf("%s was reached %d times, the cap is %d", r, n, stormCap)
		}
	}
	if capped != 2*stormKills*stormCappedPerRound || suppressed == 0 || len(reached) != 2*stormCappedPeople {
		s.t.Errorf("%d capped notifications, %d suppressed, %d people reached: want %d, some, %d",
			capped, suppressed, len(reached), 2*stormKills*stormCappedPerRound, 2*stormCappedPeople)
	}
	s.t.Logf("caps: %d notifications to %d people, %d suppressed", capped, len(reached), suppressed)
}

// deliveriesOf is the deliveries of some types.
func deliveriesOf(notes []notifier.Notification, types ...string) []notifier.DeliveryState {
	var of []notifier.DeliveryState
	for i := range notes {
		if slices.Contains(types, notes[i].Type) {
			of = append(of, notes[i].Deliveries...)
		}
	}
	return of
}
