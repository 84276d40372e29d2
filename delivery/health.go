package delivery

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"time"
)

// Prober is a ledger that tells whether it would take a notification.
type Prober interface {
	// Probe writes what a notification takes, commits, and leaves nothing behind.
	Probe(ctx context.Context) error
}

const (
	// probeEvery is how often the ledger is tried while nothing is accepted
	// anyway. Where nodes share it, it is behind a network and can go away at any
	// time; a file costs a sync of the disk each time.
	probeEvery    = time.Second
	probeAloneFor = 5 * time.Second
	// silence is how much longer than that it may be silent before it counts as
	// away: one statement that is slow is no outage.
	silence      = 2 * time.Second
	silenceAlone = 10 * time.Second
	// probes bounds how many tries may be under way: the second tells one that
	// hangs from a ledger that does.
	probes = 2
	// probeLook is how often it is looked whether one is due.
	probeLook = 100 * time.Millisecond
)

// health says whether the ledger takes writes.
type health struct {
	prober Prober
	// every and silent are probeEvery and silence, by the kind of ledger.
	every, silent time.Duration
	// took is the instant of the last write that the ledger took, and refused is
	// set while it said no to the last try, or could not be reached.
	took    atomic.Int64
	refused atomic.Bool
	// doubted asks for a try now: a write has failed.
	doubted atomic.Bool
	// begun is when the newest try began, and underWay how many there are.
	begun    atomic.Int64
	underWay atomic.Int64
}

func newHealth(p Prober, alone bool) *health {
	if alone {
		return &health{prober: p, every: probeAloneFor, silent: silenceAlone}
	}
	return &health{prober: p, every: probeEvery, silent: silence}
}

// note takes in how the write of a notification ended. Only a try says that the
// ledger takes none: what failed may have been wrong in itself.
func (h *health) note(err error) {
	if err != nil {
		h.doubt(err)
		return
	}
	h.took.Store(time.Now().UnixNano())
	h.refused.Store(false)
}

// doubt has the ledger tried when a write to it has failed.
func (h *health) doubt(err error) {
	if err != nil && codeOf(err) == "" {
		h.doubted.Store(true)
	}
}

// writable reports whether a notification can be stored, as far as is known.
func (h *health) writable() bool {
	return !h.refused.Load() && time.Since(time.Unix(0, h.took.Load())) <= h.every+h.silent
}

// due reports whether it is time for a try.
func (h *health) due(now time.Time) bool {
	since := func(at *atomic.Int64) time.Duration { return now.Sub(time.Unix(0, at.Load())) }
	switch h.underWay.Load() {
	case 0:
		if h.doubted.Swap(false) {
			return true
		}
		if h.refused.Load() {
			return since(&h.begun) >= probeEvery
		}
		return since(&h.took) >= h.every && since(&h.begun) >= probeEvery
	case probes:
		return false
	default:
		return since(&h.begun) >= probeEvery
	}
}

// try tries the ledger. An answer that does not come says nothing: writable sees
// the silence. One that is no is asked for once more, since it may have been
// that of a connection which was dead already.
func (h *health) try(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, ledgerTimeout)
	defer cancel()
	err := h.prober.Probe(ctx)
	if err != nil && !slow(err) {
		err = h.prober.Probe(ctx)
	}
	switch {
	case err == nil:
		h.note(nil)
	case ctx.Err() == nil && !slow(err):
		h.refused.Store(true)
	}
	return err
}

// slow tells the want of an answer from a no.
func slow(err error) bool {
	var timeout net.Error
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) ||
		errors.As(err, &timeout) && timeout.Timeout()
}

// healthLoop tries the ledger whenever one is due, until ctx ends.
func (e *Engine) healthLoop(ctx context.Context) {
	h, well := e.health, true
	look := time.NewTicker(probeLook)
	defer look.Stop()
	said := make(chan error, probes)
	var last error
	for {
		select {
		case last = <-said:
			h.underWay.Add(-1)
		case <-look.C:
		case <-ctx.Done():
			for h.underWay.Load() > 0 {
				<-said
				h.underWay.Add(-1)
			}
			return
		}
		if is := h.writable(); is != well {
			if well = is; well {
				e.log.Warn("the ledger takes writes again")
			} else {
				e.log.Error("the ledger takes no writes: nothing can be accepted", "err", last)
			}
		}
		if now := time.Now(); h.due(now) {
			h.begun.Store(now.UnixNano())
			h.underWay.Add(1)
			go func() { said <- h.try(ctx) }()
		}
	}
}
