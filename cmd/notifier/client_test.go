package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
)

// TestSend_ServersThatAnswerBadly holds the client to telling what may have
// been accepted from what cannot have been.
func TestSend_ServersThatAnswerBadly(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		serve http.HandlerFunc
		want  string
	}{
		"connection dropped": {
			func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
			"it may have been accepted: send again with the same -key",
		},
		"answer cut": {
			func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				w.Header().Set("Content-Length", "100")
				_, _ = w.Write([]byte(`{"id":`))
			},
			"it may have been accepted: send again with the same -key",
		},
		"fault of the server": {
			func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/problem+json")
				w.WriteHeader(http.StatusServiceUnavailable)
				_, _ = w.Write([]byte("{\"code\":\"overloaded\",\"detail\":\"too many \\u001b[31mrequests\\nat once\"}"))
			},
			"overloaded: too many ·[31mrequests·at once; it may have been accepted: send again with the same -key",
		},
		"another server": {
			func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "<html>", http.StatusBadGateway) },
			"answered 502 Bad Gateway, which is not notifier's: name the server with -server",
		},
		"not a notification": {
			func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				_, _ = w.Write([]byte(`{"ok":true}`))
			},
			"the server's answer is not a notification",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(tc.serve)
			t.Cleanup(server.Close)
			_, stderr, code := newCLI(t, nil).run(sendArgs(server.URL, nil)...)
			if code != 1 || strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, tc.want) {
				t.Errorf("got %d, %q; want one line with %q", code, stderr, tc.want)
			}
		})
	}
}

func TestSend_FollowsNoRedirect(t *testing.T) {
	t.Parallel()
	var reached atomic.Bool
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached.Store(true) }))
	t.Cleanup(other.Close)
	server := httptest.NewServer(http.RedirectHandler(other.URL, http.StatusTemporaryRedirect))
	t.Cleanup(server.Close)
	_, stderr, code := newCLI(t, map[string]string{"NOTIFIER_API_KEY": "secret-key"}).run(sendArgs(server.URL, nil)...)
	if code != 1 || reached.Load() {
		t.Errorf("got %d, %q, reached %v; want the redirect refused", code, stderr, reached.Load())
	}
}

// TestSend_AsksAgain has a server that does not hold its answer.
func TestSend_AsksAgain(t *testing.T) {
	t.Parallel()
	var gets atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		state := "pending"
		if r.Method == http.MethodGet && gets.Add(1) == 2 {
			state = "sent"
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"id":"ntf_06h2vpm4j1o01719i8kufcr8u0","state":"` + state + `"}`))
	}))
	t.Cleanup(server.Close)
	out := newCLI(t, nil).ok(sendArgs(server.URL, nil)...)
	if !strings.Contains(out, `"state":"sent"`) || gets.Load() != 2 {
		t.Errorf("got %s after %d reads, want sent after 2", out, gets.Load())
	}
}
