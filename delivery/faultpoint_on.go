//go:build faultpoint

package delivery

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/seed-4b260dfd/notifier"
)

// Strict says that a failed assertion stops the process: in test builds only.
const Strict = true

// firstLease is off while a fault is aimed at the lease, so that the step
// exists on its own.
var firstLease = !strings.HasPrefix(os.Getenv("NOTIFIER_FAULT"), "lease.") && os.Getenv("NOTIFIER_FAULT_DIR") == ""

// callGrace is short, so that a test need not wait long for a permit to lapse.
const callGrace = 2 * time.Second

// faultPoint has something go wrong at a step, once. There are two ways to say
// what: by the environment, for a process of its own, and by a file, for one of
// many deliveries and processes.
func faultPoint(s step, d *notifier.Delivery) {
	if dir := os.Getenv("NOTIFIER_FAULT_DIR"); dir != "" {
		strike(dir, s, d)
		return
	}
	// The process dies at the step that NOTIFIER_FAULT names ("permit.after"),
	// for deliveries whose key begins with NOTIFIER_FAULT_KEY; a nil delivery is
	// any. The file NOTIFIER_FAULT_ONCE, made at the strike, disarms it.
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
	die()
}

func die() {
	syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {}
}

// strike does what the file KEY.STEP in the folder says; the steps without a
// delivery have the key "any". Whoever renames the file has it: "kill" and
// "stop" are signals to the process itself, "hold" waits at the step until the
// file's name with ".go" is there.
func strike(dir string, s step, d *notifier.Delivery) {
	key := "any"
	if d != nil {
		key = d.Key
	}
	name := filepath.Join(dir, key+"."+string(s))
	what, err := os.ReadFile(name)
	if err != nil || os.Rename(name, name+".struck") != nil {
		return
	}
	switch string(what) {
	case "kill":
		die()
	case "stop":
		// The stop reaches this thread a moment after it reaches the process.
		syscall.Kill(os.Getpid(), syscall.SIGSTOP)
		time.Sleep(20 * time.Millisecond)
	case "hold":
		for {
			if _, err := os.Stat(name + ".go"); err == nil {
				return
			}
			time.Sleep(time.Millisecond)
		}
	}
}
