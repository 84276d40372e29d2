package claims_test

import (
	"crypto/rand"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-4b260dfd/notifier/claims"
	"github.com/seed-4b260dfd/notifier/servertest"
)

// What one delivery of a hundred in flight asks of Redis: claim, caps (for
// which another claim stands in), the claim again at the permit, tombstone.
// Between the calls it waits for its ledger and its provider, or not at all.
// The calls are four; what is reported is how many round trips they cost.
func BenchmarkRedis_Delivery(b *testing.B) {
	for _, wait := range []time.Duration{0, time.Millisecond, 5 * time.Millisecond} {
		b.Run("wait="+wait.String(), func(b *testing.B) {
			r := newRunner(b, servertest.SharedRedis(b).URL())
			s := claims.NewRedis(r, ledgerID)
			const inFlight = 100
			run := rand.Text()
			var next atomic.Int64
			var all sync.WaitGroup
			before := r.RoundTrips()
			for range inFlight {
				all.Go(func() {
					for n := next.Add(1); n <= int64(b.N); n = next.Add(1) {
						deliver(b, s, run+strconv.FormatInt(n, 10), wait)
					}
				})
			}
			all.Wait()
			b.ReportMetric(float64(r.RoundTrips()-before)/float64(b.N), "roundtrips/op")
		})
	}
}

func deliver(b *testing.B, s *claims.Redis, key string, wait time.Duration) {
	c := claims.Claim{Key: key, Fence: 1, Owner: owner}
	pause := func() {
		if wait > 0 {
			<-time.After(wait)
		}
	}
	if a, err := s.Acquire(b.Context(), c, 10*time.Second); err != nil || a.Status != claims.StatusGranted {
		b.Errorf("acquire: %+v, %v", a, err)
	}
	caps := claims.Claim{Key: key + "/caps", Fence: 1, Owner: owner}
	if _, err := s.Acquire(b.Context(), caps, 10*time.Second); err != nil {
		b.Errorf("caps: %v", err)
	}
	if ours, err := s.Renew(b.Context(), c, 10*time.Second); err != nil || !ours {
		b.Errorf("renew: %v, %v", ours, err)
	}
	pause() // the permit
	pause() // the provider
	if err := s.Settle(b.Context(), c, "sent", 10*time.Second); err != nil {
		b.Errorf("settle: %v", err)
	}
}
