package delivery

import "sync/atomic"

// storeHealth is what the calls to claims and caps say about their store.
type storeHealth struct {
	// failed is set while the last call had no answer.
	failed atomic.Bool
	// outages counts how often it was first seen to fail.
	outages atomic.Int64
}

// note takes in how a call ended.
func (h *storeHealth) note(err error) {
	if failed := err != nil; h.failed.Load() != failed && h.failed.CompareAndSwap(!failed, failed) && failed {
		h.outages.Add(1)
	}
}

// down reports whether the store had no answer the last time that it was asked.
func (h *storeHealth) down() bool { return h.failed.Load() }
