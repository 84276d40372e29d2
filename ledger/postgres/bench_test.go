package postgres_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/seed-4b260dfd/notifier"
	"github.com/seed-4b260dfd/notifier/ledger/postgres"
	"github.com/seed-4b260dfd/notifier/servertest"
)

// BenchmarkLedger passes deliveries from acceptance to their outcome, and
// reports what each costs the server: processor time and write-ahead log.
func BenchmarkLedger(b *testing.B) {
	for _, order := range []notifier.Order{notifier.OrderClaimFirst, notifier.OrderSendFirst} {
		for _, days := range []int{0, 90} {
			b.Run(fmt.Sprintf("%s/days=%d", order, days), func(b *testing.B) { benchLedger(b, order, days) })
		}
	}
}

func benchLedger(b *testing.B, order notifier.Order, days int) {
	server := servertest.NewPostgres(b, "max_wal_size=8GB", "wal_compression=lz4")
	url := server.Database(b)
	if _, err := postgres.Migrate(b.Context(), url); err != nil {
		b.Fatal(err)
	}
	l, err := postgres.Open(b.Context(), url)
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	c, err := pgx.Connect(b.Context(), url)
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close(context.Background())
	if _, err := c.Exec(b.Context(), `SELECT make_partitions(current_date - $1::int, current_date)`, days); err != nil {
		b.Fatal(err)
	}
	wal := func() (n int64) {
		if err := c.QueryRow(context.Background(), `SELECT (pg_current_wal_lsn() - '0/0'::pg_lsn)::bigint`).Scan(&n); err != nil {
			b.Fatal(err)
		}
		return n
	}
	pass(b, l, order, "warm", 500)
	before, cpu := wal(), processorTime(b, server.Pid())
	b.ResetTimer()
	pass(b, l, order, "k", b.N)
	b.StopTimer()
	b.ReportMetric(float64(wal()-before)/float64(b.N), "WAL-B/delivery")
	b.ReportMetric(float64((processorTime(b, server.Pid())-cpu).Microseconds())/float64(b.N), "server-µs/delivery")
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "deliveries/s")
}

// pass takes n deliveries through, a hundred at a time.
func pass(b testing.TB, l *postgres.Ledger, order notifier.Order, prefix string, n int) {
	b.Helper()
	ctx := context.Background()
	for at := 0; at < n; at += 100 {
		size := min(100, n-at)
		if _, err := l.Accept(ctx, intents(prefix+strconv.Itoa(at), size, order)); err != nil {
			b.Fatal(err)
		}
		got, err := l.Lease(ctx, busyLane, size, "me")
		if err != nil || len(got) != size {
			b.Fatalf("lease: got %d, %v; want %d", len(got), err, size)
		}
		var ends []notifier.Completion
		for from := 0; from < len(got); from += 32 {
			var permits []notifier.Permit
			for _, d := range got[from:min(from+32, len(got))] {
				permits = append(permits, notifier.Permit{Hold: d.Hold(), For: time.Minute})
				ends = append(ends, notifier.Completion{Hold: d.Hold(), State: notifier.StateSent, Called: true,
					Attempt: notifier.Attempt{StartedAt: time.Now(), Outcome: notifier.OutcomeSent, ProviderStatus: "200", ProviderID: notifier.UUID(d.EffectKey)}})
			}
			if order != notifier.OrderClaimFirst {
				continue
			}
			if _, err := l.Permit(ctx, "me", permits); err != nil {
				b.Fatal(err)
			}
		}
		if _, err := l.Complete(ctx, "me", ends); err != nil {
			b.Fatal(err)
		}
	}
}

// processorTime is what a server and its children have used so far.
func processorTime(b testing.TB, parent int) time.Duration {
	b.Helper()
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		b.Fatal(err)
	}
	var ticks int64
	for _, name := range stats {
		text, err := os.ReadFile(name)
		if err != nil {
			continue // it has ended
		}
		// The name in brackets may hold anything; what follows it does not.
		f := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
		if f[1] != strconv.Itoa(parent) && filepath.Base(filepath.Dir(name)) != strconv.Itoa(parent) {
			continue
		}
		for _, i := range []int{11, 12} {
			n, err := strconv.ParseInt(f[i], 10, 64)
			if err != nil {
				b.Fatal(err)
			}
			ticks += n
		}
	}
	return time.Duration(ticks) * (time.Second / 100) // USER_HZ
}
