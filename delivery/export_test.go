package delivery

import "time"

// LookSoon has providers asked at once, and again at once.
func LookSoon(c *Config) { c.looks = lookTimes{every: 10 * time.Millisecond} }
