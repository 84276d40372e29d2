package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"time"

	"github.com/seed-4b260dfd/notifier"
)

// benchSettings are what the flags say.
type benchSettings struct {
	server, typ, log string
	ledger, claims   string
	inflight         int
	duration         time.Duration
	rate             int
	order            string
	pending          int
	soak             time.Duration
	json             bool
}

// bench measures a server: one that it starts, with providers and the bare
// chain beside it, or one that is named. What a person asks of it is the ratio
// to the bare chain: the figures by themselves are those of the machine.
func (c command) bench(ctx context.Context, p *process, args []string) error {
	if len(args) == 2 && args[0] == "chain" {
		return serveChain(ctx, p, args[1])
	}
	f := c.flags()
	var s benchSettings
	f.StringVar(&s.server, "server", "", "load the server at this `URL` instead of starting one")
	f.StringVar(&s.typ, "type", "", "with -server: the `type` to send; its policy sends over apns and asks for the datum n")
	f.StringVar(&s.log, "provider-log", "", "with -server: the log `FILE` of the simulator that it sends to, to check")
	f.StringVar(&s.ledger, "ledger", "", "start the server over this empty Postgres database: a postgres:// `URL`; with -claims")
	f.StringVar(&s.claims, "claims", "", "start the server over this empty Redis: a redis:// `URL`; with -ledger")
	f.IntVar(&s.inflight, "inflight", 100, "the `number` of requests under way at once")
	f.DurationVar(&s.duration, "duration", 10*time.Second, "how `long` each measurement lasts on each side")
	f.IntVar(&s.rate, "rate", 1000, "the requests `per second` of the measurement at a steady rate")
	f.StringVar(&s.order, "order", "both", "`both`, send_first or claim_first")
	f.IntVar(&s.pending, "pending", 0, "how `many` deliveries wait for a later time while memory is measured; 0: not measured")
	f.DurationVar(&s.soak, "soak", 0, "how `long` half the rate goes on while memory is watched; 0: not at all")
	f.BoolVar(&s.json, "json", false, "print the report as JSON")
	if _, err := c.parse(p, f, args); err != nil {
		return err
	}
	if err := s.check(); err != nil {
		return err
	}
	b, err := openBench(ctx, p, &s)
	if err != nil {
		return err
	}
	defer b.close()
	if err := b.run(ctx); err != nil {
		return err
	}
	if err := b.report.print(p.stdout, s.json); err != nil {
		return err
	}
	return b.report.Check.verdict()
}

// maxBenchInFlight is about the number of requests that a server takes in at once.
const maxBenchInFlight = 1000

func (s *benchSettings) check() error {
	orders := map[string]bool{"both": true, string(notifier.OrderSendFirst): true, string(notifier.OrderClaimFirst): true}
	switch {
	case s.inflight < 1 || s.inflight > maxBenchInFlight:
		return wrongUsage("bench: -inflight %d; allowed is 1 to %d", s.inflight, maxBenchInFlight)
	case s.duration < time.Second:
		return wrongUsage("bench: -duration %s is too short to measure; 1s is the least", s.duration)
	case s.rate < 1 || s.rate > 100_000:
		return wrongUsage("bench: -rate %d; allowed is 1 to 100000", s.rate)
	case !orders[s.order]:
		return wrongUsage("bench: there is no order %q; allowed: both, send_first, claim_first", s.order)
	case s.pending < 0 || s.soak < 0:
		return wrongUsage("bench: -pending and -soak are not negative")
	case (s.ledger == "") != (s.claims == ""):
		return wrongUsage("bench: -ledger and -claims go together")
	case s.server != "" && s.ledger != "":
		return wrongUsage("bench: -ledger and -claims are for a server that is started: leave -server out")
	case s.server == "" && (s.typ != "" || s.log != ""):
		return wrongUsage("bench: -type and -provider-log go with -server")
	case s.server != "" && s.typ == "":
		return wrongUsage("bench: -type is missing: name the type to send through %s", s.server)
	case s.server != "" && (s.pending > 0 || s.soak > 0):
		return wrongUsage("bench: -pending and -soak read the memory of a process on this machine: leave -server out")
	}
	return nil
}

// benchRun is one run: its sides, what was sent to them, and the report.
type benchRun struct {
	*benchSettings
	p      *process
	world  *benchWorld // nil with -server
	load   *loader
	chain  *side // nil with -server
	orders []*side
	log    *effectLog // nil: there is no log to look at
	// stores measures the Postgres that the server was started over; nil: none.
	stores *meter
	report benchReport
}

// openBench starts what is to be measured.
func openBench(ctx context.Context, p *process, s *benchSettings) (*benchRun, error) {
	b := &benchRun{benchSettings: s, p: p, load: newLoader(s.inflight, p.getenv("NOTIFIER_API_KEY"))}
	b.report.Go, b.report.CPUs, b.report.InFlight = runtime.Version(), runtime.NumCPU(), s.inflight
	if s.server != "" {
		cl, err := newClient(s.server, p.getenv)
		if err != nil {
			return nil, err
		}
		b.orders = []*side{{name: s.typ, base: cl.base, typ: s.typ}}
		if s.log != "" {
			b.log = &effectLog{path: s.log}
			return b, b.log.skip()
		}
		return b, nil
	}
	w, err := startWorld(ctx, s)
	if err != nil {
		return nil, err
	}
	if s.ledger != "" {
		if b.stores, err = openMeter(ctx, s.ledger); err != nil {
			w.close()
			return nil, err
		}
		b.report.Shared = true
	}
	b.world, b.log = w, &effectLog{path: w.log()}
	b.chain = &side{name: "bare chain", base: w.chain.url, typ: benchSendFirst, bare: true, process: w.chain}
	for _, o := range benchOrders {
		if s.order == "both" || s.order == string(o.order) {
			b.orders = append(b.orders, &side{name: string(o.order), base: w.server.url, typ: o.typ, process: w.server})
		}
	}
	return b, nil
}

func (b *benchRun) close() {
	b.load.http.CloseIdleConnections()
	b.stores.close()
	if b.world != nil {
		b.world.close()
	}
}

// sides is everything that is compared, the bare chain first.
func (b *benchRun) sides() []*side {
	if b.chain == nil {
		return b.orders
	}
	return append([]*side{b.chain}, b.orders...)
}

// run takes the measurements one after the other. A failure that leaves the
// figures without meaning ends it.
func (b *benchRun) run(ctx context.Context) error {
	for _, step := range []struct {
		name string
		do   func(context.Context) error
		want bool
	}{
		{"throughput", b.throughput, true},
		{"one at a time", b.single, true},
		{"steady rate", b.steady, true},
		{"memory", b.memory, b.pending > 0},
		{"soak", b.soakRun, b.soak > 0},
		{"check", b.check, true},
	} {
		if !step.want {
			continue
		}
		fmt.Fprintf(b.p.stderr, "bench: %s…\n", step.name)
		if err := step.do(ctx); err != nil {
			return fmt.Errorf("measure %s: %w", step.name, err)
		}
	}
	return ctx.Err()
}

// print writes the report, for people or for programs.
func (r *benchReport) print(w io.Writer, asJSON bool) error {
	if asJSON {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(r)
	}
	return r.text(w)
}
