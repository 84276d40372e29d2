package delivery

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/seed-4b260dfd/notifier"
)

// Store is where claims and caps are when nodes share one: what is known of it
// besides them. What it loses costs no promise of claim-first, but caps that
// say yes too often and a witness that is blind, and both are to be seen.
type Store interface {
	// Audit says, in words for people, how the store is set that takes something
	// from what is built on it.
	Audit(ctx context.Context) (faults []string, err error)
	// Intact reports whether the store holds what it held when this process last
	// looked; the first time, whether any process has filled it. Once it is not,
	// it is not until Filled.
	Intact(ctx context.Context) (bool, error)
	// Filled says that all was put back that was missing at the last Intact.
	Filled(ctx context.Context) error
	// Lost returns for how much longer the store is known to have lost its data;
	// with a time it first notes, for all that ask, that it did, for that long.
	Lost(ctx context.Context, lasts time.Duration) (left time.Duration, err error)
	// Mark puts a mark in the place of another, or of none, and returns the one
	// that is there then: another one when that other was not there. Without a
	// new one it only reads.
	Mark(ctx context.Context, was, is string) (now string, err error)
}

// The parts of notifier_degraded and of /readyz, besides those of the pauses and
// the accounts that are missing.
const (
	partRedis      = "redis"
	partConfig     = "redis_config"
	partLost       = "redis_data_lost"
	partRebuilding = "caps_rebuilding"
	partPaused     = "paused"
)

const (
	// storeEvery is how often the store is looked at.
	storeEvery = time.Second
	// auditEvery is how often its settings are.
	auditEvery = 10 * time.Second
	// lookTimeout bounds one look. At the start it is how long a store that is
	// away holds up the first lease.
	lookTimeout = 2 * time.Second
)

// watch is what storeLoop remembers from look to look. Only it, and what runs
// before it, uses the fields.
type watch struct {
	down   bool
	faults []string
	// audited is when the settings were last looked at.
	audited time.Time
	// known says that the store has been found intact, or filled, before.
	known bool
	// used says that the ledger was no new one when this process started.
	used bool
	// asked says that the store has said whether it lost its data before.
	asked bool
	// lost says that the store lacks data that it had. It is until Filled.
	lost bool
	// from is since when units have to be put back.
	from time.Time
	// filled is where a rebuild that is under way says how it ended; else nil.
	filled chan error
	// lineage is the mark that ties the ledger to what it was before.
	lineage lineage
}

// watchStore looks at the store for the first time, before the first lease. One
// that is away is no error: the service runs without it, and says so.
func (e *Engine) watchStore(ctx context.Context) error {
	if e.cfg.Store == nil {
		return nil
	}
	// Until it has said that it is whole, it may be one that has lost everything.
	e.rebuilding.Store(true)
	if err := e.askForUse(ctx); err != nil {
		return err
	}
	e.look(ctx)
	if e.watch.filled != nil {
		// Mostly this takes no time, and spares those that wait for it a detour.
		patience := time.NewTimer(lookTimeout)
		defer patience.Stop()
		select {
		case err := <-e.watch.filled:
			e.rebuilt(ctx, err)
		case <-patience.C:
		}
	}
	return e.checkLineage(ctx)
}

// storeLoop looks at the store every second until ctx ends.
func (e *Engine) storeLoop(ctx context.Context) {
	if e.cfg.Store == nil {
		return
	}
	tick := time.NewTicker(storeEvery)
	defer tick.Stop()
	for {
		select {
		case err := <-e.watch.filled:
			e.rebuilt(ctx, err)
			continue
		case <-tick.C:
		case <-ctx.Done():
			if e.watch.filled != nil {
				<-e.watch.filled
			}
			return
		}
		e.look(ctx)
		if err := e.checkLineage(ctx); err != nil && ctx.Err() == nil {
			e.log.Error("look whether the ledger is the one it was", "err", err)
		}
	}
}

