//go:build !faultpoint

package delivery

import "github.com/seed-4b260dfd/notifier"

// Strict says that a failed assertion stops the process: in test builds only.
const Strict = false

// firstLease says that accept may lease in its own commit.
const firstLease = true

// faultPoint marks a step of the crash matrix. It does nothing here.
func faultPoint(step, *notifier.Delivery) {}
