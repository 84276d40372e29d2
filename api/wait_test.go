package api

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-4b260dfd/notifier"
)

func TestPreferWait(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		lines []string
		want  time.Duration
		ok    bool
	}{
		{nil, 0, false},
		{[]string{"wait=5"}, 5 * time.Second, true},
		{[]string{"WAIT = 5"}, 5 * time.Second, true},
		{[]string{`wait="5"`}, 5 * time.Second, true},
		{[]string{"respond-async, wait=5; x=1"}, 5 * time.Second, true},
		{[]string{"return=minimal", "wait=5"}, 5 * time.Second, true},
		{[]string{"wait=5, wait=7"}, 5 * time.Second, true},
		{[]string{"wait=0"}, 0, true},
		{[]string{"wait=31"}, maxWait, true},
		{[]string{"wait=2000000000"}, maxWait, true},
		{[]string{"wait=99999999999999999999"}, 0, false},
		{[]string{"wait=-1"}, 0, false},
		{[]string{"wait=5s"}, 0, false},
		{[]string{"wait"}, 0, false},
		{[]string{"handling=lenient"}, 0, false},
	} {
		got, ok := preferWait(http.Header{"Prefer": tc.lines})
		if got != tc.want || ok != tc.ok {
			t.Errorf("%q: got %v, %v; want %v, %v", tc.lines, got, ok, tc.want, tc.ok)
		}
	}
}

// pipes is a listener within the process, so that a server and its deadlines
// run on a bubble's clock.
type pipes struct {
	conns chan net.Conn
	done  chan struct{}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	select {
	case <-p.done:
	default:
		close(p.done)
	}
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "pipe"} }

func (p *pipes) dial(context.Context, string, string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	p.conns <- theirs
	return ours, nil
}

// sendOver sends one POST to a real server with the limits of NewServer.
func sendOver(t *testing.T, h http.Handler, prefer string) *http.Response {
	t.Helper()
	l := &pipes{conns: make(chan net.Conn), done: make(chan struct{})}
	server := NewServer("", h)
	go func() { _ = server.Serve(l) }()
	defer server.Close()
	transport := &http.Transport{DialContext: l.dial, DisableKeepAlives: true}
	r, err := http.NewRequest("POST", "http://localhost/v1/notifications", strings.NewReader(shipped))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set(keyHeader, "k")
	r.Header.Set("Prefer", prefer)
	w, err := transport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, w.Body); err != nil {
		t.Fatal(err)
	}
	_ = w.Body.Close()
	return w
}

func TestWait_Settled(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, start := newService(), time.Now()
		time.AfterFunc(3*time.Second, func() { close(s.settled) })
		w := s.do("POST", "/v1/notifications", shipped, keyHeader, "k", "Prefer", "wait=10")
		n := wantNotification(t, w, http.StatusAccepted)
		if took := time.Since(start); took != 3*time.Second {
			t.Errorf("the answer took %v, want 3s", took)
		}
		if got := w.Header().Get("Preference-Applied"); n.State != notifier.StateSent || got != "wait=10" {
			t.Errorf("got state %q, Preference-Applied %q", n.State, got)
		}
	})
}

// Acceptance and the longest wait together last longer than the server's own
// time-outs for reading and for writing; the answer comes all the same, and
// the caller is not taken for gone meanwhile.
func TestWait_TimeOutOverARealServer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, start, accept := newService(), time.Now(), time.Second
		s.hang = make(chan struct{})
		time.AfterFunc(accept, func() { close(s.hang) })
		w := sendOver(t, s, "wait=60")
		if w.StatusCode != http.StatusAccepted || w.Header.Get("Preference-Applied") != "wait=30" {
			t.Errorf("got %d, Preference-Applied %q", w.StatusCode, w.Header.Get("Preference-Applied"))
		}
		if took := time.Since(start); took != accept+maxWait {
			t.Errorf("the answer took %v, want %v", took, accept+maxWait)
		}
		if !errors.Is(s.waited, context.DeadlineExceeded) {
			t.Errorf("the wait ended with %v, want the deadline", s.waited)
		}
	})
}

func TestWait_Drain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		draining := make(chan struct{})
		s, start := newService(func(c *Config) { c.Draining = draining }), time.Now()
		time.AfterFunc(2*time.Second, func() { close(draining) })
		n := wantNotification(t, s.do("POST", "/v1/notifications", shipped, keyHeader, "k", "Prefer", "wait=10"), http.StatusAccepted)
		if took := time.Since(start); took != 2*time.Second || n.State != notifier.StatePending {
			t.Errorf("got state %q after %v, want pending after 2s", n.State, took)
		}
	})
}

func TestWait_NotApplied(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, s := range []*service{newService(), newService(func(c *Config) { c.Waiter = nil })} {
			prefer := "wait=10"
			if s.Handler.(*handler).cfg.Waiter != nil {
				prefer = "wait=soon"
			}
			start := time.Now()
			w := s.do("POST", "/v1/notifications", shipped, keyHeader, "k", "Prefer", prefer)
			wantNotification(t, w, http.StatusAccepted)
			if took := time.Since(start); took != 0 || w.Header().Get("Preference-Applied") != "" {
				t.Errorf("got %q after %v, want no wait", w.Header().Get("Preference-Applied"), took)
			}
		}
	})
}

// Waits have their own bound: beyond it the answer comes at once and says so.
func TestWait_Bounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newService()
		for range maxWaits {
			go s.do("POST", "/v1/notifications", shipped, keyHeader, "k", "Prefer", "wait=10")
		}
		synctest.Wait()
		w := s.do("POST", "/v1/notifications", shipped, keyHeader, "k", "Prefer", "wait=10")
		wantNotification(t, w, http.StatusOK)
		if got := w.Header().Get("Preference-Applied"); got != "" {
			t.Errorf("got Preference-Applied %q, want none", got)
		}
		close(s.settled)
	})
}

func TestInFlight_Bounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newService()
		s.hang = make(chan struct{})
		for range maxInFlight {
			go s.do("POST", "/v1/notifications", shipped, keyHeader, "k")
		}
		synctest.Wait()
		w := s.do("POST", "/v1/notifications", shipped, keyHeader, "k")
		wantProblem(t, w, http.StatusServiceUnavailable, notifier.CodeOverloaded, "")
		if got := w.Header().Get("Retry-After"); got != "1" {
			t.Errorf("got Retry-After %q, want 1", got)
		}
		if got := s.do("GET", "/healthz", "").Code; got != http.StatusOK {
			t.Errorf("healthz: got %d under load", got)
		}
		close(s.hang)
		synctest.Wait()
		wantNotification(t, s.do("POST", "/v1/notifications", shipped, keyHeader, "k"), http.StatusOK)
	})
}

// A body that trickles in is cut off by the server's read time-out.
func TestServer_SlowBody(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := &pipes{conns: make(chan net.Conn), done: make(chan struct{})}
		s := newService()
		server := NewServer("", s)
		go func() { _ = server.Serve(l) }()
		conn, err := l.dial(t.Context(), "", "")
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		if _, err := io.WriteString(conn, "POST /v1/notifications HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{"); err != nil {
			t.Fatal(err)
		}
		answer, err := io.ReadAll(conn)
		if err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 400 ") {
			t.Errorf("got %q, %v", answer, err)
		}
		if took := time.Since(start); took < readTimeout || took > readTimeout+time.Second {
			t.Errorf("cut off after %v, want %v", took, readTimeout)
		}
		_ = conn.Close()
		_ = server.Close()
	})
}
