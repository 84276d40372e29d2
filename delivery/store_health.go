package delivery

import (
	"sync/atomic"
	"time"
)

// storeHealth is what the calls to claims and caps say about their store.
type storeHealth struct {
	// failed is set while the last call had no answer.
	failed atomic.Bool
	// began is when the first outage began that the caps have not made up for
	// yet, in Unix nanoseconds; zero: there is none.
	began atomic.Int64
	// behind is set as soon as an outage is over: the caps lack what was spent
	// meanwhile. Nil where nobody would make up for it.
	behind *atomic.Bool
}

// note takes in how a call ended.
func (h *storeHealth) note(err error) {
	failed := err != nil
	if h.failed.Load() == failed || !h.failed.CompareAndSwap(!failed, failed) {
		return
	}
	switch {
	case failed:
		h.began.CompareAndSwap(0, time.Now().UnixNano())
	case h.behind != nil:
		h.behind.Store(true)
	}
}

// outage is how long ago the outage began that the caps have not made up for
// yet; zero: there is none.
func (h *storeHealth) outage() time.Duration {
	began := h.began.Load()
	if began == 0 {
		return 0
	}
	return time.Since(time.Unix(0, began))
}

// down reports whether the store had no answer the last time that it was asked.
func (h *storeHealth) down() bool { return h.failed.Load() }