// look asks the store how it is, and starts what follows from the answer.
func (e *Engine) look(running context.Context) {
	w := &e.watch
	ctx, cancel := context.WithTimeout(running, lookTimeout)
	defer cancel()
	// First, since one that takes no writes does not get further than that.
	if time.Since(w.audited) >= auditEvery {
		if faults, err := e.cfg.Store.Audit(ctx); err == nil {
			w.audited = time.Now()
			e.noteFaults(faults)
		}
	}
	if w.filled != nil {
		return // a rebuild is to say itself when it has filled what Intact missed
	}
	intact, err := e.cfg.Store.Intact(ctx)
	if running.Err() != nil {
		return
	}
	e.store.note(err)
	e.noteDown(err)
	if err != nil {
		return
	}
	if !e.watch.asked {
		// After Intact: who finds the marker filled finds what was noted before.
		left, err := e.cfg.Store.Lost(ctx, 0)
		if err == nil && left > 0 {
			e.blind(time.Now().Add(left))
		}
		e.watch.asked = err == nil
	}
	e.makeUp(running, intact)
}

// noteDown logs that the store went away, or came back.
func (e *Engine) noteDown(err error) {
	switch down := err != nil; {
	case down && !e.watch.down:
		e.log.Warn("claims and caps cannot be asked: each type goes on or waits as its redis_down says", "err", err)
		e.watch.down = true
	case !down && e.watch.down:
		e.log.Warn("claims and caps answer again")
		e.watch.down = false
	}
}

// noteFaults logs how the store is set, when that has changed.
func (e *Engine) noteFaults(faults []string) {
	w := &e.watch
	if slices.Equal(faults, w.faults) {
		return
	}
	for _, fault := range faults {
		if !slices.Contains(w.faults, fault) {
			e.log.Warn("the store of claims and caps weakens what rests on it", "fault", fault)
		}
	}
	if len(faults) == 0 {
		e.log.Warn("the store of claims and caps is set as it should be again")
	}
	w.faults = faults
	e.misset.Store(len(faults) > 0)
}

// storeParts are the parts of the store that are degraded.
func (e *Engine) storeParts() (parts []string) {
	if e.store.down() {
		parts = append(parts, partRedis)
	}
	if e.misset.Load() {
		parts = append(parts, partConfig)
	}
	if time.Now().UnixNano() < e.blindUntil.Load() {
		parts = append(parts, partLost)
	}
	if e.rebuilding.Load() {
		parts = append(parts, partRebuilding)
	}
	return parts
}

// degraded is everything that is degraded, for /readyz and the gauge.
func (e *Engine) degraded() []string {
	parts := append(e.storeParts(), e.pauses.degraded()...)
	parts = append(parts, e.shutAccounts()...)
	parts = append(parts, e.brakedAccounts()...)
	if o := e.orphans.Load(); o != nil {
		parts = append(parts, *o...)
	}
	return parts
}

var degradedDesc = prometheus.NewDesc("notifier_degraded", "Parts that work less well than they should: 1 for each.", []string{"part"}, nil)

// degradedCollector shows the parts of degraded. Those that are always there
// show 0 while they are well.
type degradedCollector struct{ e *Engine }

// Describe implements prometheus.Collector.
func (degradedCollector) Describe(ch chan<- *prometheus.Desc) { ch <- degradedDesc }

// Collect implements prometheus.Collector.
func (c degradedCollector) Collect(ch chan<- prometheus.Metric) {
	show := map[string]float64{}
	for _, part := range []string{partRedis, partConfig, partLost, partRebuilding, partPaused, string(notifier.PauseRewound)} {
		show[part] = 0
	}
	for _, part := range c.e.degraded() {
		show[part] = 1
	}
	for part, v := range show {
		ch <- prometheus.MustNewConstMetric(degradedDesc, prometheus.GaugeValue, v, part)
	}
}

func (e *Engine) registerStore(reg prometheus.Registerer) error {
	if e.cfg.Store != nil {
		e.store.behind = &e.rebuilding
	}
	for _, c := range []prometheus.Collector{degradedCollector{e}, breakerCollector{e}} {
		if err := reg.Register(c); err != nil {
			return fmt.Errorf("register the metrics: %w", err)
		}
	}
	return nil
}
