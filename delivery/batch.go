package delivery

import (
	"context"
	"errors"
	"fmt"
)

// errStopped is the answer of a batcher that has been stopped.
var errStopped = errors.New("the engine has stopped")

// batcher gathers single calls into batches: whatever has come while one batch
// was being run goes into the next. It never waits for a batch to fill.
type batcher[I, O any] struct {
	max int
	// split runs the items of a failed batch one by one, so that a bad one
	// stands alone. It is for writes that may be repeated.
	split bool
	do    func(context.Context, []I) ([]O, error)
	in    chan batchItem[I, O]
	// done is closed when nothing more is taken in, drained when the last has
	// been answered.
	done, drained chan struct{}
}

type batchItem[I, O any] struct {
	in  I
	out chan batchAnswer[O]
}

type batchAnswer[O any] struct {
	out O
	err error
}

func newBatcher[I, O any](max int, do func(context.Context, []I) ([]O, error)) *batcher[I, O] {
	return &batcher[I, O]{max: max, do: do, in: make(chan batchItem[I, O], max), done: make(chan struct{}), drained: make(chan struct{})}
}

// call hands one item in and waits for its answer. When ctx ends first the item
// may still be run.
func (b *batcher[I, O]) call(ctx context.Context, in I) (O, error) {
	item := batchItem[I, O]{in: in, out: make(chan batchAnswer[O], 1)}
	var none O
	select {
	case <-b.done:
		return none, errStopped
	default:
	}
	select {
	case b.in <- item:
	case <-b.done:
		return none, errStopped
	case <-ctx.Done():
		return none, ctx.Err()
	}
	select {
	case a := <-item.out:
		return a.out, a.err
	case <-ctx.Done():
		return none, ctx.Err()
	case <-b.done:
		// Stopped between the two: answered in the last round, or never.
		select {
		case a := <-item.out:
			return a.out, a.err
		case <-b.drained:
		}
		select {
		case a := <-item.out:
			return a.out, a.err
		default:
			return none, errStopped
		}
	}
}

// run serves until stop is closed; then it answers what is queued and ends.
func (b *batcher[I, O]) run(stop <-chan struct{}) {
	items := make([]batchItem[I, O], 0, b.max)
	for {
		select {
		case it := <-b.in:
			items = b.gather(append(items[:0], it))
			b.flush(items)
		case <-stop:
			close(b.done)
			for items = b.gather(items[:0]); len(items) > 0; items = b.gather(items[:0]) {
				b.flush(items)
			}
			close(b.drained)
			return
		}
	}
}

// gather adds what is queued, up to a full batch.
func (b *batcher[I, O]) gather(items []batchItem[I, O]) []batchItem[I, O] {
	for len(items) < b.max {
		select {
		case it := <-b.in:
			items = append(items, it)
		default:
			return items
		}
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
