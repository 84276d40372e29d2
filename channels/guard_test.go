package channels

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
)

func TestGuard_OneWay(t *testing.T) {
	t.Parallel()
	no := errors.New("no")
	open := &Guard{}
	if err := open.Pass(); err != nil {
		t.Fatal(err)
	}
	if open.ProveUnsent() {
		t.Error("a request that passed was proved unsent")
	}
	if err := open.Pass(); !errors.Is(err, ErrGate) {
		t.Errorf("a second pass gave %v, want ErrGate", err)
	}
	refused := &Guard{Look: func() error { return no }}
	if err := refused.Pass(); !errors.Is(err, ErrGate) || !errors.Is(err, no) {
		t.Errorf("got %v, want both errors", err)
	}
	if !refused.ProveUnsent() {
		t.Error("a refused request was not proved unsent")
	}
	closed := &Guard{Look: func() error { return nil }}
	for range 2 {
		if !closed.ProveUnsent() {
			t.Error("a request that never passed was not proved unsent")
		}
	}
	if err := closed.Pass(); !errors.Is(err, ErrGate) {
		t.Errorf("a request passed a closed gate: %v", err)
	}
}

func TestGuard_NeverPassedAndProved(t *testing.T) {
	t.Parallel()
	for range 1000 {
		g := &Guard{}
		var did, proved atomic.Bool
		var wg sync.WaitGroup
		wg.Go(func() { did.Store(g.Pass() == nil) })
		wg.Go(func() { proved.Store(g.ProveUnsent()) })
		wg.Wait()
		if did.Load() == proved.Load() {
			t.Fatalf("passed %v, proved unsent %v", did.Load(), proved.Load())
		}
	}
}
