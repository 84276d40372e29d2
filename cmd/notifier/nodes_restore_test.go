package main

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seed-4b260dfd/notifier"
	"github.com/seed-4b260dfd/notifier/channels/simulate"
	"github.com/seed-4b260dfd/notifier/servertest"
)

// restored is how many messages are sent after the backup that the ledger is
// put back to, and asked how many are asked for anew by their caller then.
const (
	restored = 500
	asked    = 40
)

// The ledger is put back to a backup from before 500 sends, while Redis lives
// on. Within the tombstones' time nothing is sent a second time.
func TestNodes_RestoreWithinTheTombstones(t *testing.T) {
	t.Parallel()
	r := newRestore(t, "15m")
	r.sendAll()
	r.putBack()
	r.askAgain()
	r.settleDown()
	for address, n := range r.requests() {
		if n != 1 {
			t.Errorf("%s of %s was sent %d times before anybody resumed", address, r.orderOf[address], n)
		}
	}
	r.resume()
	r.c.atRest()
	for address, n := range r.requests() {
		if n != 1 {
			t.Errorf("%s of %s was sent %d times in the end", address, r.orderOf[address], n)
		}
	}
	r.c.sound()
}

// After their time claim-first still sends nothing until a person resumes, and
// what send-first repeats is recorded as that.
func TestNodes_RestoreAfterTheTombstones(t *testing.T) {
	t.Parallel()
	r := newRestore(t, "1s")
	r.sendAll()
	<-time.After(5 * time.Second) // all tombstones have gone
	r.putBack()
	r.askAgain()
	r.settleDown()
	repeated := 0
	for address, n := range r.requests() {
		switch {
		case n > 1 && r.orderOf[address] == notifier.OrderClaimFirst, n > 2, n == 0:
			t.Errorf("%s of %s was sent %d times before anybody resumed", address, r.orderOf[address], n)
		case n == 2:
			repeated++
		}
	}
	recorded := 0
	for i := range r.notes {
		for _, a := range r.notes[i].Deliveries[0].Attempts {
			if a.Reason == notifier.ReasonLedgerRewound {
				recorded++
			}
		}
	}
	t.Logf("%d send-first messages were repeated, %d attempts are recorded as that", repeated, recorded)
	if repeated == 0 || repeated != recorded {
		t.Errorf("%d messages were repeated and %d attempts say ledger_rewound; want each of them to", repeated, recorded)
	}
	counted := 0.0
	for _, s := range r.c.nodes {
		counted += s.metricWith("notifier_possible_repeats_total", `cause="ledger_rewound"`)
	}
	if int(counted) != repeated {
		t.Errorf("the metric counts %v repeats, want %d", counted, repeated)
	}
	r.c.sound()
}

// restore is three nodes whose ledger is put back.
type restore struct {
	t        *testing.T
	c        *cluster
	sim      *simulate.Server
	postgres *servertest.Postgres
	backup   string
	orderOf  map[string]notifier.Order
	again    []message
	notes    []notifier.Notification
	ids      []string
}

func newRestore(t *testing.T, tombstone string) *restore {
	t.Helper()
	r := &restore{t: t, sim: startProviders(t), postgres: servertest.NewPostgres(t), backup: t.TempDir() + "/backup", orderOf: map[string]notifier.Order{}}
	policies := map[string]string{}
	for _, order := range []notifier.Order{notifier.OrderClaimFirst, notifier.OrderSendFirst} {
		p := chaosPolicy(order, "1s")
		policies[string(order)] = p[:strings.Index(p, "caps:")] + "tombstone: " + tombstone + "\n"
	}
	dir := installation(t, r.sim, 0, policies)
	database := r.postgres.Database(t)
	r.c = newCluster(t, buildBinary(t, "faultpoint"), dir, 3, database, database, servertest.NewRedis(t).URL())
	return r
}

// sendAll takes a backup while messages wait for their time, has them sent, and
// others that the backup does not know at all.
func (r *restore) sendAll() {
	r.t.Helper()
	at := time.Now().Add(6 * time.Second)
	r.post(r.messages(0, restored, at))
	if err := r.postgres.BaseBackup(r.backup); err != nil {
		r.t.Fatal(err)
	}
	if time.Now().After(at) {
		r.t.Fatal("the backup took so long that it has some of the sends")
	}
	r.again = r.messages(restored, asked, time.Time{})
	r.post(r.again)
	r.c.atRest()
	if n := len(r.sim.Effects()); n != restored+asked {
		r.t.Fatalf("%d messages were sent, want %d", n, restored+asked)
	}
}

func (r *restore) messages(from, n int, at time.Time) (out []message) {
	for i := from; i < from+n; i++ {
		order := []notifier.Order{notifier.OrderClaimFirst, notifier.OrderSendFirst}[i%2]
		m := message{Key: fmt.Sprintf("k-%d", i), Type: string(order), Recipient: fmt.Sprintf("u_%d", i), To: to(r.sim, "apns", i+1),
			Data: map[string]string{"text": "hello"}, SendAt: at}
		r.orderOf[m.address()] = order
		out = append(out, m)
	}
	return out
}

// post sends messages to all nodes.
func (r *restore) post(all []message) {
	r.t.Helper()
	var mu sync.Mutex
	var senders sync.WaitGroup
	work := make(chan message)
	for n := range 6 {
		senders.Go(func() {
			for m := range work {
				id, err := r.c.nodes[n%3].sendOr(r.c.nodes, m)
				if err != nil {
					r.t.Error(err)
				}
				mu.Lock()
				r.ids = append(r.ids, id)
				mu.Unlock()
			}
		})
	}
	for _, m := range all {
		work <- m
	}
	close(work)
	senders.Wait()
}

// putBack puts the ledger back to the backup, and waits until every node has
// seen that.
func (r *restore) putBack() {
	r.t.Helper()
	if err := r.postgres.RestoreFrom(r.backup); err != nil {
		r.t.Fatal(err)
	}
	r.c.awaitDegraded(r.t, "ledger_rewound")
	for _, s := range r.c.nodes {
		if s.metricWith("notifier_degraded", `part="ledger_rewound"`) != 1 {
			r.t.Error("a node's metric does not say that its ledger went back")
		}
	}
	said := false
	for _, s := range r.c.nodes {
		said = said || strings.Contains(s.logged(), "went back in time")
	}
	if !said {
		r.t.Error("no node's log says that the ledger went back")
	}
}

// askAgain has callers send again what they sent after the backup.
func (r *restore) askAgain() {
	r.t.Helper()
	r.ids = r.ids[:restored] // the ledger has forgotten the others
	r.post(r.again)
}

// settleDown waits until everything has ended that is not paused.
func (r *restore) settleDown() {
	r.t.Helper()
	eventually(r.t, "send-first is at rest and claim-first paused", func() bool {
		r.notes = r.c.notes(r.ids)
		for i := range r.notes {
			if n := &r.notes[i]; n.Order == notifier.OrderSendFirst && n.State == notifier.StatePending {
				return false
			}
		}
		return true
	})
	// Whatever would be sent against the pause has had the time for it.
	<-time.After(3 * time.Second)
	r.notes = r.c.notes(r.ids)
}

// requests counts the provider's, by address.
func (r *restore) requests() map[string]int {
	out := map[string]int{}
	for address := range r.orderOf {
		out[address] = 0
	}
	for _, e := range r.sim.Effects() {
		out[e.Address]++
	}
	return out
}

// resume ends the pause, as a person does who has looked.
func (r *restore) resume() {
	r.t.Helper()
	for _, p := range r.c.pauses(r.t) {
		r.c.resume(r.t, p.ID)
	}
}
