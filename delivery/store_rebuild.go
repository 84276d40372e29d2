package delivery

import (
	"context"
	"fmt"
	"time"

	"github.com/seed-4b260dfd/notifier"
	"github.com/seed-4b260dfd/notifier/caps"
)

const (
	// fillBatch is how many units are put back at a time.
	fillBatch = 4096
	// fillMargin is by how much a rebuild reaches back behind an outage: for
	// attempts that had begun when it did, and clocks that differ.
	fillMargin = 2 * time.Minute
)

// makeUp starts a rebuild of the caps when the store lacks something: all of
// it, or what was spent while it could not be asked.
func (e *Engine) makeUp(ctx context.Context, intact bool) {
	w, now, outage := &e.watch, time.Now(), e.store.began.Swap(0)
	switch {
	case !intact:
		// One that nobody has filled has lost what it held, unless the ledger is
		// as new as it is.
		if (w.known || w.used) && !w.lost {
			w.lost = true
			e.blind(now.Add(e.longestTombstone()))
		}
		w.from = now.Add(-e.longestWindow())
	case !w.known && outage == 0:
		e.rebuilding.Store(false) // at the start: others have filled it
	case !w.known:
		// Away at the start: for how long it had been, nobody knows.
		w.from = now.Add(-e.longestWindow())
	case outage != 0:
		if from := time.Unix(0, outage).Add(-fillMargin); w.from.IsZero() || from.Before(w.from) {
			w.from = from
		}
	}
	w.known = intact
	if w.from.IsZero() {
		return
	}
	e.rebuilding.Store(true)
	done, from, lost := make(chan error, 1), w.from, w.lost
	w.filled = done
	go func() { done <- e.rebuild(ctx, from, lost) }()
}

// askForUse asks the ledger, before it is used, whether it has been.
func (e *Engine) askForUse(ctx context.Context) error {
	marker, ok := e.cfg.Ledger.(Marker)
	if !ok {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, ledgerTimeout)
	defer cancel()
	var err error
	if e.watch.used, err = marker.Used(ctx); err != nil {
		return fmt.Errorf("ask whether the ledger is a new one: %w", err)
	}
	return nil
}

func (e *Engine) longestTombstone() (longest time.Duration) {
	for _, t := range e.cfg.Policies.Types() {
		longest = max(longest, e.cfg.Policies.Policy(t).Tombstone)
	}
	return longest
}

// blind notes that the witness has forgotten what was sent before it lost its
// data: that is shown until every tombstone from then would have ended.
func (e *Engine) blind(until time.Time) {
	e.blindUntil.Store(max(e.blindUntil.Load(), until.UnixNano()))
	e.log.Warn("the store of claims and caps has lost its data: the caps are rebuilt from the ledger, and what was sent before is recognised by the ledger alone",
		"until", until.UTC().Format(time.RFC3339))
}

// tellLoss has the store keep that it lost its data, for nodes that start later.
func (e *Engine) tellLoss(ctx context.Context) error {
	left := time.Until(time.Unix(0, e.blindUntil.Load()))
	if left <= 0 {
		return nil
	}
	_, err := e.cfg.Store.Lost(ctx, left)
	return err
}

// rebuild fills the caps with what the ledger says was spent since a time.
func (e *Engine) rebuild(ctx context.Context, from time.Time, lost bool) error {
	e.fills.Add(1)
	began, units := time.Now(), 0
	var batch []caps.Spent
	flush := func() error {
		err := e.fillCaps(ctx, batch)
		e.store.note(err)
		units, batch = units+len(batch), batch[:0]
		return err
	}
	err := e.cfg.Ledger.Spent(ctx, from, func(s notifier.Spent) error {
		c := caps.Cap{Name: s.Cap.Name, Key: s.Cap.Key, Slot: s.Cap.Slot, Limit: s.Cap.Limit, Window: s.Cap.Window}
		batch = append(batch, caps.Spent{Cap: c, Unit: s.Unit, Holder: s.Holder.String(), At: s.SpentAt})
		if len(batch) < fillBatch {
			return nil
		}
		return flush()
	})
	if err == nil {
		err = flush()
	}
	if err == nil && lost {
		err = e.tellLoss(ctx)
	}
	if err == nil {
		err = e.cfg.Store.Filled(ctx)
	}
	if err != nil {
		return fmt.Errorf("rebuild the caps: %w", err)
	}
	e.log.Warn("caps rebuilt from the ledger", "units", units, "since", from.UTC().Format(time.RFC3339), "took", time.Since(began).Round(time.Millisecond))
	return nil
}

// fillCaps puts units back, at once where the store takes many.
func (e *Engine) fillCaps(ctx context.Context, units []caps.Spent) error {
	if many, ok := e.cfg.Caps.(interface {
		FillAll(ctx context.Context, records []caps.Spent) error
	}); ok {
		return many.FillAll(ctx, units)
	}
	for _, s := range units {
		if err := e.cfg.Caps.Fill(ctx, s.Cap, s.Unit, s.Holder, s.At); err != nil {
			return err
		}
	}
	return nil
}

// rebuilt takes in how a rebuild ended. One that failed is begun again with the
// next look that finds the store.
func (e *Engine) rebuilt(ctx context.Context, err error) {
	w := &e.watch
	w.filled = nil
	if err != nil {
		if ctx.Err() == nil {
			e.log.Warn("rebuild the caps, again in a second", "err", err)
		}
		return
	}
	w.from, w.known, w.lost = time.Time{}, true, false
	e.rebuilding.Store(false)
	if e.store.began.Load() != 0 {
		e.rebuilding.Store(true) // away again meanwhile: the next look makes up for that
	}
}
