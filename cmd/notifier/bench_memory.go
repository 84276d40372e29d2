package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// memory is what the server's process holds while many deliveries wait, with
// the load of the steady rate on top.
func (b *benchRun) memory(ctx context.Context) error {
	s := b.orders[0]
	later := fmt.Sprintf(`, "send_at": %q`, time.Now().Add(24*time.Hour).UTC().Format(time.RFC3339))
	start := time.Now()
	_, err := b.load.closed(ctx, b.inflight, func() bool { return b.load.scheduled.Load() < int64(b.pending) },
		func(ctx context.Context) error {
			// Numbers that no shot has: these never reach the provider.
			n := 1<<40 + int(b.load.scheduled.Add(1))
			return b.load.post(ctx, s, b.load.token(n), strconv.Itoa(n), later)
		})
	if err != nil {
		return err
	}
	pending := int(b.load.scheduled.Load())
	m := &benchMemory{Pending: pending, LoadedPerSecond: float64(pending) / time.Since(start).Seconds()}
	b.report.Memory = m
	samples, err := b.watched(ctx, b.duration/10, b.rate, b.duration)
	if err != nil {
		return err
	}
	if len(samples) == 0 {
		return nil
	}
	m.RSS = slices.Max(samples)
	m.Peak, err = b.world.server.memory("VmHWM")
	return err
}

// soakRun watches memory for long, at half the rate.
func (b *benchRun) soakRun(ctx context.Context) error {
	every := min(10*time.Second, b.soak/6)
	samples, err := b.watched(ctx, every, max(1, b.rate/2), b.soak)
	if err != nil {
		return err
	}
	r := &benchSoak{Lasted: b.soak.String(), Rate: max(1, b.rate/2), Samples: samples}
	if n := len(samples); n > 2 {
		// The first third fills what is kept for a while: claims, caps, caches.
		r.First, r.Last, r.Most = samples[n/3], samples[n-1], slices.Max(samples)
		r.PerMinute = slope(samples[n/3:]) * float64(time.Minute) / float64(every)
	}
	b.report.Soak = r
	return nil
}

// watched loads the server at a rate and returns its resident bytes as they
// were at every so often. Where the system does not tell there are none.
func (b *benchRun) watched(ctx context.Context, every time.Duration, rate int, lasts time.Duration) ([]float64, error) {
	s := b.orders[0]
	before, err := b.counters(ctx, s)
	if err != nil {
		return nil, err
	}
	from := b.load.booked()
	loaded := make(chan error, 1)
	go func() { loaded <- b.load.open(ctx, s, rate, lasts) }()
	var samples []float64
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			n, err := b.world.server.memory("VmRSS")
			if err != nil {
				return nil, err
			}
			if n > 0 {
				samples = append(samples, n)
			}
		case err := <-loaded:
			if err != nil {
				return nil, err
			}
			return samples, b.awaitSent(ctx, s, before.sent+float64(b.load.booked()-from))
		}
	}
}

// memory reads a line of the process's status, in bytes: VmRSS is what is
// resident, VmHWM the most that ever was. 0: this system does not tell.
func (c *child) memory(field string) (float64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", c.cmd.Process.Pid))
	if os.IsNotExist(err) {
		select {
		case <-c.exited:
			return 0, c.failed()
		default:
			return 0, nil
		}
	}
	if err != nil {
		return 0, fmt.Errorf("read the memory of %s: %w", c.name, err)
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, field+":"); ok {
			kib, err := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 64)
			return kib * 1024, err
		}
	}
	return 0, nil
}

// clockTick is the unit of the times in /proc, which is the same on every Linux.
const clockTick = 10 * time.Millisecond

// cpu is the time that the process has run for. 0: this system does not tell.
func (c *child) cpu() time.Duration {
	s, _ := readStat(c.cmd.Process.Pid)
	return s.own
}

// slope is the least-squares growth from one sample to the next.
func slope(y []float64) float64 {
	n := float64(len(y))
	var sx, sy, sxx, sxy float64
	for i, v := range y {
		x := float64(i)
		sx, sy, sxx, sxy = sx+x, sy+v, sxx+x*x, sxy+x*v
	}
	if d := n*sxx - sx*sx; d != 0 {
		return (n*sxy - sx*sy) / d
	}
	return 0
}
