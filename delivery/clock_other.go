//go:build !linux

package delivery

import "time"

// bootTime has no source here; the other two clocks decide alone.
func bootTime() time.Duration { return 0 }
