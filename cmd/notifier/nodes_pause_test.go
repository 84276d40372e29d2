package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seed-4b260dfd/notifier"
	"github.com/seed-4b260dfd/notifier/channels/simulate"
	"github.com/seed-4b260dfd/notifier/servertest"
)

// measured says that "make chaos" runs this: as much chaos as the promise is
// tried with, on a machine that is quiet enough for latencies to be held to
// their bounds. Elsewhere they are printed, and held to what says that something
// is wrong whatever else runs.
var measured = os.Getenv("NOTIFIER_MEASURE") != ""

// flood sends messages of some types to all nodes, evenly, until it is stopped.
type flood struct {
	c     *cluster
	to    func(n int) map[string][]map[string]string
	stop  chan struct{}
	ended sync.WaitGroup

	mu   sync.Mutex
	sent []flooded
	err  error
}

type flooded struct {
	typ, id  string
	at, done time.Time
}

// start sends one message of a type every so often, from a client of its own
// that says the same to the next node while it has no answer.
func (f *flood) start(typ string, every time.Duration, base int) {
	f.ended.Go(func() {
		tick := time.NewTicker(every)
		defer tick.Stop()
		var calls sync.WaitGroup
		defer calls.Wait()
		for n := base; ; n++ {
			select {
			case <-tick.C:
			case <-f.stop:
				return
			}
			calls.Go(func() {
				m := message{Key: fmt.Sprintf("%s-%d", typ, n), Type: typ, Recipient: recipientOf(typ, n), To: f.to(n),
					Data: map[string]string{"text": "under load"}}
				at := time.Now()
				id, err := f.c.nodes[n%len(f.c.nodes)].sendOr(f.c.nodes, m)
				f.mu.Lock()
				defer f.mu.Unlock()
				if err != nil {
					f.err = err
					return
				}
				f.sent = append(f.sent, flooded{typ, id, at, time.Now()})
			})
		}
	})
}

// recipientOf is who a message goes to: somebody else each time, but for the
// type that has a cap to run into.
func recipientOf(typ string, n int) string {
	if typ == "capped" {
		return typ
	}
	return fmt.Sprintf("%s_%d", typ, n)
}

// sendOr sends a message to one node, and to the others while it has no answer.
func (s *server) sendOr(others []*server, m message) (id string, err error) {
	n := slices.Index(others, s)
	for tries := 0; tries < 600; tries++ {
		if id, _, err = others[(n+tries)%len(others)].post(m); err == nil || !strings.Contains(err.Error(), errNoAnswer.Error()) {
			return id, err
		}
		<-time.After(20 * time.Millisecond)
	}
	return "", err
}

// of are the messages of a type that were answered in a stretch of time; all
// of them while to is zero.
func (f *flood) of(typ string, from, to time.Time) (out []flooded) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, s := range f.sent {
		if s.typ == typ && !s.at.Before(from) && (to.IsZero() || s.at.Before(to)) {
			out = append(out, s)
		}
	}
	return out
}

// acceptP99 is the 99th percentile of the time that acceptances took.
func acceptP99(sent []flooded) time.Duration {
	var took []time.Duration
	for _, s := range sent {
		took = append(took, s.done.Sub(s.at))
	}
	return p99(took)
}

func p99(d []time.Duration) time.Duration {
	if len(d) == 0 {
		return 0
	}
	slices.Sort(d)
	return d[(len(d)-1)*99/100]
}

// withinTwenty holds a latency to twenty percent above what it was, where the
// machine allows.
func withinTwenty(t *testing.T, what string, before, after time.Duration) {
	t.Helper()
	t.Logf("%s: %s before, %s after (× %.2f)", what, before.Round(10*time.Microsecond), after.Round(10*time.Microsecond), float64(after)/float64(before))
	bound := before + before/5
	if !measured {
		bound = 10*before + 500*time.Millisecond
	}
	if after > bound {
		t.Errorf("%s: %s, which was %s; want at most %s", what, after, before, bound)
	}
}

