package main

import (
	"bytes"
	"crypto/sha1"
	"encoding/hex"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/seed-4b260dfd/notifier"
	"github.com/seed-4b260dfd/notifier/channels/simulate"
	"github.com/seed-4b260dfd/notifier/servertest"
)

// digestOf is what Redis calls a script of claims by.
func digestOf(t *testing.T, name string) []byte {
	t.Helper()
	sum := sha1.New()
	for _, file := range []string{"entry.lua", name} {
		text, err := os.ReadFile("../../claims/" + file)
		if err != nil {
			t.Fatal(err)
		}
		sum.Write(text)
	}
	return []byte(hex.EncodeToString(sum.Sum(nil)))
}

// The provider said "later", and the claim that is given back then is lost, with
// all that follows for longer than the lease: a claim under a permit lasts as
// long as a tombstone, and the next attempt is not to wait for that.
func TestNodes_ReleaseOfAClaimIsLost(t *testing.T) {
	t.Parallel()
	for name, away := range map[string]time.Duration{"its reply": 0, "for longer than the call": 5 * time.Second} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sim := startProviders(t)
			redis := servertest.NewRedis(t)
			toRedis := servertest.NewProxy(t, redis.Addr())
			dir := installation(t, sim, 0, map[string]string{"claim_first": chaosPolicy(notifier.OrderClaimFirst, "1s")})
			database := servertest.SharedPostgres(t).Database(t)
			c := newCluster(t, buildBinary(t, "faultpoint"), dir, 1, database, database, toRedis.URL(redis.URL()))
			m := message{Key: "a", Type: "claim_first", Recipient: "u", To: to(sim, "apns", 1), Data: map[string]string{"text": "x"}}
			sim.SetFaults([]simulate.Fault{{Channel: "apns", Address: m.address(), Times: 1, Kind: simulate.FaultStatus, Status: http.StatusTooManyRequests, Reason: "TooManyRequests"}})

			release := digestOf(t, "release.lua")
			lost := toRedis.DropReply(func(request []byte) bool { return bytes.Contains(request, release) }, 1)
			if away > 0 {
				lost = toRedis.DropRequest(func(request []byte) bool { return bytes.Contains(request, release) }, 1)
			}
			id, err := c.nodes[0].send(m)
			if err != nil {
				t.Fatal(err)
			}
			<-lost
			if away > 0 {
				// Before it is said again: that takes a new connection.
				toRedis.Blackhole(true)
				toRedis.Cut()
				eventually(t, "redis is away", func() bool { parts, _ := c.nodes[0].degraded(); return len(parts) > 0 })
				<-time.After(away)
				toRedis.Blackhole(false)
			}
			if n := c.nodes[0].settled([]string{id})[0]; n.State != notifier.StateSent {
				t.Errorf("got %s, want sent", n.State)
			}
			c.atRest()
			c.sound()
		})
	}
}
