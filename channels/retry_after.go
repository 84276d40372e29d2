package channels

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// maxRetryAfter bounds what a provider may ask for, so that a broken header
// cannot park a delivery for ever.
const maxRetryAfter = 30 * 24 * time.Hour

// ParseRetryAfter reads a Retry-After header, in seconds or as a date (RFC
// 9110 section 10.2.3). A date that has passed gives zero; more than 30 days
// are read as 30. It reports false when there is nothing that it can read.
func ParseRetryAfter(h string, now time.Time) (time.Duration, bool) {
	h = strings.TrimSpace(h)
	if h == "" {
		return 0, false
	}
	if strings.Trim(h, "0123456789") == "" {
		n, err := strconv.ParseInt(h, 10, 64)
		if err != nil || n > int64(maxRetryAfter/time.Second) {
			return maxRetryAfter, true // digits only: the one error is that it is out of range
		}
		return time.Duration(n) * time.Second, true
	}
	t, err := http.ParseTime(h)
	if err != nil {
		return 0, false
	}
	return min(max(t.Sub(now), 0), maxRetryAfter), true
}
