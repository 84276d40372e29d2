package main

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// The goals that the report is held against.
const (
	goalRatio = 0.5
	// The goals over Postgres and Redis.
	goalRatioShared  = 0.4
	goalMemoryShared = 200e6
	goalPostgres     = 40 // µs
	goalWAL          = 2000
	goalRoundTrips   = 2
	goalCommits      = 3
	// housekeeping is what the ledger may commit beside, of its own accord.
	housekeeping = 0.05
	goalMemory   = 150e6
)

// benchReport is what a run found. Times are milliseconds, memory is bytes.
type benchReport struct {
	Go       string `json:"go"`
	CPUs     int    `json:"cpus"`
	InFlight int    `json:"in_flight"`
	// Shared says that the stores were Postgres and Redis.
	Shared     bool              `json:"shared,omitempty"`
	Throughput []benchThroughput `json:"throughput"`
	Stores     []benchStores     `json:"stores,omitempty"`
	Single     []benchSingle     `json:"one_at_a_time"`
	Rate       int               `json:"rate"`
	Steady     []benchSteady     `json:"steady"`
	Memory     *benchMemory      `json:"memory,omitempty"`
	Soak       *benchSoak        `json:"soak,omitempty"`
	Check      benchCheck        `json:"check"`
}

type benchThroughput struct {
	Side      string    `json:"side"`
	PerSecond float64   `json:"per_second"`
	Rounds    []float64 `json:"rounds"`
	// Ratio is the median of each round's ratio to the bare chain.
	Ratio float64 `json:"ratio,omitempty"`
	// CPU is what the side's process runs for one, in microseconds.
	CPU float64 `json:"cpu_us,omitempty"`
}

// benchStores is what one delivery costs in the shared stores.
type benchStores struct {
	Side string `json:"side"`
	// Postgres is the processor time of all of the server, in microseconds; 0:
	// it does not run on this machine. WAL is what it logs, in bytes.
	Postgres   float64 `json:"postgres_us"`
	WAL        float64 `json:"wal_bytes"`
	RoundTrips float64 `json:"redis_round_trips"`
}

type benchSingle struct {
	Side           string  `json:"side"`
	Sends          int     `json:"sends"`
	Latency        latency `json:"ms"`
	CommitsPerSend float64 `json:"commits_per_send"`
}

type benchSteady struct {
	Side   string  `json:"side"`
	Accept latency `json:"accept_ms"`
	Wire   latency `json:"wire_ms"`
}

type benchMemory struct {
	Pending         int     `json:"pending"`
	LoadedPerSecond float64 `json:"loaded_per_second"`
	RSS             float64 `json:"resident"`
	Peak            float64 `json:"peak"`
}

type benchSoak struct {
	Lasted    string    `json:"lasted"`
	Rate      int       `json:"rate"`
	First     float64   `json:"first"`
	Last      float64   `json:"last"`
	Most      float64   `json:"most"`
	PerMinute float64   `json:"per_minute"`
	Samples   []float64 `json:"samples"`
}

type benchCheck struct {
	// Compared says that there was a provider's log to look at.
	Compared bool `json:"compared"`
	Accepted int  `json:"accepted"`
	Effects  int  `json:"effects"`
	Lost     int  `json:"lost"`
	Repeated int  `json:"repeated"`
}

// latency is two percentiles, in milliseconds.
type latency struct {
	P50 float64 `json:"p50"`
	P99 float64 `json:"p99"`
}

func latencyOf(all []time.Duration) latency {
	if len(all) == 0 {
		return latency{}
	}
	slices.Sort(all)
	// The smallest that is no less than so large a part of all.
	at := func(part float64) float64 {
		return float64(all[int(math.Ceil(part*float64(len(all))))-1]) / float64(time.Millisecond)
	}
	return latency{P50: at(0.50), P99: at(0.99)}
}

func median(all []float64) float64 {
	if len(all) == 0 {
		return 0
	}
	s := slices.Sorted(slices.Values(all))
	return (s[(len(s)-1)/2] + s[len(s)/2]) / 2
}

