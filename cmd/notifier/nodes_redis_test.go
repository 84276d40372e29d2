package main

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/seed-4b260dfd/notifier"
	"github.com/seed-4b260dfd/notifier/channels/simulate"
	"github.com/seed-4b260dfd/notifier/servertest"
)

// outage is ten leases.
const outage = 10 * time.Second

// Redis is dead for ten leases: everything is accepted as before, send-first
// goes on, claim-first waits and is sent after, and a cap is exceeded by no more
// than the attempts that were made without it, which a metric names.
func TestNodes_RedisDeadForTenLeases(t *testing.T) {
	t.Parallel()
	sim := startProviders(t)
	redis := servertest.NewRedis(t)
	c, f := redisless(t, sim, redis)
	f.start("claim_first", 50*time.Millisecond, 1_000_000)
	f.start("send_first", 50*time.Millisecond, 2_000_000)
	f.start("capped", 100*time.Millisecond, 3_000_000)
	began := time.Now()
	<-time.After(4 * time.Second)

	killed := time.Now()
	_ = redis.Kill()
	c.awaitDegraded(t, "redis")
	seen := time.Now()
	<-time.After(outage - time.Since(killed))
	c.awaitDegraded(t, "redis")
	back := time.Now()
	if err := redis.Restart(); err != nil {
		t.Fatal(err)
	}
	c.awaitWhole(t)
	whole := time.Now()
	<-time.After(2 * time.Second)
	close(f.stop)
	f.ended.Wait()
	if f.err != nil {
		t.Fatal(f.err)
	}
	c.atRest()
	c.checkWithoutRedis(t, f, sim.Effects(), killed, back, whole)
	withinTwenty(t, "acceptance, 99th percentile", acceptP99(f.of("send_first", began, killed)), acceptP99(f.of("send_first", seen, back)))
	c.sound()
}

// Redis is dead when the nodes start.
func TestNodes_RedisDeadAtStart(t *testing.T) {
	t.Parallel()
	sim := startProviders(t)
	redis := servertest.NewRedis(t)
	began := time.Now()
	_ = redis.Kill()
	c, f := redisless(t, sim, redis)
	c.awaitDegraded(t, "redis")
	f.start("claim_first", 50*time.Millisecond, 1_000_000)
	f.start("send_first", 50*time.Millisecond, 2_000_000)
	f.start("capped", 200*time.Millisecond, 3_000_000)
	<-time.After(4 * time.Second)
	close(f.stop)
	f.ended.Wait()
	if f.err != nil {
		t.Fatal(f.err)
	}
	back := time.Now()
	if err := redis.Restart(); err != nil {
		t.Fatal(err)
	}
	c.atRest()
	c.awaitWhole(t)
	c.checkWithoutRedis(t, f, sim.Effects(), began, back, time.Now())
	c.sound()
}

// redisless is three nodes whose Redis is a server of its own.
func redisless(t *testing.T, sim *simulate.Server, redis *servertest.Redis) (*cluster, *flood) {
	t.Helper()
	policies := map[string]string{
		"claim_first": chaosPolicy(notifier.OrderClaimFirst, "1s"),
		"send_first":  chaosPolicy(notifier.OrderSendFirst, "1s"),
		"capped":      strings.Replace(chaosPolicy(notifier.OrderSendFirst, "1s"), "hourly-send-first", "everybody", 1),
	}
	policies["capped"] = strings.Replace(policies["capped"], "per: [recipient]", "per: [recipient, text]", 1)
	dir := installation(t, sim, 0, policies)
	database := servertest.SharedPostgres(t).Database(t)
	c := newCluster(t, buildBinary(t), dir, 3, database, database, redis.URL())
	return c, &flood{c: c, to: func(n int) map[string][]map[string]string { return to(sim, "apns", n) }, stop: make(chan struct{})}
}

// degraded is what a node's /readyz lists, while it is ready.
func (s *server) degraded() (parts []string, ready bool) {
	res, err := caller.Get(s.url() + "/readyz")
	if err != nil {
		return nil, false
	}
	defer res.Body.Close()
	var body struct {
		Degraded []string `json:"degraded"`
	}
	err = json.NewDecoder(res.Body).Decode(&body)
	return body.Degraded, err == nil && res.StatusCode == http.StatusOK
}

// awaitDegraded waits until every node says that a part is degraded, and is
// ready all the same.
func (c *cluster) awaitDegraded(t *testing.T, part string) {
	t.Helper()
	for _, s := range c.nodes {
		eventually(t, "a node is ready and its "+part+" is degraded", func() bool {
			parts, ready := s.degraded()
			return ready && strings.Contains(strings.Join(parts, " "), part)
		})
	}
}

// awaitWhole waits until no node has anything degraded.
func (c *cluster) awaitWhole(t *testing.T) {
	t.Helper()
	for _, s := range c.nodes {
		eventually(t, "a node is whole", func() bool {
			parts, ready := s.degraded()
			return ready && len(parts) == 0
		})
	}
}

// checkWithoutRedis holds what was sent to the log of the providers. Redis was
// away until it was back, and its caps were as they must be once all was whole.
func (c *cluster) checkWithoutRedis(t *testing.T, f *flood, entries []simulate.Entry, away, back, whole time.Time) {
	t.Helper()
	var ids []string
	for _, s := range f.sent {
		ids = append(ids, s.id)
	}
	notes := c.notes(ids)
	for _, b := range checkLog(entries, notes) {
		t.Error(b)
	}
	for i := range notes {
		if n := &notes[i]; n.Type != "capped" && n.State != notifier.StateSent {
			t.Errorf("%s: got %s, want sent", n.Key, n.State)
		}
	}
	requests, meanwhile := map[string]int{}, map[string]int{}
	for _, e := range entries {
		typ := []string{"", "claim_first", "send_first", "capped"}[numberOf(e.Address)/1_000_000]
		requests[typ]++
		from, to := away, whole
		if typ == "claim_first" {
			// What had its claim goes on to the end.
			from, to = away.Add(time.Second), back
		}
		if e.Time.After(from) && e.Time.Before(to) {
			meanwhile[typ]++
		}
	}
	if meanwhile["send_first"] == 0 {
		t.Error("send-first did not go on without Redis")
	}
	if meanwhile["claim_first"] > 0 {
		t.Errorf("%d claim-first messages were sent without Redis", meanwhile["claim_first"])
	}
	uncounted := 0.0
	for _, s := range c.nodes {
		uncounted += s.metric(`notifier_caps_uncounted_total`)
	}
	const limit = 4
	t.Logf("requests %v, of them without Redis %v; the metric names %v attempts without their cap", requests, meanwhile, uncounted)
	if over := requests["capped"] - limit; over > meanwhile["capped"] || meanwhile["capped"] == 0 || float64(over) > uncounted {
		t.Errorf("the cap of %d was exceeded by %d; %d attempts were made without it, and the metric names %v", limit, over, meanwhile["capped"], uncounted)
	}
}
