package postgres_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/seed-4b260dfd/notifier"
	"github.com/seed-4b260dfd/notifier/ledger/postgres"
	"github.com/seed-4b260dfd/notifier/servertest"
)

// measured leaves out what takes minutes and gigabytes unless it is asked for.
func measured(t *testing.T) {
	t.Helper()
	if os.Getenv("NOTIFIER_MEASURE") == "" {
		t.Skip("NOTIFIER_MEASURE is not set: make bench-ledger measures")
	}
}

// fillSQL puts deliveries that were sent into today's partitions, in the order
// of their time, as they would stand there after a day's work.
var fillSQL = []string{
	`CREATE TEMPORARY TABLE filled AS SELECT (lpad(to_hex(day + i * ((now - day) / $1)), 12, '0') || '70008' || lpad(to_hex(i), 15, '0'))::uuid AS nid,
			i, to_timestamp((day + i * ((now - day) / $1)) / 1000.0) AS at
		FROM (SELECT (extract(epoch FROM date_trunc('day', now() AT TIME ZONE 'UTC')) * 1000)::bigint AS day,
			(extract(epoch FROM now()) * 1000)::bigint AS now) t, generate_series(0, $1 - 1) AS i`,
	`INSERT INTO idem (tenant, key, nid, keep_until) SELECT 'shop', 'filled-' || i, nid, at + interval '72 hours' FROM filled`,
	`INSERT INTO notification (nid, accepted_at, policy, deliveries, tenant, key, recipient, fingerprint, parts)
		SELECT nid, at, 1, 1, 'shop', 'filled-' || i, 'u_' || i, sha256('x'), '\x00' FROM filled`,
	`INSERT INTO delivery (nid, send_at, ch, terms, lane, caps, address, content, effect_key)
		SELECT nid, at, 0, 1, 1, '', '\x7431', '{"title":"Your order left"}', '\x7431' FROM filled`,
	`INSERT INTO outcome (nid, ch, lane, ord, state, reason, fence, owner, closed, tries, maybe, finished_at, called, outcome, attempt_reason,
			provider_status, provider_id, started_at, unit)
		SELECT nid, 0, 1, 'send_first', 'sent', '', 1, 'me', 'complete', 0, 0, at, true, 'sent', '', '200', 'p', at, 1 FROM filled`,
	`DROP TABLE filled`,
	`VACUUM (ANALYZE) idem, notification, delivery, outcome`,
}

// sized is a ledger with so many sent deliveries in it.
type sized struct {
	rows  int
	l     *postgres.Ledger
	rates []float64
	cpu   []float64
}

func newSized(t *testing.T, server *servertest.Postgres, rows int) *sized {
	t.Helper()
	url := server.Database(t)
	if _, err := postgres.Migrate(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	l, err := postgres.Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	pass(t, l, notifier.OrderClaimFirst, "first", 1000) // with the words that the rest refers to
	c, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background())
	began := time.Now()
	for i, sql := range fillSQL {
		var args []any
		if i == 0 {
			args = append(args, pgx.QueryExecModeSimpleProtocol, int64(rows))
		}
		if _, err := c.Exec(t.Context(), sql, args...); err != nil {
			t.Fatalf("fill the ledger: %v", err)
		}
	}
	t.Logf("%d rows filled in after %s", rows, time.Since(began).Round(time.Second))
	return &sized{rows: rows, l: l}
}

// What a delivery costs does not grow with what the ledger holds. The two
// ledgers take turns, so that whatever else the machine does meets both.
func TestMeasure_LargeLedger(t *testing.T) {
	measured(t)
	server := servertest.NewPostgres(t, "max_wal_size=16GB", "checkpoint_timeout=30min", "wal_compression=lz4", "shared_buffers=1GB")
	ledgers := []*sized{newSized(t, server, 1_000_000), newSized(t, server, 10_000_000)}
	maintenance, err := pgx.Connect(t.Context(), server.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer maintenance.Close(context.Background())
	if _, err := maintenance.Exec(t.Context(), `CHECKPOINT`); err != nil {
		t.Fatal(err)
	}
	const rounds, size = 10, 20_000
	var ratios []float64
	for round := range rounds + 1 {
		for _, s := range ledgers {
			cpu, began := processorTime(t, server.Pid()), time.Now()
			pass(t, s.l, notifier.OrderClaimFirst, "round"+strconv.Itoa(round)+"-", size)
			if round == 0 {
				continue // to warm up
			}
			s.rates = append(s.rates, size/time.Since(began).Seconds())
			s.cpu = append(s.cpu, float64((processorTime(t, server.Pid())-cpu).Microseconds())/size)
		}
		slices.Reverse(ledgers)
		if round > 0 {
			small, large := ledgers[0], ledgers[1]
			if small.rows > large.rows {
				small, large = large, small
			}
			ratios = append(ratios, large.rates[round-1]/small.rates[round-1])
		}
	}
	for _, s := range ledgers {
		t.Logf("%8d delivered rows: accept to sent %6.0f a second, %.0f µs of Postgres CPU a delivery (medians of %d rounds of %d)",
			s.rows, middle(s.rates), middle(s.cpu), rounds, size)
	}
	ratio := middle(ratios)
	t.Logf("ten times the rows: %+.1f %% of the rate (goal: within 10 %%)", 100*(ratio-1))
	if ratio < 0.9 {
		t.Errorf("the rate falls to %.2f of what it is with a tenth of the rows, want 0.9 or more", ratio)
	}
}

func middle(all []float64) float64 {
	s := slices.Sorted(slices.Values(all))
	return (s[(len(s)-1)/2] + s[len(s)/2]) / 2
}

// A transaction that somebody holds open keeps every dead row in place.
func TestMeasure_HeldTransaction(t *testing.T) {
	measured(t)
	const rate, lasts = 5000, time.Minute
	server := servertest.NewPostgres(t, "max_wal_size=8GB", "wal_compression=lz4", "shared_buffers=512MB")
	url := server.Database(t)
	if _, err := postgres.Migrate(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	l, err := postgres.Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	holdTransaction(t, url)
	ctx, cancel := context.WithTimeout(t.Context(), lasts)
	defer cancel()
	b := load{l: l, steady: true}
	cpu := processorTime(t, server.Pid())
	b.run(ctx, t, rate)
	cpu = processorTime(t, server.Pid()) - cpu
	done := b.done.Load()
	t.Logf("%d a second for %s with a transaction held open: %d accepted, %d done, backlog at most %d (goal: under %d), lease p50 %s p99 %s, %s of Postgres CPU a delivery",
		rate, lasts, b.accepted.Load(), done, b.backlog.Load(), rate, quantile(b.leases, 0.5), quantile(b.leases, 0.99),
		fmt.Sprintf("%.0f µs", float64(cpu.Microseconds())/float64(max(1, done))))
	if n := b.accepted.Load(); n < rate*int64(lasts.Seconds())*95/100 {
		t.Errorf("%d were accepted: this machine does not make %d a second", n, rate)
	}
	if n := b.backlog.Load(); n >= rate {
		t.Errorf("the backlog came to %d, want less than a second of input", n)
	}
}
