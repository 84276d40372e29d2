package main

import (
	"slices"
	"testing"
	"time"

	"github.com/seed-4b260dfd/notifier"
	"github.com/seed-4b260dfd/notifier/channels/simulate"
	"github.com/seed-4b260dfd/notifier/servertest"
)

// lonely is one node over Postgres and a Redis of its own.
func lonely(t *testing.T, sim *simulate.Server, redis *servertest.Redis) *cluster {
	t.Helper()
	dir := installation(t, sim, 0, map[string]string{"claim_first": chaosPolicy(notifier.OrderClaimFirst, "1s")})
	database := servertest.SharedPostgres(t).Database(t)
	return newCluster(t, buildBinary(t), dir, 1, database, database, redis.URL())
}

// A node that is started after Redis lost its data says so as well: whether
// another has noticed before it, or nobody was there to.
func TestNodes_LostRedisIsKnownToWhoStartsLater(t *testing.T) {
	t.Parallel()
	sim := startProviders(t)
	for name, running := range map[string]bool{"while a node ran": true, "while none ran": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			redis := servertest.NewRedis(t)
			c := lonely(t, sim, redis)
			s := c.nodes[0]
			if _, err := s.send(message{Key: "a", Type: "claim_first", Recipient: "u", To: to(sim, "apns", 1), Data: map[string]string{"text": "x"}}); err != nil {
				t.Fatal(err)
			}
			c.awaitWhole(t)
			if running {
				if err := redis.Flush(); err != nil {
					t.Fatal(err)
				}
				c.awaitDegraded(t, "redis_data_lost")
				eventually(t, "the caps are rebuilt", func() bool {
					parts, ready := s.degraded()
					return ready && !slices.Contains(parts, "caps_rebuilding")
				})
			}
			s.kill()
			if !running {
				if err := redis.RestartEmpty(); err != nil {
					t.Fatal(err)
				}
			}
			for range 2 {
				s.start()
				if parts, ready := s.degraded(); !ready || !slices.Contains(parts, "redis_data_lost") {
					t.Errorf("after a restart: ready %v and degraded %q, want redis_data_lost among them", ready, parts)
				}
				s.kill()
			}
			left := redis.Client().PTTL(t.Context(), redis.Client().Keys(t.Context(), "*:lost").Val()[0]).Val()
			if left <= 0 || left > 15*time.Minute {
				t.Errorf("it is to be said for another %v, want at most the longest tombstone", left)
			}
		})
	}
}
