package main

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// benchRounds is into how many turns a measurement is cut. The sides take them
// alternately, so that whatever else the machine does meets all of them.
const benchRounds = 5

// turns calls one for each side in each round, every second round backwards.
func (b *benchRun) turns(one func(s *side) error) error {
	sides := b.sides()
	for range benchRounds {
		for _, s := range sides {
			if err := one(s); err != nil {
				return err
			}
		}
		slices.Reverse(sides)
	}
	return nil
}

// throughput is how many notifications a second are accepted and sent, with
// single requests and some of them always under way. The clock of a round ends
// when the last is sent and that is written down.
func (b *benchRun) throughput(ctx context.Context) error {
	lasts := b.duration / benchRounds
	for _, s := range b.sides() {
		if _, err := b.round(ctx, s, lasts/2); err != nil { // to warm up
			return err
		}
	}
	turns := map[*side][]turn{}
	err := b.turns(func(s *side) error {
		t, err := b.round(ctx, s, lasts)
		turns[s] = append(turns[s], t)
		return err
	})
	if err != nil {
		return err
	}
	for _, s := range b.sides() {
		t := benchThroughput{Side: s.name, Rounds: rates(turns[s]), CPU: median(cpus(turns[s]))}
		t.PerSecond = median(t.Rounds)
		if b.chain != nil && !s.bare {
			t.Ratio = median(ratios(t.Rounds, rates(turns[b.chain])))
		}
		b.report.Throughput = append(b.report.Throughput, t)
		if b.stores != nil && !s.bare {
			b.report.Stores = append(b.report.Stores, costOf(s.name, turns[s]))
		}
	}
	return nil
}

// turn is one side's part in a round.
type turn struct {
	sent int
	took time.Duration
	// cpu is what the side's process ran for.
	cpu time.Duration
	// stores is what the round cost in Postgres and Redis.
	stores cost
}

func rates(all []turn) []float64 {
	var r []float64
	for _, t := range all {
		r = append(r, float64(t.sent)/t.took.Seconds())
	}
	return r
}

// cpus is each turn's processor time for one notification, in microseconds.
func cpus(all []turn) []float64 {
	var r []float64
	for _, t := range all {
		r = append(r, float64(t.cpu.Microseconds())/float64(max(1, t.sent)))
	}
	return r
}

func (b *benchRun) round(ctx context.Context, s *side, lasts time.Duration) (t turn, err error) {
	before, err := b.counters(ctx, s)
	if err != nil {
		return t, err
	}
	stores, err := b.stores.read(ctx)
	if err != nil {
		return t, err
	}
	cpu, start := s.cpu(), time.Now()
	until := start.Add(lasts)
	t.sent, err = b.load.closed(ctx, b.inflight, func() bool { return time.Now().Before(until) },
		func(ctx context.Context) error { return b.load.send(ctx, s, time.Now()) })
	if err != nil {
		return t, err
	}
	if err := b.awaitSent(ctx, s, before.sent+float64(t.sent)); err != nil {
		return t, err
	}
	t.took, t.cpu = time.Since(start), s.cpu()-cpu
	after, err := b.stores.read(ctx)
	if err != nil {
		return t, err
	}
	c, err := b.counters(ctx, s)
	t.stores = cost{after.cpu - stores.cpu, after.wal - stores.wal, c.roundTrips - before.roundTrips}
	return t, err
}

func (s *side) cpu() time.Duration {
	if s.process == nil {
		return 0
	}
	return s.process.cpu()
}

// single is what one notification takes when nothing else is under way.
func (b *benchRun) single(ctx context.Context) error {
	took, commits := map[*side][]time.Duration{}, map[*side]float64{}
	err := b.turns(func(s *side) error {
		before, err := b.counters(ctx, s)
		if err != nil {
			return err
		}
		for until := time.Now().Add(b.duration / benchRounds / 2); time.Now().Before(until); {
			start := time.Now()
			// A bare chain pays no heed to the wait: its answer is that.
			if err := b.load.send(ctx, s, start, "Prefer", "wait=10"); err != nil {
				return err
			}
			took[s] = append(took[s], time.Since(start))
		}
		after, err := b.counters(ctx, s)
		commits[s] += after.commits - before.commits
		return err
	})
	if err != nil {
		return err
	}
	for _, s := range b.sides() {
		b.report.Single = append(b.report.Single, benchSingle{
			Side: s.name, Sends: len(took[s]), Latency: latencyOf(took[s]), CommitsPerSend: commits[s] / float64(len(took[s])),
		})
	}
	return nil
}

