package delivery

import (
	"context"
	"fmt"
	"time"

	"github.com/seed-4b260dfd/notifier"
)

// A ledger that is put back to a backup, or whose standby took over without the
// newest commits, does not know what it has sent since. To notice that, it gives
// out marks, and the store, which was not put back with it, keeps the newest: a
// ledger that has not the commit of that mark has not those before it for sure.

// Marker is a ledger that can tell whether it lost commits. One that belongs to
// a single process has nobody to keep its marks, and is none.
type Marker interface {
	// Mark reports whether the ledger has the commit that gave out a mark, or
	// had a pause with the cause ledger_rewound resumed since, and gives out a
	// new one then: the same again when nothing was committed meanwhile. Without
	// a mark to look for it only gives one out.
	Mark(ctx context.Context, was string) (is string, known bool, err error)
	// Used reports whether the ledger has ever accepted anything that it still
	// knows of.
	Used(ctx context.Context) (bool, error)
	// Changes is how many times the ledger met another server than before. It
	// leases and permits nothing until Trust says that the ledger was looked at
	// after as many.
	Changes() int64
	Trust(changes int64)
}

// lineage is what a node knows of the marks.
type lineage struct {
	// asked says that the store has said which mark it has. Until then none is
	// given out: it would cover up that an older one is missing.
	asked bool
	// newest is the newest mark that is known to this node.
	newest string
	// lost says that the ledger did not know it when it was last asked.
	lost bool
}

// checkLineage looks whether the ledger still is what it was, and moves the
// mark on. Of one that is not, no claim-first delivery is sent until a person
// says so: that is ordered before this returns.
func (e *Engine) checkLineage(ctx context.Context) error {
	marker, ok := e.cfg.Ledger.(Marker)
	if !ok || e.cfg.Store == nil {
		return nil
	}
	changes := marker.Changes()
	l := &e.watch.lineage
	if !l.asked {
		now, err := e.mark(ctx, "", "")
		if err != nil {
			// The store is away, and that is said elsewhere. Without a mark
			// there is nothing to hold the ledger to.
			marker.Trust(changes)
			return nil
		}
		l.asked, l.newest = true, now
	}
	ctx, cancel := context.WithTimeout(ctx, ledgerTimeout)
	defer cancel()
	is, known, err := marker.Mark(ctx, l.newest)
	switch {
	case err != nil:
		return fmt.Errorf("ask the ledger for its mark: %w", err)
	case !known:
		if err := e.rewound(ctx); err != nil {
			return err
		}
		marker.Trust(changes)
		return nil
	}
	marker.Trust(changes)
	if l.lost {
		e.log.Warn("the ledger that went back in time was resumed", "mark", is)
	}
	was := l.newest
	l.newest, l.lost = is, false
	// Another one there: another node has moved it, and this ledger has yet to
	// be asked for that. The next time it is.
	if now, err := e.mark(ctx, was, is); err == nil {
		l.newest = now
	}
	return nil
}

func (e *Engine) mark(ctx context.Context, was, is string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	return e.cfg.Store.Mark(ctx, was, is)
}

// rewound pauses claim-first: what was sent since the ledger's past is not
// known. Send-first goes on; what it may repeat is recognised by its tombstone.
func (e *Engine) rewound(ctx context.Context) error {
	l := &e.watch.lineage
	if !l.lost {
		l.lost = true
		// It will give out fences again that this process has seen.
		e.asserts.forget()
		e.log.Error("the ledger went back in time: it lacks commits that it had acknowledged; claim_first is paused until a person resumes it",
			"mark", l.newest, "cause", causeRewound)
	}
	for _, p := range e.pauses.list() {
		if p.Cause == notifier.PauseRewound && p.Order == notifier.OrderClaimFirst {
			return nil
		}
	}
	_, err := e.Pause(ctx, notifier.Pause{
		Order: notifier.OrderClaimFirst, Cause: notifier.PauseRewound, By: "notifier",
		Why: "the ledger lacks commits that it had acknowledged before " + time.Now().UTC().Format(time.RFC3339) +
			": find out what was sent since, then resume",
	})
	if err != nil {
		return fmt.Errorf("pause claim_first, since the ledger went back in time: %w", err)
	}
	return nil
}
