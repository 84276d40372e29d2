//go:build !faultpoint

package delivery

import (
	"time"

	"github.com/seed-4b260dfd/notifier"
)

// Strict says that a failed assertion stops the process: in test builds only.
const Strict = false

// firstLease says that accept may lease in its own commit.
const firstLease = true

// callGrace is what a permit lasts beyond its call's time-out: time for the
// outcome to be written before the sweep calls it unknown.
const callGrace = 10 * time.Second

// faultPoint marks a step of the crash matrix. It does nothing here.
func faultPoint(step, *notifier.Delivery) {}
