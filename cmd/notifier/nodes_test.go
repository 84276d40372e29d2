package main

import (
	"fmt"
	"net/http"
	"sync"
	"testing"

	"github.com/seed-4b260dfd/notifier"
	"github.com/seed-4b260dfd/notifier/servertest"
)

// Three nodes, and every request sent to two of them at the same moment: one
// notification each, and one effect each. Four messages go to each person, as
// many as the cap lets through: a copy that spent a unit would hold one back.
func TestNodes_EveryRequestTwiceAtOnce(t *testing.T) {
	t.Parallel()
	const each = 3000
	bin := buildBinary(t)
	sim := startProviders(t)
	dir := installation(t, sim, 0, map[string]string{
		"note": quickPolicy(notifier.OrderSendFirst, 4), "digest": quickPolicy(notifier.OrderClaimFirst, 4)})
	database := servertest.SharedPostgres(t).Database(t)
	c := newCluster(t, bin, dir, 3, database, database, servertest.SharedRedis(t).URL())
	kept := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 30}, Timeout: patience}
	defer kept.CloseIdleConnections()
	for _, s := range c.nodes {
		s.client = kept
	}
	ids := make([]string, 2*each)
	work := make(chan int)
	var all sync.WaitGroup
	for range 12 {
		all.Go(func() {
			for i := range work {
				ids[i] = c.twice(t, message{Key: fmt.Sprintf("k-%d", i), Type: []string{"note", "digest"}[i%2], Recipient: fmt.Sprintf("u_%d", i/4),
					To: to(sim, "apns", i), Data: map[string]string{"text": "hello"}}, i)
			}
		})
	}
	for i := range ids {
		work <- i
	}
	close(work)
	all.Wait()
	if t.Failed() {
		return
	}
	c.atRest()
	notes := c.notes(ids)
	seen := map[string]bool{}
	for i := range notes {
		n := &notes[i]
		if seen[n.ID.String()] {
			t.Errorf("two keys have the id %v", n.ID)
		}
		seen[n.ID.String()] = true
		if n.State != notifier.StateSent || n.Repeats != 1 || n.Deliveries[0].PossibleEffects != 1 {
			t.Errorf("%s: got %s, %d repeats, %d possible effects; want sent, 1 and 1", n.Key, n.State, n.Repeats, n.Deliveries[0].PossibleEffects)
		}
	}
	effects := sim.Effects()
	if len(effects) != len(ids) {
		t.Errorf("the provider has %d requests, want %d", len(effects), len(ids))
	}
	for _, b := range checkLog(effects, notes) {
		t.Error(b)
	}
	c.sound()
}

// twice sends a message to two nodes at the same moment: one of them says 202,
// the other 200, and both name one notification.
func (c *cluster) twice(t *testing.T, m message, i int) string {
	var ids [2]string
	var statuses [2]int
	var all sync.WaitGroup
	for j := range ids {
		all.Go(func() {
			var err error
			if ids[j], statuses[j], err = c.nodes[(i+j)%len(c.nodes)].post(m); err != nil {
				t.Errorf("post: %v", err)
			}
		})
	}
	all.Wait()
	if ids[0] != ids[1] || statuses[0]+statuses[1] != http.StatusAccepted+http.StatusOK {
		t.Errorf("%s: got %v with %v, want one id, accepted once", m.Key, ids, statuses)
	}
	return ids[0]
}