// A pause holds on every node within two seconds, over a kill of all of them,
// and touches nothing else.
func TestNodes_PauseOfOneType(t *testing.T) {
	t.Parallel()
	sim := startProviders(t)
	policies := map[string]string{
		"held":  quickPolicy(notifier.OrderClaimFirst, 0),
		"brief": strings.Replace(quickPolicy(notifier.OrderSendFirst, 0), "expires_after: 1h", "expires_after: 2s", 1),
		"open":  quickPolicy(notifier.OrderSendFirst, 0),
	}
	dir := installation(t, sim, 0, policies)
	database := servertest.SharedPostgres(t).Database(t)
	c := newCluster(t, buildBinary(t), dir, 3, database, database, servertest.SharedRedis(t).URL())
	f := &flood{c: c, to: func(n int) map[string][]map[string]string { return to(sim, "apns", n) }, stop: make(chan struct{})}
	f.start("held", 20*time.Millisecond, 1_000_000)
	f.start("brief", 100*time.Millisecond, 2_000_000)
	f.start("open", 20*time.Millisecond, 3_000_000)

	began := time.Now()
	<-time.After(4 * time.Second)
	var pauses []string
	paused := time.Now()
	for _, typ := range []string{"held", "brief"} {
		pauses = append(pauses, c.pause(t, typ))
	}
	answered := time.Now()
	<-time.After(5 * time.Second)
	calm := time.Now()
	c.each(func(s *server) { s.kill() })
	c.each(func(s *server) { s.start() })
	<-time.After(3 * time.Second)
	close(f.stop)
	f.ended.Wait()
	if f.err != nil {
		t.Fatal(f.err)
	}
	resumed := time.Now()
	for _, e := range sim.Effects() {
		if typ := typeOf(e.Address); typ != "open" && e.Time.After(answered.Add(2*time.Second)) && e.Time.Before(resumed) {
			t.Errorf("a message of %s was sent %s after the pause was placed", typ, e.Time.Sub(answered))
		}
	}
	for _, id := range pauses {
		c.resume(t, id)
	}
	c.atRest()
	c.checkFlood(t, f, sim.Effects())
	withinTwenty(t, "acceptance of the paused type, 99th percentile", acceptP99(f.of("held", began, paused)), acceptP99(f.of("held", answered, calm)))
	withinTwenty(t, "acceptance of another type, 99th percentile", acceptP99(f.of("open", began, paused)), acceptP99(f.of("open", answered, calm)))
	c.sound()
}

// typeOf is the type of the message that went to an address of a flood.
func typeOf(address string) string {
	return []string{"", "held", "brief", "open"}[numberOf(address)/1_000_000]
}

// numberOf is the number that a device's address was made from.
func numberOf(address string) (n int) {
	fmt.Sscanf(strings.TrimLeft(strings.TrimPrefix(address, "d"), "0"), "%x", &n)
	return n
}

// checkFlood holds all that was sent to the providers' log: everything is sent
// once, or expired and not sent.
func (c *cluster) checkFlood(t *testing.T, f *flood, entries []simulate.Entry) {
	t.Helper()
	var ids []string
	for _, s := range f.sent {
		ids = append(ids, s.id)
	}
	notes := c.notes(ids)
	for _, b := range checkLog(entries, notes) {
		t.Error(b)
	}
	expired := 0
	for i := range notes {
		switch n := &notes[i]; {
		case n.State == notifier.StateExpired && n.Type == "brief":
			expired++
		case n.State != notifier.StateSent:
			t.Errorf("%s: got %s, want sent", n.Key, n.State)
		}
	}
	t.Logf("%d messages, %d of them expired while they were paused", len(notes), expired)
	if expired == 0 {
		t.Error("nothing expired while it was paused")
	}
}

// pause pauses a type through the first node, and returns the pause's id.
func (c *cluster) pause(t *testing.T, typ string) string {
	t.Helper()
	body, err := json.Marshal(map[string]string{"type": typ, "why": "a test"})
	if err != nil {
		t.Fatal(err)
	}
	res, err := caller.Post(c.nodes[0].url()+"/v1/pauses", "application/json", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var p notifier.Pause
	if err := json.NewDecoder(res.Body).Decode(&p); err != nil || p.ID == "" {
		t.Fatalf("pause: %s, %v", res.Status, err)
	}
	return p.ID
}

// resume ends a pause through the last node.
func (c *cluster) resume(t *testing.T, id string) {
	t.Helper()
	req, err := http.NewRequest(http.MethodDelete, c.nodes[len(c.nodes)-1].url()+"/v1/pauses/"+id, nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := caller.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode/100 != 2 {
		t.Fatalf("resume: %s", res.Status)
	}
}

// pauses lists the pauses in force.
func (c *cluster) pauses(t *testing.T) []notifier.Pause {
	t.Helper()
	res, err := caller.Get(c.nodes[0].url() + "/v1/pauses")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var body struct {
		Pauses []notifier.Pause `json:"pauses"`
	}
	if err := json.NewDecoder(res.Body).Decode(&body); err != nil {
		t.Fatalf("pauses: %s, %v", res.Status, err)
	}
	return body.Pauses
}