// ratios divides what the same round gave for two sides.
func ratios(a, b []float64) []float64 {
	r := make([]float64, min(len(a), len(b)))
	for i := range r {
		r[i] = a[i] / b[i]
	}
	return r
}

// text writes the report for people.
func (r *benchReport) text(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	row := func(format string, args ...any) { fmt.Fprintf(t, format+"\n", args...) }
	row("%s, %d CPUs, %d requests in flight", r.Go, r.CPUs, r.InFlight)
	row("\naccepted and sent\tper second\tof the bare chain\tCPU µs each\trounds")
	for _, x := range r.Throughput {
		ratio := ""
		if x.Ratio > 0 {
			goal := goalRatio
			if r.Shared {
				goal = goalRatioShared
			}
			ratio = fmt.Sprintf("%.2f (goal: at least %.1f, %s)", x.Ratio, goal, met(x.Ratio >= goal))
		}
		row("  %s\t%.0f\t%s\t%.0f\t%s", x.Side, x.PerSecond, ratio, x.CPU, strings.Trim(fmt.Sprintf("%.0f", x.Rounds), "[]"))
	}
	r.storesText(row)
	row("\none at a time, until sent\tms p50\tp99\tcommits a send")
	for _, x := range r.Single {
		commits := ""
		if x.CommitsPerSend > 0 {
			commits = fmt.Sprintf("%.2f (goal: at most %d, %s)", x.CommitsPerSend, goalCommits, met(x.CommitsPerSend <= goalCommits+housekeeping))
		}
		row("  %s\t%.2f\t%.2f\t%s", x.Side, x.Latency.P50, x.Latency.P99, commits)
	}
	row("\nat %d a second\taccepted ms p50\tp99\ton the wire p50\tp99", r.Rate)
	for _, x := range r.Steady {
		row("  %s\t%.2f\t%.2f\t%.2f\t%.2f", x.Side, x.Accept.P50, x.Accept.P99, x.Wire.P50, x.Wire.P99)
	}
	r.memoryText(row)
	r.Check.text(row)
	return t.Flush()
}

func (r *benchReport) storesText(row func(string, ...any)) {
	if len(r.Stores) == 0 {
		return
	}
	row("\na delivery costs\tPostgres CPU µs\tWAL bytes\tRedis round trips")
	held := func(format string, got, goal float64) string {
		return fmt.Sprintf(format+" (goal: at most "+format+", %s)", got, goal, met(got <= goal))
	}
	for _, x := range r.Stores {
		cpu := "not on this machine"
		if x.Postgres > 0 {
			cpu = held("%.0f", x.Postgres, goalPostgres)
		}
		row("  %s\t%s\t%s\t%s", x.Side, cpu, held("%.0f", x.WAL, goalWAL), held("%.2f", x.RoundTrips, goalRoundTrips))
	}
}

func (r *benchReport) memoryText(row func(string, ...any)) {
	if m := r.Memory; m != nil {
		row("\nmemory with %d deliveries pending (taken in at %.0f a second)\t", m.Pending, m.LoadedPerSecond)
		goal := goalMemory
		if r.Shared {
			goal = goalMemoryShared
		}
		if m.RSS > 0 {
			row("  resident under load\t%.0f MB (goal: under %.0f MB, %s); %.0f MB at most while they came in", m.RSS/1e6, goal/1e6, met(m.RSS < goal), m.Peak/1e6)
		} else {
			row("  this system does not tell")
		}
	}
	if s := r.Soak; s != nil {
		row("\nmemory over %s at %d a second\t", s.Lasted, s.Rate)
		row("  resident\t%.0f MB after a third, %.0f MB at the end, %.0f MB at most; %+.2f MB a minute", s.First/1e6, s.Last/1e6, s.Most/1e6, s.PerMinute/1e6)
	}
}

func (c *benchCheck) text(row func(string, ...any)) {
	if !c.Compared {
		row("\n%d accepted; the provider's log was not looked at", c.Accepted)
		return
	}
	row("\nthe provider's log: %d accepted, %d effects, %d lost, %d with more than one", c.Accepted, c.Effects, c.Lost, c.Repeated)
}

func met(ok bool) string {
	if ok {
		return "met"
	}
	return "missed"
}
