package delivery

import (
	"time"

	"golang.org/x/sys/unix"
)

// bootTime is the time since boot, suspension included: CLOCK_MONOTONIC, which
// package time uses, stands still while the machine sleeps.
func bootTime() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		return 0
	}
	return time.Duration(ts.Nano())
}
