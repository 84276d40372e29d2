package delivery

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/seed-4b260dfd/notifier"
)

const (
	// pauseEvery is how often the ledger is asked which pauses are in force: a
	// pause is obeyed on every node within that and the time of an answer.
	pauseEvery = time.Second
	// pauseStale is how long a node goes on leasing without an answer.
	pauseStale = 3 * time.Second
	// pauseRecheck is when a paused delivery is looked at again if no sweep has
	// made it due: rarely, since each look is two writes.
	pauseRecheck = time.Hour
	// pauseEcho is how long after the end of a pause the ledger is told of it
	// once more, when what this node handed back without knowing is written.
	pauseEcho = 2 * time.Second
)

var errPaused = errors.New("the delivery is paused")

// pauses is what this node knows of the pauses in force.
type pauses struct {
	// mu is held from asking the ledger to taking its answer in, so that an
	// older answer never replaces a newer one.
	mu      sync.Mutex
	inForce atomic.Pointer[[]notifier.Pause]
	heard   atomic.Pointer[reading]
	// rewound is until when the ledger's word on what it has accepted and sent is
	// not to be relied on, in Unix nanoseconds: while it is paused for having
	// gone back in time there is no end to that. 0: it never was.
	rewound atomic.Int64
	// echoes are pauses that have ended, and when to say so once more.
	echoes map[string]time.Time
	gauge  *prometheus.GaugeVec
}

func (p *pauses) register(reg prometheus.Registerer) error {
	p.gauge = prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "notifier_pauses", Help: "Pauses in force."}, []string{"cause"})
	p.count(nil)
	return reg.Register(p.gauge)
}

func (p *pauses) count(list []notifier.Pause) {
	for _, c := range notifier.PauseCauses {
		n := 0
		for i := range list {
			if list[i].Cause == c {
				n++
			}
		}
		p.gauge.WithLabelValues(string(c)).Set(float64(n))
	}
}

func (p *pauses) list() []notifier.Pause {
	if l := p.inForce.Load(); l != nil {
		return *l
	}
	return nil
}

// stale reports whether what is known is too old to lease by.
func (p *pauses) stale(now reading) bool {
	heard := p.heard.Load()
	return heard == nil || heard.to(now) > pauseStale
}

// hold reports whether a delivery is paused, and until when; the zero time
// stands for a pause that somebody has to resume.
func (p *pauses) hold(d *notifier.Delivery) (until time.Time, paused bool) {
	for _, one := range p.list() {
		switch {
		case !one.Matches(d):
		case one.Until.IsZero():
			return time.Time{}, true
		default:
			until, paused = later(until, one.Until), true
		}
	}
	return until, paused
}

// paused reports whether no attempt of this delivery may start.
func (w *work) paused() bool {
	_, paused := w.e.pauses.hold(&w.lease.Delivery)
	return paused
}

// holdsBack reports whether a pause holds for deliveries of an intent in a lane.
func (e *Engine) holdsBack(in *notifier.Intent, lane notifier.Lane) bool {
	_, paused := e.pauses.hold(&notifier.Delivery{Tenant: in.Tenant, Type: in.Type, Order: in.Order, Lane: lane})
	return paused
}

// wait is how long a paused delivery is put away for.
func (p *pauses) wait(d *notifier.Delivery) time.Duration {
	until, paused := p.hold(d)
	switch {
	case !paused:
		return 0 // resumed since
	case until.IsZero():
		return pauseRecheck
	}
	return min(max(time.Until(until), time.Second), pauseRecheck)
}

// degraded is what /readyz says of the pauses in force.
func (p *pauses) degraded() (parts []string) {
	list := p.list()
	if len(list) > 0 {
		parts = append(parts, "paused")
	}
	if slices.ContainsFunc(list, func(one notifier.Pause) bool { return one.Cause == notifier.PauseRewound }) {
		parts = append(parts, string(notifier.PauseRewound))
	}
	return parts
}

// pauseLoop keeps up with the pauses that other nodes place and resume.
func (e *Engine) pauseLoop(ctx context.Context) {
	tick := time.NewTicker(pauseEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		if err := e.askForPauses(ctx); err != nil && ctx.Err() == nil {
			e.log.Error("ask for the pauses", "err", err)
		}
	}
}

// askForPauses learns the pauses in force, and repeats the end of those that
// ended a moment ago.
func (e *Engine) askForPauses(ctx context.Context) error {
	p := &e.pauses
	p.mu.Lock()
	defer p.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, ledgerTimeout)
	defer cancel()
	list, err := e.cfg.Ledger.Pauses(ctx)
	if err != nil {
		return err
	}
	e.know(list)
	for id, at := range p.echoes {
		if time.Now().Before(at) {
			continue
		}
		// One that is not found went with a ledger that was put back: nothing waits for it.
		if _, _, err := e.cfg.Ledger.Resume(ctx, id, "", ""); err != nil && codeOf(err) != notifier.CodeNotFound {
			return fmt.Errorf("repeat the end of the pause %s: %w", id, err)
		}
		delete(p.echoes, id)
	}
	return nil
}