// steady is how long acceptance, and the way to the provider, take at a rate
// that does not wait for answers.
func (b *benchRun) steady(ctx context.Context) error {
	b.report.Rate = b.rate
	for _, s := range b.sides() {
		before, err := b.counters(ctx, s)
		if err != nil {
			return err
		}
		from := b.load.booked()
		if err := b.load.open(ctx, s, b.rate, b.duration); err != nil {
			return err
		}
		to := b.load.booked()
		if err := b.awaitSent(ctx, s, before.sent+float64(to-from)); err != nil {
			return err
		}
		if err := b.readLog(); err != nil {
			return err
		}
		var accept, wire []time.Duration
		for _, x := range b.load.shots[from:to] {
			accept = append(accept, time.Duration(x.answered-x.at))
			if x.wire != 0 {
				wire = append(wire, time.Duration(x.wire-x.at))
			}
		}
		b.report.Steady = append(b.report.Steady, benchSteady{Side: s.name, Accept: latencyOf(accept), Wire: latencyOf(wire)})
	}
	return nil
}

// counters are what is read of a server's metrics.
type counters struct{ sent, commits, roundTrips float64 }

// counters reads the metrics; a bare chain has none.
func (b *benchRun) counters(ctx context.Context, s *side) (c counters, err error) {
	if s.bare {
		return c, nil
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.base+"/metrics", nil)
	if err != nil {
		return c, fmt.Errorf("read the metrics: %w", err)
	}
	if b.load.key != "" {
		req.Header.Set("Authorization", "Bearer "+b.load.key)
	}
	resp, err := b.load.http.Do(req)
	if err != nil {
		return c, fmt.Errorf("read the metrics: %w", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return c, fmt.Errorf("read the metrics: %s answered %s", req.URL, resp.Status)
	}
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		if err := c.add(lines.Text(), s.typ); err != nil {
			return c, err
		}
	}
	return c, lines.Err()
}

// add takes in one line of the text format.
func (c *counters) add(line, typ string) error {
	name, value, _ := strings.Cut(line, " ")
	into := (*float64)(nil)
	switch {
	case name == "notifier_ledger_commits_total":
		into = &c.commits
	case name == "notifier_redis_round_trips_total":
		into = &c.roundTrips
	case strings.HasPrefix(name, "notifier_finished_total{") &&
		strings.Contains(name, `state="sent"`) && strings.Contains(name, `type="`+typ+`"`):
		into = &c.sent
	default:
		return nil
	}
	n, err := strconv.ParseFloat(value, 64)
	if err != nil {
		return fmt.Errorf("read the metric %s: %w", name, err)
	}
	*into += n
	return nil
}

const (
	sentEvery    = 10 * time.Millisecond
	sentPatience = time.Minute
)

// awaitSent waits until so many of the side's type have been sent. What ends
// otherwise, or not at all, is a minute without progress.
func (b *benchRun) awaitSent(ctx context.Context, s *side, want float64) error {
	if s.bare {
		return nil // answered is sent
	}
	tick := time.NewTicker(sentEvery)
	defer tick.Stop()
	last, since := -1.0, time.Now()
	for {
		c, err := b.counters(ctx, s)
		switch {
		case err != nil:
			return err
		case c.sent >= want:
			return nil
		case c.sent > last:
			last, since = c.sent, time.Now()
		case time.Since(since) > sentPatience:
			return fmt.Errorf("%s: %.0f notifications have not been sent after %s without progress", s.name, want-c.sent, sentPatience)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
