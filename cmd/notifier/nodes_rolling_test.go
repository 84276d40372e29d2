package main

import (
	"syscall"
	"testing"
	"time"

	"github.com/seed-4b260dfd/notifier"
	"github.com/seed-4b260dfd/notifier/servertest"
)

// The nodes are restarted one after the other while messages come in: nothing
// is lost, nothing repeated, and no lease is left to lapse.
func TestNodes_RollingRestart(t *testing.T) {
	t.Parallel()
	sim := startProviders(t)
	dir := installation(t, sim, 0, map[string]string{
		"claim_first": quickPolicy(notifier.OrderClaimFirst, 0), "send_first": quickPolicy(notifier.OrderSendFirst, 0)})
	database := servertest.SharedPostgres(t).Database(t)
	c := newCluster(t, buildBinary(t), dir, 3, database, database, servertest.SharedRedis(t).URL())
	f := &flood{c: c, to: func(n int) map[string][]map[string]string { return to(sim, "apns", n) }, stop: make(chan struct{})}
	f.start("claim_first", 20*time.Millisecond, 1_000_000)
	f.start("send_first", 20*time.Millisecond, 2_000_000)
	for range 2 {
		for _, s := range c.nodes {
			<-time.After(time.Second)
			if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			select {
			case <-s.exited:
			case <-time.After(patience):
				t.Fatalf("a node did not end in %s\n%s", patience, s.logTail())
			}
			s.start()
		}
	}
	<-time.After(time.Second)
	close(f.stop)
	f.ended.Wait()
	if f.err != nil {
		t.Fatal(f.err)
	}
	c.atRest()
	var ids []string
	for _, s := range f.sent {
		ids = append(ids, s.id)
	}
	notes := c.notes(ids)
	entries := sim.Effects()
	for _, b := range checkLog(entries, notes) {
		t.Error(b)
	}
	for i := range notes {
		n := &notes[i]
		if n.State != notifier.StateSent {
			t.Errorf("%s: got %s, want sent", n.Key, n.State)
		}
		for _, a := range n.Deliveries[0].Attempts {
			if a.Reason == notifier.ReasonLeaseLapsed || a.Reason == notifier.ReasonWorkerLost {
				t.Errorf("%s: a lease was left to lapse: %s", n.Key, a.Reason)
			}
		}
	}
	if len(entries) != len(notes) {
		t.Errorf("the provider has %d requests of %d messages", len(entries), len(notes))
	}
	t.Logf("%d messages over six restarts", len(notes))
	c.sound()
}
