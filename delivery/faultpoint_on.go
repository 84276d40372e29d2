//go:build faultpoint

package delivery

import (
	"os"
	"strings"
	"syscall"

	"github.com/seed-4b260dfd/notifier"
)

// Strict says that a failed assertion stops the process: in test builds only.
const Strict = true

// firstLease is off while a fault is aimed at the lease, so that the step
// exists on its own.
var firstLease = !strings.HasPrefix(os.Getenv("NOTIFIER_FAULT"), "lease.")

// faultPoint kills the process with SIGKILL at the step that the environment
// variable NOTIFIER_FAULT names ("permit.after"), for deliveries whose key
// begins with NOTIFIER_FAULT_KEY; a nil delivery is any. It strikes once: the file
// NOTIFIER_FAULT_ONCE, made at the strike, disarms it for the next process.
func faultPoint(s step, d *notifier.Delivery) {
	if string(s) != os.Getenv("NOTIFIER_FAULT") {
		return
	}
	if d != nil && !strings.HasPrefix(d.Key, os.Getenv("NOTIFIER_FAULT_KEY")) {
		return
	}
	f, err := os.OpenFile(os.Getenv("NOTIFIER_FAULT_ONCE"), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return
	}
	f.Close()
	syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {}
}
