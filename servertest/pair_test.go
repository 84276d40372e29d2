package servertest_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seed-4b260dfd/notifier/servertest"
)

func TestSentinel_PromotedReplicaLacksTheNewestWrites(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	s := servertest.NewRedisSentinel(t)
	hosts, _ := strings.CutPrefix(s.URL(), "redis+sentinel://")
	hosts, name, _ := strings.Cut(hosts, "/")
	c := redis.NewFailoverClient(&redis.FailoverOptions{MasterName: name, SentinelAddrs: strings.Split(hosts, ",")})
	defer c.Close()
	// Twice, the second time back: the pair stays usable.
	for round := range 2 {
		before := fmt.Sprint("before-", round)
		if err := c.Set(ctx, before, "v", 0).Err(); err != nil {
			t.Fatal(err)
		}
		if n, err := c.Wait(ctx, 1, 10*time.Second).Result(); n != 1 {
			t.Fatalf("the replica did not get the write: %d, %v", n, err)
		}
		old := s.Primary()
		s.HoldReplica()
		if err := c.Set(ctx, "newest", round, 0).Err(); err != nil {
			t.Fatal(err)
		}
		s.KillPrimary()
		if err := s.WaitPromoted(ctx); err != nil {
			t.Fatal(err)
		}
		if s.Primary() == old || s.Replica() != old {
			t.Error("primary and replica did not change places")
		}
		if got := read(t, s.Primary(), before); got != "v" {
			t.Errorf("round %d: an older write: got %q, want it there", round, got)
		}
		if got := read(t, s.Primary(), "newest"); got != "" {
			t.Errorf("round %d: the newest write: got %q, want it lost", round, got)
		}
		if err := s.Rejoin(ctx); err != nil {
			t.Fatal(err)
		}
		if got := read(t, s.Replica(), "newest"); got != "" {
			t.Errorf("round %d: rejoined with %q, want the primary's data", round, got)
		}
	}
}

func TestSentinel_ReleasedReplicaCatchesUp(t *testing.T) {
	t.Parallel()
	s := servertest.NewRedisSentinel(t)
	s.HoldReplica()
	set(t, s.Primary(), "k", "v")
	s.ReleaseReplica()
	if n, err := s.Primary().Client().Wait(t.Context(), 1, 30*time.Second).Result(); n != 1 {
		t.Errorf("got %d replicas with the write, %v, want 1", n, err)
	}
	if got := read(t, s.Replica(), "k"); got != "v" {
		t.Errorf("got %q, want %q", got, "v")
	}
}

func TestCluster_ServesAllSlots(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cluster := servertest.NewRedisCluster(t)
	addrs, _ := strings.CutPrefix(cluster.URL(), "redis+cluster://")
	c := redis.NewClusterClient(&redis.ClusterOptions{Addrs: strings.Split(addrs, ",")[:1]})
	defer c.Close()
	const keys = 100
	for i := range keys {
		if err := c.Set(ctx, fmt.Sprint("k", i), i, 0).Err(); err != nil {
			t.Fatalf("key %d: %v", i, err)
		}
	}
	total := 0
	for i, node := range cluster.Nodes() {
		n, err := node.Client().DBSize(ctx).Result()
		if err != nil || n == 0 {
			t.Errorf("node %d: %d keys, %v, want its share", i, n, err)
		}
		total += int(n)
	}
	if total != keys {
		t.Errorf("got %d keys on all nodes, want %d", total, keys)
	}
	node := cluster.Nodes()[1]
	node.Kill()
	node.RestartEmpty()
	if err := cluster.AwaitOK(ctx); err != nil {
		t.Fatal(err)
	}
	if n, err := node.Client().DBSize(ctx).Result(); err != nil || n != 0 {
		t.Errorf("emptied node: %d keys, %v, want none", n, err)
	}
	for i := range keys {
		if err := c.Set(ctx, fmt.Sprint("k", i), i, 0).Err(); err != nil {
			t.Fatalf("with the node back, key %d: %v", i, err)
		}
	}
}
