package main

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/seed-4b260dfd/notifier"
	"github.com/seed-4b260dfd/notifier/channels/simulate"
)

// stalls is how many times a process is stopped for longer than its lease, and
// lateSends the share of them, in percent, that may have a send-first message
// leave after its lease: a stop lands between the last look and the write.
const (
	stalls    = 200
	lateSends = 2
	// fewStalls is how many there are where chaos is not what is asked for.
	fewStalls = 48
)

// Processes that are stopped anywhere on a message's path, for longer than its
// lease, and go on later as if nothing had been.
func TestStalls(t *testing.T) {
	t.Parallel()
	stalls := stalls
	if !measured {
		stalls = fewStalls
	}
	bin := buildBinary(t, "faultpoint")
	sim := startProviders(t)
	var mu sync.Mutex
	var all []notifier.Notification
	counted := 0.0
	t.Run("arena", func(t *testing.T) {
		for n := range arenas {
			t.Run(strconv.Itoa(n), func(t *testing.T) {
				t.Parallel()
				a := newArena(t, bin, sim, false)
				var ids []string
				for i := range stalls / arenas {
					ids = append(ids, a.stall(n*1000+i)...)
				}
				a.atRest()
				notes := a.notes(ids)
				a.sound()
				mu.Lock()
				defer mu.Unlock()
				all = append(all, notes...)
				for _, s := range a.nodes {
					counted += s.metric("notifier_late_outcomes_total")
				}
			})
		}
	})
	entries := sim.Effects()
	for _, b := range checkLog(entries, all) {
		t.Error(b)
	}
	late, evidence, lapsed := 0, 0, 0
	for i := range all {
		d := &all[i].Deliveries[0]
		for j := range d.Attempts {
			a := &d.Attempts[j]
			switch {
			case a.Late:
				evidence++
			case a.Reason == notifier.ReasonLeaseLapsed || a.Reason == notifier.ReasonWorkerLost:
				lapsed++
				if sent := sentUnder(entries, d.ID.String(), a.Fence); all[i].Order == notifier.OrderSendFirst && sent != nil && sent.Time.After(*a.FinishedAt) {
					late++
				}
			}
		}
	}
	t.Logf("%d stalls: %d leases and permits lapsed, %d send-first messages left late, %d late answers kept", stalls, lapsed, late, evidence)
	if lapsed < stalls/10 {
		t.Errorf("%d leases lapsed: the stops hardly met a message", lapsed)
	}
	if late*100 > max(lateSends*stalls, 100) { // one is chance
		t.Errorf("%d of %d stalls had a message leave after its lease, want at most %d %%", late, stalls, lateSends)
	}
	if int(counted) != evidence {
		t.Errorf("the nodes counted %v late answers, the ledger keeps %d", counted, evidence)
	}
}

// stall sends a message of each order to one node, stops the node within the
// time that their path takes, and lets it go on after a lease and more.
func (a *arena) stall(n int) []string {
	a.t.Helper()
	s := a.nodes[n%len(a.nodes)]
	ids := make([]string, 2)
	var all sync.WaitGroup
	for i, order := range []notifier.Order{notifier.OrderClaimFirst, notifier.OrderSendFirst} {
		all.Go(func() {
			m := message{Key: fmt.Sprintf("%s-%d", order, n), Type: string(order), Recipient: fmt.Sprintf("u_%d", n),
				To: to(a.sim, "apns", 2*n+i), Data: map[string]string{"text": "hello"}}
			id, err := a.say(m, n)
			if err != nil {
				a.t.Error(err)
			}
			ids[i] = id
		})
	}
	// From the request to the outcome it takes some milliseconds.
	<-time.After(time.Duration(rand.Int64N(int64(12 * time.Millisecond))))
	if err := s.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		a.t.Fatal(err)
	}
	<-time.After(1100*time.Millisecond + time.Duration(rand.Int64N(int64(time.Second))))
	if err := s.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		a.t.Fatal(err)
	}
	all.Wait()
	return ids
}

// sentUnder is the provider's request of a delivery under a fence, or nil.
func sentUnder(entries []simulate.Entry, delivery string, fence int64) *simulate.Entry {
	for i := range entries {
		if e := &entries[i]; e.Delivery == delivery && e.Fence == fence && e.MayTakeEffect {
			return e
		}
	}
	return nil
}

// metric sums a metric of a node over all its labels.
func (s *server) metric(name string) float64 { return s.metricWith(name, "") }

// metricWith sums it over the labels in which a text stands.
func (s *server) metricWith(name, label string) (sum float64) {
	s.t.Helper()
	res, err := caller.Get(s.url() + "/metrics")
	if err != nil {
		s.t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK {
		s.t.Fatalf("metrics: %s, %v", res.Status, err)
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, name); ok && (rest[0] == '{' || rest[0] == ' ') && strings.Contains(rest, label) {
			v, err := strconv.ParseFloat(strings.TrimSpace(rest[strings.LastIndexByte(rest, ' ')+1:]), 64)
			if err != nil {
				s.t.Fatal(err)
			}
			sum += v
		}
	}
	return sum
}
