package api

import (
	"net/http"
	"time"
)

// The limits of a server and its requests.
const (
	readHeaderTimeout = 5 * time.Second
	readTimeout       = 15 * time.Second
	writeTimeout      = 30 * time.Second
	idleTimeout       = 60 * time.Second
	maxHeaderBytes    = 16 << 10
	maxStreams        = 100
	maxBodyBytes      = 256 << 10
	// maxInFlight bounds how many requests are worked on at once, from their
	// whole body to their answer: beyond it callers are told to come back.
	maxInFlight = 1024
	// maxWaits is how many of those may be answers held by "Prefer: wait".
	maxWaits = 256
	// maxWait is the longest that an answer is held.
	maxWait = 30 * time.Second
	// waitGrace is the time for reading the notification and writing the
	// answer after a wait.
	waitGrace = 10 * time.Second
	// readyTimeout is how long /readyz looks before it says no.
	readyTimeout = 2 * time.Second
)

// NewServer returns a server for h with limits on time and size that a slow or
// hostile peer cannot stretch. The caller listens, serves and shuts down.
func NewServer(addr string, h http.Handler) *http.Server {
	s := &http.Server{
		Addr:                         addr,
		Handler:                      h,
		ReadHeaderTimeout:            readHeaderTimeout,
		ReadTimeout:                  readTimeout,
		WriteTimeout:                 writeTimeout,
		IdleTimeout:                  idleTimeout,
		MaxHeaderBytes:               maxHeaderBytes,
		DisableGeneralOptionsHandler: true,
		HTTP2:                        &http.HTTP2Config{MaxConcurrentStreams: maxStreams},
	}
	newPeers().watch(s)
	return s
}
