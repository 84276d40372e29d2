package claims_test

import (
	"crypto/rand"
	mrand "math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seed-4b260dfd/notifier/claims"
	"github.com/seed-4b260dfd/notifier/servertest"
)

// What one delivery of a hundred in flight asks of Redis: claim, caps (for
// which another claim stands in), the claim again at the permit, tombstone.
// Between the calls it waits for its ledger and its provider, or not at all.
// The calls are four; what is reported is how many round trips they cost, and
// how much of the server's processor.
func BenchmarkRedis_Delivery(b *testing.B) {
	for _, wait := range []time.Duration{0, time.Millisecond, 5 * time.Millisecond, 25 * time.Millisecond} {
		b.Run("wait="+wait.String(), func(b *testing.B) {
			server := servertest.SharedRedis(b)
			busy := processorTime(b, server.Client())
			trips := deliverMany(b, server.URL(), b.N, wait)
			busy = processorTime(b, server.Client()) - busy
			b.ReportMetric(trips, "roundtrips/op")
			b.ReportMetric(busy.Seconds()*1e6/float64(b.N), "redis-µs/op")
		})
	}
}

// With a hundred in flight that keep Redis busy, a delivery costs less than two
// round trips, although it makes four calls one after the other.
func TestRedis_RoundTripsPerDelivery(t *testing.T) {
	t.Parallel()
	trips := deliverMany(t, servertest.SharedRedis(t).URL(), 5000, 0)
	t.Logf("%.2f round trips per delivery", trips)
	if trips > 2 {
		t.Errorf("%.2f round trips per delivery, want at most 2", trips)
	}
}

// deliverMany makes n deliveries, and returns the round trips for each.
func deliverMany(tb testing.TB, url string, n int, wait time.Duration) float64 {
	tb.Helper()
	r := newRunner(tb, url)
	s := claims.NewRedis(r, ledgerID)
	const inFlight = 100
	run := rand.Text()
	var next atomic.Int64
	var all sync.WaitGroup
	for range inFlight {
		all.Go(func() {
			for i := next.Add(1); i <= int64(n); i = next.Add(1) {
				deliver(tb, s, run+strconv.FormatInt(i, 10), wait)
			}
		})
	}
	all.Wait()
	return float64(r.RoundTrips()) / float64(n)
}

func deliver(tb testing.TB, s *claims.Redis, key string, wait time.Duration) {
	c := claims.Claim{Key: key, Fence: 1, Owner: owner}
	pause := func() {
		if wait > 0 {
			<-time.After(mrand.N(2 * wait)) // out of step with the others
		}
	}
	if a, err := s.Acquire(tb.Context(), c, 10*time.Second); err != nil || a.Status != claims.StatusGranted {
		tb.Errorf("acquire: %+v, %v", a, err)
	}
	caps := claims.Claim{Key: key + "/caps", Fence: 1, Owner: owner}
	if _, err := s.Acquire(tb.Context(), caps, 10*time.Second); err != nil {
		tb.Errorf("caps: %v", err)
	}
	if ours, err := s.Renew(tb.Context(), c, 10*time.Second); err != nil || !ours {
		tb.Errorf("renew: %v, %v", ours, err)
	}
	pause() // the permit
	pause() // the provider
	if err := s.Settle(tb.Context(), c, "sent", 10*time.Second); err != nil {
		tb.Errorf("settle: %v", err)
	}
}

// processorTime is how long the server has computed.
func processorTime(tb testing.TB, client *redis.Client) time.Duration {
	tb.Helper()
	return time.Duration(1e9 * (info(tb, client, "used_cpu_user:") + info(tb, client, "used_cpu_sys:")))
}
