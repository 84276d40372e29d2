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
	server := servertest.NewRedis(t, "--appendonly", "no")
	client := server.Client()
	s := claims.NewRedis(newRunner(t, server.URL()), ledgerID)
	_, _ = s.Renew(t.Context(), claim(1, owner), time.Hour)
	empty := usedMemory(t, client)
	// fill does something to every claim, many at once.
	fill := func(do func(ctx context.Context, c claims.Claim) error) {
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
	fill(func(ctx context.Context, c claims.Claim) error {
		_, err := s.Acquire(ctx, c, time.Hour)
		return err
	})
	perClaim := (usedMemory(t, client) - empty) / n
	fill(func(ctx context.Context, c claims.Claim) error { return s.Settle(ctx, c, "sent", time.Hour) })
	perTombstone := (usedMemory(t, client) - empty) / n
	t.Logf("%d bytes per claim, %d per tombstone", perClaim, perTombstone)
	const most = 220
	if perClaim > most || perTombstone > most {
		t.Errorf("%d bytes per claim, %d per tombstone, want at most %d", perClaim, perTombstone, most)
	}
	if got := client.DBSize(t.Context()).Val(); got != n {
		t.Errorf("%d keys, want %d", got, n)
	}
}

func usedMemory(t *testing.T, client *redis.Client) int64 {
	t.Helper()
	info, err := client.Info(t.Context(), "memory").Result()
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(info, "used_memory:")
	digits, _, _ := strings.Cut(rest, "\r")
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}
