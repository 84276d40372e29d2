package delivery

import (
	"context"
	"sync"
	"time"

	"github.com/seed-4b260dfd/notifier"
)

// waiters wakes those who wait for a notification to end.
type waiters struct {
	mu   sync.Mutex
	byID map[notifier.ID][]chan struct{}
}

func (w *waiters) add(id notifier.ID) chan struct{} {
	c := make(chan struct{}, 1)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.byID == nil {
		w.byID = map[notifier.ID][]chan struct{}{}
	}
	w.byID[id] = append(w.byID[id], c)
	return c
}

func (w *waiters) remove(id notifier.ID, c chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	left := w.byID[id][:0]
	for _, o := range w.byID[id] {
		if o != c {
			left = append(left, o)
		}
	}
	if len(left) == 0 {
		delete(w.byID, id)
		return
	}
	w.byID[id] = left
}

func (w *waiters) wake(id notifier.ID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.byID[id] {
		select {
		case c <- struct{}{}:
		default:
		}
	}
}

// Wait returns when every delivery of the notification has ended, or with
// ctx's error. Another process may end it, so the ledger is asked now and then.
func (e *Engine) Wait(ctx context.Context, tenant string, id notifier.ID) error {
	c := e.waiters.add(id)
	defer e.waiters.remove(id, c)
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		n, err := e.cfg.Ledger.Notification(ctx, tenant, id)
		if err != nil {
			return err
		}
		if n.State != notifier.StatePending {
			return nil
		}
		select {
		case <-c:
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
