package delivery

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// running starts a batcher for the length of the test.
func running(t *testing.T, b *batcher[int, int]) {
	t.Helper()
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() { b.run(stop) })
	t.Cleanup(func() { close(stop); wg.Wait() })
}

func TestBatcher_WhatCameMeanwhileSharesABatch(t *testing.T) {
	t.Parallel()
	entered, leave := make(chan []int), make(chan struct{})
	b := newBatcher(8, func(_ context.Context, in []int) ([]int, error) {
		entered <- in
		<-leave
		return in, nil
	})
	var wg sync.WaitGroup
	ask := func(n int) {
		wg.Go(func() {
			if got, err := b.call(n); err != nil || got != n {
				t.Errorf("got %d, %v, want %d", got, err, n)
			}
		})
	}
	running(t, b)
	ask(1)
	if got := <-entered; !cmp.Equal(got, []int{1}) {
		t.Fatalf("got the batch %v, want one item: it does not wait for more", got)
	}
	for n := 2; n <= 8; n++ {
		ask(n)
	}
	for queued := 0; queued < 7; runtime.Gosched() { // until all have handed in
		b.mu.Lock()
		queued = len(b.queue)
		b.mu.Unlock()
	}
	leave <- struct{}{}
	if got := <-entered; len(got) != 7 {
		t.Errorf("got a batch of %d, want the 7 that came meanwhile", len(got))
	}
	leave <- struct{}{}
	wg.Wait()
}

func TestBatcher_ABadItemStandsAlone(t *testing.T) {
	t.Parallel()
	bad := errors.New("bad item")
	for _, split := range []bool{true, false} {
		b := newBatcher(8, func(_ context.Context, in []int) ([]int, error) {
			for _, n := range in {
				if n == 3 {
					return nil, bad
				}
			}
			return in, nil
		})
		b.split = split
		items := make([]batchItem[int, int], 6)
		for i := range items {
			items[i] = batchItem[int, int]{in: i, out: make(chan batchAnswer[int], 1)}
		}
		b.flush(items)
		failed := 0
		for i := range items {
			if a := <-items[i].out; a.err != nil {
				failed++
			} else if a.out != i {
				t.Errorf("split %v: item %d got the answer %d", split, i, a.out)
			}
		}
		want := 1
		if !split {
			want = 6
		}
		if failed != want {
			t.Errorf("split %v: got %d failed items, want %d", split, failed, want)
		}
	}
}

func TestBatcher_StopAnswersWhatIsQueued(t *testing.T) {
	t.Parallel()
	b := newBatcher(4, func(_ context.Context, in []int) ([]int, error) { return in, nil })
	item := batchItem[int, int]{in: 7, out: make(chan batchAnswer[int], 1)}
	b.queue = append(b.queue, item)
	stop := make(chan struct{})
	close(stop)
	b.run(stop)
	if a := <-item.out; a.out != 7 || a.err != nil {
		t.Errorf("got %d, %v, want 7", a.out, a.err)
	}
	if _, err := b.call(1); !errors.Is(err, errStopped) {
		t.Errorf("got %v, want %v", err, errStopped)
	}
}
