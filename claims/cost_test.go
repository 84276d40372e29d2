package claims_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seed-4b260dfd/notifier/claims"
	"github.com/seed-4b260dfd/notifier/servertest"
)

const (
	ledgerID = "0197f3a1-c9b0-7d8e-9f00-3f5b8a6c1d2e"
	owner    = "JX5VSBQ4Y2M7KQ6PZT3NWC8RDH" // as delivery names its processes
)

// README quotes what a claim and a tombstone cost in Redis; this keeps the
// figures honest.
func TestRedis_BytesPerClaim(t *testing.T) {
	t.Parallel()
	const n = 100_000
	alone := servertest.NewRedis(t, "--appendonly", "no")
	cluster := servertest.NewRedisCluster(t, "--appendonly", "no")
	for name, c := range map[string]struct {
		url   string
		nodes []*servertest.Redis
		most  float64
	}{
		"one server": {alone.URL(), []*servertest.Redis{alone}, 215 * 1.05},
		"cluster":    {cluster.URL(), cluster.Nodes(), 260 * 1.05},
	} {
		s := claims.NewRedis(newRunner(t, c.url), ledgerID)
		empty := usedMemory(t, c.nodes)
		fill(t, n, func(ctx context.Context, c claims.Claim) error {
			_, err := s.Acquire(ctx, c, time.Hour)
			return err
		})
		perClaim := (usedMemory(t, c.nodes) - empty) / n
		fill(t, n, func(ctx context.Context, c claims.Claim) error { return s.Settle(ctx, c, "sent", time.Hour) })
		perTombstone := (usedMemory(t, c.nodes) - empty) / n
		t.Logf("%s: %.0f bytes per claim, %.0f per tombstone", name, perClaim, perTombstone)
		if perClaim > c.most || perTombstone > c.most {
			t.Errorf("%s: %.0f bytes per claim, %.0f per tombstone, want at most %.0f", name, perClaim, perTombstone, c.most)
		}
		keys := int64(0)
		for _, node := range c.nodes {
			keys += node.Client().DBSize(t.Context()).Val()
		}
		if keys != n {
			t.Errorf("%s: %d keys, want %d", name, keys, n)
		}
	}
}

// fill does something to each of n claims, many at once.
func fill(t *testing.T, n int, do func(context.Context, claims.Claim) error) {
	t.Helper()
	var all sync.WaitGroup
	const at = 200
	for first := range at {
		all.Go(func() {
			for i := first; i < n; i += at {
				if err := do(t.Context(), claims.Claim{Key: fmt.Sprintf("%064x", i), Fence: 1, Owner: owner}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
}

func usedMemory(t *testing.T, nodes []*servertest.Redis) (sum float64) {
	t.Helper()
	for _, node := range nodes {
		sum += info(t, node.Client(), "used_memory:")
	}
	return sum
}

// info reads one number of a server's INFO.
func info(tb testing.TB, client *redis.Client, name string) float64 {
	tb.Helper()
	all, err := client.Info(tb.Context(), "everything").Result()
	if err != nil {
		tb.Fatal(err)
	}
	_, rest, _ := strings.Cut(all, name)
	digits, _, _ := strings.Cut(rest, "\r")
	n, err := strconv.ParseFloat(digits, 64)
	if err != nil {
		tb.Fatalf("%s: %v", name, err)
	}
	return n
}
