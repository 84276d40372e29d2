package sqlite_test

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/seed-4b260dfd/notifier"
	"github.com/seed-4b260dfd/notifier/ledger/sqlite"
)

const benchBatch = 50

func benchLedger(tb testing.TB, opts ...sqlite.Option) *sqlite.Ledger {
	tb.Helper()
	l, err := sqlite.Open(tb.Context(), filepath.Join(tb.TempDir(), "notifier.db"), opts...)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := l.Close(); err != nil {
			tb.Error(err)
		}
	})
	return l
}

var benchLane = notifier.Lane{Channel: notifier.ChannelAPNs, Account: "shop", Priority: notifier.PriorityNormal}

// benchIntent is a push of the usual size: 300 bytes of content, one cap.
func benchIntent(i int, lease notifier.FirstLease) notifier.Intent {
	key := fmt.Sprintf("order-%d/shipped", i)
	parts := map[string]string{}
	for _, f := range []string{"type", "recipient", "data", "entity", "version", "to", "locale", "time_zone", "send_at", "expires_at"} {
		parts[f] = notifier.Child(key, f)[:16]
	}
	return notifier.Intent{
		Tenant: "default", Key: key, Type: "order_shipped", Recipient: fmt.Sprintf("u_%d", i), Order: notifier.OrderSendFirst,
		PolicyVersion: "sha256:" + notifier.Child("policy"), Fingerprint: [32]byte{byte(i), byte(i >> 8)}, Parts: parts,
		ExpiresAt: time.Now().Add(24 * time.Hour), KeepFor: 168 * time.Hour, Lease: lease,
		Deliveries: []notifier.Delivery{{
			Lane: benchLane, Address: notifier.Address{Value: notifier.Child("token", key)},
			Content:    json.RawMessage(`{"title":"` + strings.Repeat("x", 280) + `"}`),
			CollapseID: "order-1", EffectKey: notifier.Child(key),
			Terms: notifier.Terms{
				Lease: 2 * time.Minute, SendTimeout: 20 * time.Second, Unknown: notifier.UnknownResend, Tombstone: 15 * time.Minute,
				Retry: notifier.Retry{Initial: 5 * time.Second, Factor: 4, Max: time.Hour, MaxAttempts: 8, MaxUnknown: 5},
				Caps:  []notifier.Cap{{Name: "per-order", Key: notifier.Child(key, "cap"), Limit: 3, Window: time.Hour, Then: notifier.CapSuppress}},
			},
		}},
	}
}

func completions(leased []notifier.Leased) []notifier.Completion {
	done := make([]notifier.Completion, len(leased))
	for i := range leased {
		done[i] = notifier.Completion{
			Hold: leased[i].Hold(), State: notifier.StateSent, Called: true,
			Attempt: notifier.Attempt{StartedAt: leased[i].LeasedAt, Outcome: notifier.OutcomeSent, ProviderStatus: "200", ProviderID: notifier.UUID(leased[i].EffectKey)},
		}
	}
	return done
}

func (b *bench) report(n int) {
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(n), "µs/delivery")
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "deliveries/s")
	b.ReportMetric(float64(b.l.Commits()-b.commits)/float64(n), "commits/delivery")
}

type bench struct {
	*testing.B
	l       *sqlite.Ledger
	commits int64
}

// BenchmarkAcceptLeased is a delivery's life when a worker is free: accepted
// and leased in one commit, completed in another, fifty at a time.
func BenchmarkAcceptLeased(b *testing.B) { cycle(b, notifier.FirstLease{Owner: "w", Count: 1}) }

// BenchmarkAcceptLeaseComplete is the same through the queue: three commits.
func BenchmarkAcceptLeaseComplete(b *testing.B) { cycle(b, notifier.FirstLease{}) }

func cycle(tb *testing.B, lease notifier.FirstLease) {
	b := &bench{B: tb, l: benchLedger(tb)}
	ctx, n := context.Background(), 0
	b.commits = b.l.Commits()
	for b.Loop() {
		b.StopTimer() // the caller's work
		intents := make([]notifier.Intent, benchBatch)
		for i := range intents {
			intents[i] = benchIntent(n+i, lease)
		}
		b.StartTimer()
		stored, err := b.l.Accept(ctx, intents)
		if err != nil {
			b.Fatal(err)
		}
		var leased []notifier.Leased
		for i := range stored {
			leased = append(leased, stored[i].Leased...)
		}
		if lease.Count == 0 {
			if leased, err = b.l.Lease(ctx, benchLane, benchBatch, "w"); err != nil {
				b.Fatal(err)
			}
		}
		if len(leased) != benchBatch {
			b.Fatalf("got %d leased, want %d", len(leased), benchBatch)
		}
		if _, err := b.l.Complete(ctx, "w", completions(leased)); err != nil {
			b.Fatal(err)
		}
		n += benchBatch
	}
	b.report(n)
}

// BenchmarkSingle is one delivery at a time, alone.
func BenchmarkSingle(tb *testing.B) {
	b := &bench{B: tb, l: benchLedger(tb)}
	ctx, n := context.Background(), 0
	for b.Loop() {
		stored, err := b.l.Accept(ctx, []notifier.Intent{benchIntent(n, notifier.FirstLease{Owner: "w", Count: 1})})
		if err != nil {
			b.Fatal(err)
		}
		if _, err := b.l.Complete(ctx, "w", completions(stored[0].Leased)); err != nil {
			b.Fatal(err)
		}
		n++
	}
	b.report(n)
}
