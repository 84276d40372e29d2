package delivery

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// errStopped is the answer of a batcher that has been stopped.
var errStopped = errors.New("the engine has stopped")

// batcher gathers single calls into batches: whatever has come while one batch
// was being run goes into the next. While calls come together anyway it waits a
// moment for more where linger says so; a call that comes alone never waits.
type batcher[I, O any] struct {
	max int
	// linger is how long a batch may wait for company: for a ledger of which
	// each statement costs as much as many rows.
	linger time.Duration
	// split runs the items of a failed batch one by one, so that a bad one
	// stands alone. It is for writes that may be repeated.
	split bool
	do    func(context.Context, []I) ([]O, error)
	wake  chan struct{}

	mu      sync.Mutex
	queue   []batchItem[I, O]
	stopped bool
	// last is how many the last batch held.
	last int
}

// company is from how many calls in the last batch on the next one waits.
const company = 3

type batchItem[I, O any] struct {
	in  I
	out chan batchAnswer[O]
}

type batchAnswer[O any] struct {
	out O
	err error
}

func newBatcher[I, O any](max int, do func(context.Context, []I) ([]O, error)) *batcher[I, O] {
	return &batcher[I, O]{max: max, do: do, wake: make(chan struct{}, 1)}
}

// call hands one item in and waits for its answer, whoever else has gone: what
// the item says is written or not, and the caller has to know.
func (b *batcher[I, O]) call(in I) (O, error) {
	item := batchItem[I, O]{in: in, out: make(chan batchAnswer[O], 1)}
	b.mu.Lock()
	if b.stopped {
		b.mu.Unlock()
		var none O
		return none, errStopped
	}
	b.queue = append(b.queue, item)
	b.mu.Unlock()
	select {
	case b.wake <- struct{}{}:
	default:
	}
	a := <-item.out
	return a.out, a.err
}

// run serves until stop is closed; then it answers what is queued and ends.
func (b *batcher[I, O]) run(stop <-chan struct{}) {
	for open := true; open; {
		select {
		case <-b.wake:
		case <-stop:
			b.mu.Lock()
			b.stopped, open = true, false
			b.mu.Unlock()
		}
		b.gather()
		for items := b.take(); len(items) > 0; items = b.take() {
			b.flush(items)
			b.gather()
		}
	}
}

// gather waits for company, as long as some came last time and some are there.
func (b *batcher[I, O]) gather() {
	if b.linger == 0 || b.last < company {
		return
	}
	var patience *time.Timer
	for {
		b.mu.Lock()
		waits := len(b.queue) > 0 && len(b.queue) < b.max && !b.stopped
		b.mu.Unlock()
		if !waits {
			return
		}
		if patience == nil {
			patience = time.NewTimer(b.linger)
			defer patience.Stop()
		}
		select {
		case <-b.wake:
		case <-patience.C:
			return
		}
	}
}

// take removes up to a full batch from the queue.
func (b *batcher[I, O]) take() []batchItem[I, O] {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := min(len(b.queue), b.max)
	if n > 0 {
		b.last = n
	}
	items := b.queue[:n:n]
	if b.queue = b.queue[n:]; len(b.queue) == 0 {
		b.queue = nil
	}
	return items
}

func (b *batcher[I, O]) flush(items []batchItem[I, O]) {
	ins := make([]I, len(items))
	for i := range items {
		ins[i] = items[i].in
	}
	ctx, cancel := write()
	defer cancel()
	outs, err := b.do(ctx, ins)
	if err == nil && len(outs) != len(ins) {
		err = fmt.Errorf("a batch of %d was answered with %d answers", len(ins), len(outs))
	}
	if err != nil && b.split && len(items) > 1 && ctx.Err() == nil {
		b.flushOneByOne(items, err)
		return
	}
	for i := range items {
		if err != nil {
			items[i].out <- batchAnswer[O]{err: err}
			continue
		}
		items[i].out <- batchAnswer[O]{out: outs[i]}
	}
}

// hopeless is how many items in a row may fail alone before the fault is taken
// to be the ledger's.
const hopeless = 3

func (b *batcher[I, O]) flushOneByOne(items []batchItem[I, O], err error) {
	failed := 0
	for i := range items {
		if failed == hopeless {
			items[i].out <- batchAnswer[O]{err: err}
			continue
		}
		ctx, cancel := write()
		outs, errOne := b.do(ctx, []I{items[i].in})
		cancel()
		if errOne != nil || len(outs) != 1 {
			failed++
			items[i].out <- batchAnswer[O]{err: errors.Join(err, errOne)}
			continue
		}
		failed = 0
		items[i].out <- batchAnswer[O]{out: outs[0]}
	}
}