// know takes in which pauses are in force. The caller holds pauses.mu.
func (e *Engine) know(list []notifier.Pause) {
	p, now := &e.pauses, time.Now()
	for _, old := range p.list() {
		if slices.ContainsFunc(list, func(one notifier.Pause) bool { return one.ID == old.ID }) {
			continue
		}
		if old.Until.IsZero() || old.Until.After(now) { // the others were due at their end anyway
			if p.echoes == nil {
				p.echoes = map[string]time.Time{}
			}
			p.echoes[old.ID] = now.Add(pauseEcho)
		}
	}
	switch rewound := slices.ContainsFunc(list, func(one notifier.Pause) bool { return one.Cause == notifier.PauseRewound }); {
	case rewound:
		p.rewound.Store(math.MaxInt64)
	case p.rewound.Load() == math.MaxInt64:
		p.rewound.Store(now.UnixNano())
	}
	p.inForce.Store(&list)
	heard := readClocks()
	p.heard.Store(&heard)
	p.count(list)
	for key, a := range e.accounts {
		covered := slices.ContainsFunc(list, func(one notifier.Pause) bool { return one.Covers(key.channel, key.name) })
		if was := a.paused.Swap(covered); was && !covered {
			a.poke()
		}
	}
}

// Pause places a pause. When it returns without error this node starts no
// attempt of what it matches any more, and the others will not within two
// seconds. The same pause placed again gives the first.
func (e *Engine) Pause(_ context.Context, p notifier.Pause) (notifier.Pause, error) {
	if err := e.checkPause(&p); err != nil {
		return notifier.Pause{}, err
	}
	e.pauses.mu.Lock()
	defer e.pauses.mu.Unlock()
	ctx, cancel := write()
	defer cancel()
	placed, err := e.cfg.Ledger.Pause(ctx, p)
	if err != nil {
		return notifier.Pause{}, pauseUnclear(err)
	}
	e.know(append(without(e.pauses.list(), placed.ID), placed))
	e.log.Info("paused", "pause", placed)
	return placed, nil
}

// Resume ends a pause; the ledger keeps by and why. What waited for it is due
// within seconds, on every node. One that has ended already stays as it ended.
func (e *Engine) Resume(_ context.Context, id, by, why string) (notifier.Pause, error) {
	e.pauses.mu.Lock()
	defer e.pauses.mu.Unlock()
	ctx, cancel := write()
	defer cancel()
	over, ended, err := e.cfg.Ledger.Resume(ctx, id, by, why)
	if err != nil {
		return notifier.Pause{}, pauseUnclear(err)
	}
	e.know(without(e.pauses.list(), id))
	if ended {
		e.log.Info("resumed", "pause", over, "by", by, "why", why)
	}
	return over, nil
}

// PausesEnded returns the pauses that have ended since a time, the last first.
func (e *Engine) PausesEnded(ctx context.Context, since time.Time) ([]notifier.Pause, error) {
	list, err := e.cfg.Ledger.PausesEnded(ctx, since)
	if err != nil {
		return nil, unreadable(err)
	}
	return list, nil
}

// Pauses returns the pauses in force, as the ledger has them.
func (e *Engine) Pauses(ctx context.Context) ([]notifier.Pause, error) {
	list, err := e.cfg.Ledger.Pauses(ctx)
	if err != nil {
		return nil, unreadable(err)
	}
	return list, nil
}

func without(list []notifier.Pause, id string) []notifier.Pause {
	return slices.DeleteFunc(slices.Clone(list), func(one notifier.Pause) bool { return one.ID == id })
}

func codeOf(err error) notifier.Code {
	if own := (*notifier.Error)(nil); errors.As(err, &own) {
		return own.Code
	}
	return ""
}

func pauseUnclear(err error) error {
	if codeOf(err) != "" {
		return err
	}
	return &notifier.Error{Code: notifier.CodeLedgerUnavailable, Err: err,
		Message: "it may or may not have been written; ask again: the same said twice is done once"}
}

// checkPause holds a person's pause to what there is, so that a slip of the
// pen does not pause nothing.
func (e *Engine) checkPause(p *notifier.Pause) error {
	wrong := func(field, format string, args ...any) error {
		return &notifier.Error{Code: notifier.CodeInvalid, Field: field, Message: fmt.Sprintf(format, args...)}
	}
	if p.Cause == "" {
		p.Cause = notifier.PauseOperator
	}
	if !p.Selects() {
		return wrong("type", "a pause needs one or more of type, channel, account, tenant")
	}
	if p.Type != "" && e.cfg.Policies.Policy(p.Type) == nil {
		return &notifier.Error{Code: notifier.CodeUnknownType, Field: "type",
			Message: fmt.Sprintf("there is no policy for the type %q; there are %s", p.Type, strings.Join(e.cfg.Policies.Types(), ", "))}
	}
	channels, accounts := map[string]bool{}, map[string]bool{}
	for key := range e.accounts {
		channels[string(key.channel)] = true
		if p.Channel == "" || p.Channel == key.channel {
			accounts[key.name] = true
		}
	}
	if p.Channel != "" && !channels[string(p.Channel)] {
		return wrong("channel", "no account of the channel %q is configured; the channels are %s", p.Channel, sorted(channels))
	}
	if p.Account != "" && !accounts[p.Account] {
		return wrong("account", "there is no account %q there; the accounts are %s", p.Account, sorted(accounts))
	}
	if !p.Until.IsZero() && !p.Until.After(time.Now()) {
		return wrong("until", "the end of a pause lies ahead; leave it out for one that is resumed by hand")
	}
	return nil
}

func sorted(set map[string]bool) string {
	return strings.Join(slices.Sorted(maps.Keys(set)), ", ")
}
