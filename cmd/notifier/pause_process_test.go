package main

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seed-4b260dfd/notifier"
	"github.com/seed-4b260dfd/notifier/channels/simulate"
)

// pauseLoad sends messages of several types, one after the other, until it is
// stopped.
type pauseLoad struct {
	server *server
	sim    *simulate.Server
	stop   chan struct{}
	ended  sync.WaitGroup

	mu   sync.Mutex
	ids  map[string][]string
	errs []error
}

func startPauseLoad(s *server, sim *simulate.Server, types ...string) *pauseLoad {
	l := &pauseLoad{server: s, sim: sim, stop: make(chan struct{}), ids: map[string][]string{}}
	channels := [...]string{"apns", "email", "webhook"}
	for i, typ := range types {
		l.ended.Go(func() {
			tick := time.NewTicker(15 * time.Millisecond)
			defer tick.Stop()
			for n := 0; ; n++ {
				select {
				case <-tick.C:
				case <-l.stop:
					return
				}
				l.send(message{Key: fmt.Sprintf("%s-%d", typ, n), Type: typ, Recipient: fmt.Sprintf("%s_%d", typ, n),
					To: to(sim, channels[n%len(channels)], i*100_000+n), Data: map[string]string{"text": "under load"}})
			}
		})
	}
	return l
}

func (l *pauseLoad) send(m message) {
	id, err := l.server.send(m)
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		l.errs = append(l.errs, err)
		return
	}
	l.ids[m.Type] = append(l.ids[m.Type], id)
}

func (l *pauseLoad) count(typ string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.ids[typ])
}

// grow waits until as many more of each type are accepted.
func (l *pauseLoad) grow(t *testing.T, more int, types ...string) {
	t.Helper()
	want := map[string]int{}
	for _, typ := range types {
		want[typ] = l.count(typ) + more
	}
	for _, typ := range types {
		eventually(t, fmt.Sprintf("%d more of %s are accepted", more, typ), func() bool { return l.count(typ) >= want[typ] })
	}
}

// TestPause_UnderLoadKilledAndResumed pauses types of both orders while they
// are sent, kills the server and starts it again, and resumes.
func TestPause_UnderLoadKilledAndResumed(t *testing.T) {
	t.Parallel()
	sim := startProviders(t)
	sim.SetFaults([]simulate.Fault{{Kind: simulate.FaultDelay, Delay: 10 * time.Millisecond}})
	dir := installation(t, sim, 4, map[string]string{
		"claim": quickPolicy(notifier.OrderClaimFirst, 0),
		"send":  quickPolicy(notifier.OrderSendFirst, 0),
		"brief": strings.Replace(quickPolicy(notifier.OrderClaimFirst, 0), "expires_after: 1h", "expires_after: 2s", 1),
		"open":  quickPolicy(notifier.OrderSendFirst, 0),
	})
	s := newServer(t, buildBinary(t, "faultpoint"), dir)
	s.start()
	held := []string{"claim", "send", "brief"}
	load := startPauseLoad(s, sim, append(held, "open")...)
	load.grow(t, 20, append(held, "open")...)

	var ids []string
	before := map[string]int{}
	for _, typ := range held {
		out := cliFor(t, s).ok("pause", "-type", typ, "-why", "a test")
		ids = append(ids, strings.Fields(out)[0])
	}
	paused := time.Now()
	for _, typ := range held {
		before[typ] = load.count(typ)
	}
	load.grow(t, 60, append(held, "open")...)
	s.kill()
	s.start()
	load.grow(t, 60, append(held, "open")...)
	if out := cliFor(t, s).ok("pauses"); strings.Count(out, "\n") != len(held) || !strings.Contains(out, ids[0]+"  type claim") {
		t.Errorf("after the restart the pauses are\n%s\nwant %v", out, ids)
	}
	close(load.stop)
	load.ended.Wait()
	for _, err := range load.errs {
		t.Error(err)
	}
	notes := s.settled(append(load.ids["open"], load.ids["brief"]...))
	checkNothingOf(t, s, sim.Effects(), load, held, paused)

	for _, id := range ids {
		cliFor(t, s).ok("resume", id, "-why", "all is well")
	}
	notes = append(notes, s.settled(append(load.ids["claim"], load.ids["send"]...))...)
	ended := map[string]int{}
	for i := range notes {
		ended[notes[i].Type+" "+string(notes[i].State)]++
	}
	for _, typ := range []string{"claim", "send", "open"} {
		if got, want := ended[typ+" sent"], load.count(typ); got != want {
			t.Errorf("%d of %d of %s are sent: %v", got, want, typ, ended)
		}
	}
	if got, waited := ended["brief expired"], load.count("brief")-before["brief"]; got < waited {
		t.Errorf("%d of brief expired, want the %d that came after the pause: %v", got, waited, ended)
	}
	s.checkPromise(sim.Effects(), notes)
	t.Logf("%v", ended)
}

func cliFor(t *testing.T, s *server) *cli {
	return newCLI(t, map[string]string{"NOTIFIER_SERVER": s.url()})
}

// checkNothingOf holds that no attempt of some types reached a provider later
// than two seconds after their pause, and that what was accepted since shows it.
func checkNothingOf(t *testing.T, s *server, entries []simulate.Entry, load *pauseLoad, types []string, paused time.Time) {
	t.Helper()
	held := map[string]string{}
	waiting := 0
	for _, typ := range types {
		for _, id := range load.ids[typ] {
			n, ok := s.notification(id)
			if !ok {
				t.Fatalf("cannot read %s", id)
			}
			for _, d := range n.Deliveries {
				held[d.ID.String()] = typ
				if d.State == notifier.StatePending {
					waiting++
					if d.Reason != notifier.ReasonPaused {
						t.Errorf("%s of %s waits as %s, want paused", d.ID, typ, d.Reason)
					}
				}
			}
		}
	}
	for _, e := range entries {
		if typ, ok := held[e.Delivery]; ok && e.Time.After(paused.Add(2*time.Second)) {
			t.Errorf("a request of %s came %s after its pause", typ, e.Time.Sub(paused))
		}
	}
	if waiting < 200 {
		t.Errorf("%d deliveries wait, want at least 200", waiting)
	}
}
