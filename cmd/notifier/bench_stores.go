package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/seed-4b260dfd/notifier/ledger/postgres"
)

// meter reads what a Postgres server has used so far. It asks the server over a
// connection of its own, and the kernel about the server's processes where they
// are on this machine.
type meter struct {
	ledger *postgres.Ledger
	// parent is the server's first process; 0: it is not on this machine.
	parent int
}

// cost is what has been used: processor time of all of the server's processes,
// bytes of its write-ahead log, round trips to Redis.
type cost struct {
	cpu             time.Duration
	wal, roundTrips float64
}

func openMeter(ctx context.Context, ledger string) (*meter, error) {
	l, err := postgres.Open(ctx, ledger)
	if err != nil {
		return nil, err
	}
	m := &meter{ledger: l}
	u, err := l.Usage(ctx)
	if err != nil {
		l.Close()
		return nil, err
	}
	// The number of a process on another machine may be anybody's here.
	if s, ok := readStat(u.Pid); ok && s.name == "postgres" {
		m.parent = s.parent
	}
	return m, nil
}

// read is what has been used so far; none by no meter.
func (m *meter) read(ctx context.Context) (c cost, err error) {
	if m == nil {
		return c, nil
	}
	u, err := m.ledger.Usage(ctx)
	if err != nil {
		return c, err
	}
	c.wal, c.cpu = float64(u.WAL), m.processorTime()
	return c, nil
}

// processorTime is what the server's processes have run for, those that have
// ended included.
func (m *meter) processorTime() (total time.Duration) {
	if m.parent == 0 {
		return 0
	}
	names, _ := filepath.Glob("/proc/[0-9]*") // the pattern is right
	for _, name := range names {
		pid, _ := strconv.Atoi(filepath.Base(name))
		s, ok := readStat(pid)
		switch {
		case !ok:
		case pid == m.parent:
			total += s.own + s.children
		case s.parent == m.parent:
			total += s.own
		}
	}
	return total
}

func (m *meter) close() {
	if m != nil {
		m.ledger.Close()
	}
}

// costOf is the median round's cost of one delivery.
func costOf(side string, all []turn) benchStores {
	var cpu, wal, trips []float64
	for _, t := range all {
		n := float64(max(1, t.sent))
		cpu = append(cpu, float64(t.stores.cpu.Microseconds())/n)
		wal, trips = append(wal, t.stores.wal/n), append(trips, t.stores.roundTrips/n)
	}
	return benchStores{Side: side, Postgres: median(cpu), WAL: median(wal), RoundTrips: median(trips)}
}

// processStat is what the kernel tells of a process.
type processStat struct {
	name   string
	parent int
	// own is its processor time, children that of its children that have ended.
	own, children time.Duration
}

// readStat reads it; not ok: there is no such process, or this system does not tell.
func readStat(pid int) (s processStat, ok bool) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return s, false
	}
	// The name, in brackets, may hold anything, brackets too. After it the
	// state is field 3, the parent 4, and the times are 14 to 17.
	open, end := strings.IndexByte(string(text), '('), strings.LastIndexByte(string(text), ')')
	if open < 0 || end < open {
		return s, false
	}
	f := strings.Fields(string(text[end+1:]))
	if len(f) < 15 {
		return s, false
	}
	n := func(i int) int { v, _ := strconv.Atoi(f[i]); return v }
	s.name, s.parent = string(text[open+1:end]), n(1)
	s.own, s.children = time.Duration(n(11)+n(12))*clockTick, time.Duration(n(13)+n(14))*clockTick
	return s, true
}
