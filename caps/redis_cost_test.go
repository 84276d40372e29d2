package caps

import (
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seed-4b260dfd/notifier/redisscript"
	"github.com/seed-4b260dfd/notifier/servertest"
)

// README quotes what a cap costs in Redis; this keeps the figures honest. The
// prefix is as long as the id of a ledger.
func TestRedis_BytesPerScopeAndUnit(t *testing.T) {
	t.Parallel()
	needsServer(t)
	const n, units, mostScope, mostUnit = 20_000, 9, 300, 80
	server := servertest.NewRedis(t)
	client := server.Client()
	r := NewRedis(redisscript.NewRunner(client), "0197f3a1-c9b0-7d8e-a5f2-3c1b6d4e8f90")
	records := func(from, to int) []Spent {
		var all []Spent
		for i := range n {
			c := Cap{Name: "c", Key: fmt.Sprintf("%064x", i), Slot: fmt.Sprintf("%08x", i), Limit: 100, Window: time.Hour}
			for u := from; u < to; u++ {
				all = append(all, Spent{Cap: c, Unit: "ntf_000000000000000000000000:apns:" + strconv.Itoa(u), Holder: "dlv_000000000000000000000000", At: time.Now()})
			}
		}
		return all
	}
	before := memoryOf(t, client)
	fill := func(from, to int) float64 {
		all := records(from, to)
		before := memoryOf(t, client)
		if err := r.FillAll(t.Context(), all); err != nil {
			t.Fatal(err)
		}
		return float64(memoryOf(t, client)-before) / n
	}
	scope := fill(0, 1)
	unit := fill(1, units) / (units - 1)
	t.Logf("%.0f bytes per scope with its first unit, %.0f per further unit; %d MB in all", scope, unit, (memoryOf(t, client)-before)>>20)
	if scope > mostScope || unit > mostUnit || scope < 100 || unit < 20 {
		t.Errorf("got %.0f bytes per scope and %.0f per unit, want at most %d and %d", scope, unit, mostScope, mostUnit)
	}
}

// memoryOf returns what a server's data takes, its tables of keys included.
func memoryOf(t *testing.T, client redis.UniversalClient) int64 {
	t.Helper()
	info, err := client.Info(t.Context(), "memory").Result()
	if err != nil {
		t.Fatal(err)
	}
	var all, others int64
	for line := range strings.Lines(info) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		n, _ := strconv.ParseInt(value, 10, 64)
		switch name {
		case "used_memory":
			all = n
		case "mem_clients_normal", "mem_aof_buffer":
			others += n
		}
	}
	if all == 0 || others == 0 {
		t.Fatal("the server does not say what it uses")
	}
	return all - others
}

func benchRunner(b *testing.B) (*redisscript.Runner, *Redis) {
	b.Helper()
	client, err := redisscript.Open(servertest.NewRedis(b).URL())
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = client.Close() })
	run := redisscript.NewRunner(client)
	return run, NewRedis(run, "0197f3a1-c9b0-7d8e-a5f2-3c1b6d4e8f90")
}

// Two caps decided together, over a hundred thousand recipients, by as many
// callers as an account has slots.
func BenchmarkRedis_Spend(b *testing.B) {
	run, r := benchRunner(b)
	var next atomic.Int64
	b.SetParallelism(50)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			i := int(next.Add(1))
			key := strconv.Itoa(i % 100_000)
			on := []Cap{
				{Name: "a", Key: key + "a", Slot: key, Limit: 3, Window: time.Hour},
				{Name: "b", Key: key + "b", Slot: key, Limit: 20, Window: 24 * time.Hour},
			}
			if _, err := r.Spend(b.Context(), strconv.Itoa(i), "h", on); err != nil {
				b.Error(err)
				return
			}
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "spends/s")
	b.ReportMetric(float64(run.RoundTrips())/float64(b.N), "trips/spend")
}

// Caps rebuilt from a ledger: four units of each recipient, in the order of
// their times.
func BenchmarkRedis_FillAll(b *testing.B) {
	_, r := benchRunner(b)
	const batch = 10_000
	records := make([]Spent, 0, batch)
	start := time.Now().Add(-30 * time.Minute)
	b.ResetTimer()
	for i := range b.N {
		key := strconv.Itoa(i % (b.N/4 + 1))
		c := Cap{Name: "c", Key: key, Slot: key, Limit: 100, Window: time.Hour}
		records = append(records, Spent{Cap: c, Unit: strconv.Itoa(i), Holder: "h", At: start.Add(time.Duration(i))})
		if len(records) == batch || i == b.N-1 {
			if err := r.FillAll(b.Context(), records); err != nil {
				b.Fatal(err)
			}
			records = records[:0]
		}
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "units/s")
}
