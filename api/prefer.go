package api

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// preferWait returns the wait that the header Prefer asks for (RFC 7240
// section 4.3), at most maxWait. As the RFC wants it, what is not understood
// is as if it were not there, and the first of several waits counts.
func preferWait(hd http.Header) (time.Duration, bool) {
	for _, line := range hd.Values("Prefer") {
		for pref := range strings.SplitSeq(line, ",") {
			pref, _, _ = strings.Cut(pref, ";")
			name, value, _ := strings.Cut(pref, "=")
			if !strings.EqualFold(strings.TrimSpace(name), "wait") {
				continue
			}
			value = strings.Trim(strings.TrimSpace(value), `"`)
			n, err := strconv.ParseUint(value, 10, 31)
			if err != nil {
				return 0, false
			}
			return min(time.Duration(n)*time.Second, maxWait), true
		}
	}
	return 0, false
}
