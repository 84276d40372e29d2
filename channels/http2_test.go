package channels

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-4b260dfd/notifier"
)

// A provider that takes one stream at a time is met by one connection, however
// many calls come at once, and every call gets its turn.
func TestNewClient_MoreCallsThanStreams(t *testing.T) {
	t.Parallel()
	for _, limit := range []int{1, 7} {
		var now, most atomic.Int32
		s, c := serveLimited(t, limit, func(http.ResponseWriter, *http.Request) {
			n := now.Add(1)
			defer now.Add(-1)
			for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
			}
		})
		const calls = 60
		var wg sync.WaitGroup
		for i := range calls {
			wg.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
				defer cancel()
				g := &Guard{}
				if i%3 == 1 {
					g.Look = func() error { return errors.New("too late") }
				}
				err := do(ctx, t, c, g, s.URL, "{}", nil)
				if refused := i%3 == 1; refused != errors.Is(err, ErrGate) || refused != (err != nil) {
					t.Errorf("limit %d, call %d: %v", limit, i, err)
				}
			})
		}
		wg.Wait()
		if s.whole.Load() != calls*2/3 || s.conns.Load() != 1 || most.Load() > int32(limit) {
			t.Errorf("limit %d: %d requests on %d connections, %d at once, want %d on 1", limit, s.whole.Load(), s.conns.Load(), most.Load(), calls*2/3)
		}
	}
}

func serveLimited(t *testing.T, streams int, handler http.HandlerFunc) (*server, *http.Client) {
	t.Helper()
	s := newServer(handler)
	s.EnableHTTP2 = true
	s.Config.HTTP2 = &http.HTTP2Config{MaxConcurrentStreams: streams}
	s.StartTLS()
	t.Cleanup(s.Close)
	return s, s.client(t, HTTP2)
}

func TestNewClient_AfterThePeerClosed(t *testing.T) {
	t.Parallel()
	s, c := serve(t, HTTP2, ok)
	for want := range int32(3) {
		if err := do(t.Context(), t, c, &Guard{}, s.URL, "{}", nil); err != nil {
			t.Fatalf("call %d: %v", want, err)
		}
		if got := s.conns.Load(); got != want+1 {
			t.Fatalf("call %d: %d connections, want %d", want, got, want+1)
		}
		c.CloseIdleConnections()
	}
}

// Calls that waited for a connection that could not be made do not each try
// again; calls that come later do.
func TestStreams_FailedDialIsShared(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var dials atomic.Int32
		release := make(chan struct{})
		base := newHTTP2(AccountConfig{}, &tls.Config{}).(*streams)
		base.dial = func(context.Context, string, string) (net.Conn, error) {
			dials.Add(1)
			<-release
			return nil, errors.New("no route")
		}
		c := &http.Client{Transport: SingleShot{base}}
		var wg sync.WaitGroup
		for range 50 {
			wg.Go(func() {
				g := &Guard{}
				err := do(t.Context(), t, c, g, "https://example.com", "{}", nil)
				if r := TransportResult(err, g); r.Outcome != notifier.OutcomeNotSent || r.ProviderStatus != "no route" {
					t.Errorf("got %+v, want not_sent: no route", r)
				}
			})
		}
		synctest.Wait()
		close(release)
		wg.Wait()
		if n := dials.Load(); n != 1 {
			t.Errorf("50 calls at once dialled %d times, want 1", n)
		}
		_ = do(t.Context(), t, c, &Guard{}, "https://example.com", "{}", nil)
		if n := dials.Load(); n != 2 {
			t.Errorf("a call after them: %d dials, want 2", n)
		}
	})
}

func TestHostPort(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]string{
		"https://example.com/x":    "example.com:443",
		"https://example.com:8443": "example.com:8443",
		"https://[::1]/x":          "[::1]:443",
		"https://[::1]:8443":       "[::1]:8443",
	} {
		if got := hostPort(httptest.NewRequest(http.MethodPost, url, nil)); got != want {
			t.Errorf("%s: got %q, want %q", url, got, want)
		}
	}
}

func TestNewClient_WaitingForAnothersDial(t *testing.T) {
	t.Parallel()
	// A peer that takes connections and never says a word.
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	c, err := NewClient(AccountConfig{AllowPrivate: true}, HTTP2)
	if err != nil {
		t.Fatal(err)
	}
	url := "https://" + l.Addr().String()
	first, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { _ = do(first, t, c, &Guard{}, url, "{}", nil) })
	conn, err := l.Accept() // the first call is dialling now
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	second, done := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer done()
	g := &Guard{}
	start := time.Now()
	err = do(second, t, c, g, url, "{}", nil)
	if took := time.Since(start); took > handshakeTimeout/2 {
		t.Errorf("the second call came back after %v; its context had ended after 50ms", took)
	}
	if r := TransportResult(err, g); r.Outcome != notifier.OutcomeNotSent || r.Reason != notifier.ReasonUnreachable {
		t.Errorf("got %+v, want not_sent, unreachable", r)
	}
	cancel()
	wg.Wait()
}
