package channels

import (
	"context"
	"encoding/pem"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-4b260dfd/notifier"
)

// server is a loopback server that counts the requests it read whole.
type server struct {
	*httptest.Server
	whole, conns atomic.Int32
}

// serve starts a server whose handler runs after the body was read whole.
func serve(t *testing.T, p Protocol, handler http.HandlerFunc) (*server, *http.Client) {
	t.Helper()
	s := newServer(handler)
	s.EnableHTTP2 = p == HTTP2
	s.StartTLS()
	t.Cleanup(s.Close)
	return s, s.client(t, p)
}

func newServer(handler http.HandlerFunc) *server {
	s := &server{}
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			return
		}
		s.whole.Add(1)
		handler(w, r)
	}))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			s.conns.Add(1)
		}
	}
	return s
}

func (s *server) client(t *testing.T, p Protocol) *http.Client {
	t.Helper()
	c, err := NewClient(AccountConfig{CAFile: caFile(t, s.Server), AllowPrivate: true}, p)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.CloseIdleConnections)
	return c
}

func caFile(t *testing.T, s *httptest.Server) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "ca.pem")
	b := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// do sends one request under g and returns the client's error.
func do(ctx context.Context, t *testing.T, c *http.Client, g *Guard, url, body string, header http.Header) error {
	t.Helper()
	req, err := http.NewRequestWithContext(WithGuard(ctx, g), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for k, v := range header {
		req.Header[k] = v
	}
	resp, err := c.Do(req)
	if err == nil {
		resp.Body.Close()
	}
	return err
}

func ok(http.ResponseWriter, *http.Request) {}

func hangUp(w http.ResponseWriter, _ *http.Request) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err == nil {
		conn.Close()
	}
}

func TestSingleShot_IdempotencyKeyOnAKeptConnection(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"Idempotency-Key", "X-Idempotency-Key"} {
		var got atomic.Value
		s, c := serve(t, HTTP1, func(w http.ResponseWriter, r *http.Request) {
			if key := r.Header.Get(name); key != "" {
				got.Store(key)
				hangUp(w, r)
			}
		})
		header := http.Header{name: {"k1"}}
		if err := do(t.Context(), t, c, &Guard{}, s.URL, "{}", nil); err != nil {
			t.Fatal(err)
		}
		g := &Guard{}
		err := do(t.Context(), t, c, g, s.URL, "{}", header)
		r := TransportResult(err, g)
		if r.Outcome != notifier.OutcomeUnknown || r.Reason != notifier.ReasonReplyLost || g.HiddenResend() {
			t.Errorf("%s: got %+v, hidden resend %v, want unknown, reply_lost", name, r, g.HiddenResend())
		}
		if n := s.whole.Load(); n != 2 || got.Load() != "k1" {
			t.Errorf("%s: the server read %d requests and the key %v, want 2 and k1", name, n, got.Load())
		}
		if s.conns.Load() != 1 {
			t.Errorf("%s: the connection was not kept alive; this test shows nothing", name)
		}

		// The same fault under a plain client: the request is sent twice.
		plain := s.Client()
		plain.Transport.(*http.Transport).ForceAttemptHTTP2 = false
		_ = do(t.Context(), t, plain, &Guard{}, s.URL, "{}", nil)
		before := s.whole.Load()
		_ = do(t.Context(), t, plain, &Guard{}, s.URL, "{}", header)
		if n := s.whole.Load() - before; n != 2 {
			t.Errorf("%s: a plain client sent %d requests; this test shows nothing", name, n)
		}
	}
}

func TestSingleShot_SecondRequestUnderOneGuard(t *testing.T) {
	t.Parallel()
	s, c := serve(t, HTTP1, ok)
	g := &Guard{}
	if err := do(t.Context(), t, c, g, s.URL, "{}", nil); err != nil || g.HiddenResend() {
		t.Fatalf("first: %v, hidden resend %v", err, g.HiddenResend())
	}
	if err := do(t.Context(), t, c, g, s.URL, "{}", nil); !errors.Is(err, ErrSecondSend) || !g.HiddenResend() {
		t.Errorf("second: %v, hidden resend %v, want ErrSecondSend, true", err, g.HiddenResend())
	}
	if n := s.whole.Load(); n != 1 {
		t.Errorf("the server read %d requests, want 1", n)
	}
	if a := g.Answer(); a == nil || a.Status != http.StatusOK {
		t.Errorf("the second request took the first one's answer: %+v", a)
	}
}

func TestSingleShot_RedirectByALibraryThatFollows(t *testing.T) {
	t.Parallel()
	s, c := serve(t, HTTP1, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
	})
	g := &Guard{}
	if err := do(t.Context(), t, c, g, s.URL, "{}", nil); err != nil || g.Answer().Status != http.StatusTemporaryRedirect {
		t.Errorf("got %v and %+v, want the redirect itself", err, g.Answer())
	}
	c.CheckRedirect = nil
	g = &Guard{}
	if err := do(t.Context(), t, c, g, s.URL, "{}", nil); err == nil || g.Answer() == nil || g.Answer().Status != http.StatusTemporaryRedirect {
		t.Errorf("following: got %v and %+v, want an error and the redirect kept", err, g.Answer())
	}
	if n := s.whole.Load(); n != 2 {
		t.Errorf("the server read %d requests, want one for each guard", n)
	}
}

func TestSingleShot_NoGuard(t *testing.T) {
	t.Parallel()
	s, c := serve(t, HTTP1, ok)
	resp, err := c.Post(s.URL, "application/json", strings.NewReader("{}"))
	if err == nil {
		resp.Body.Close()
	}
	if !errors.Is(err, errNoGuard) || s.whole.Load() != 0 {
		t.Errorf("got %v and %d requests, want an error and none", err, s.whole.Load())
	}
}

func TestSingleShot_Gate(t *testing.T) {
	t.Parallel()
	no := errors.New("too late")
	for _, p := range []Protocol{HTTP1, HTTP2} {
		for _, body := range []string{"{}", ""} {
			s, c := serve(t, p, ok)
			g := &Guard{Look: func() error { return no }}
			err := do(t.Context(), t, c, g, s.URL, body, nil)
			if !errors.Is(err, ErrGate) || !errors.Is(err, no) {
				t.Errorf("HTTP/%d, body %q: got %v, want the gate's error", p, body, err)
			}
			if r := TransportResult(err, g); r.Outcome != notifier.OutcomeNotSent || r.Reason != notifier.ReasonGate {
				t.Errorf("HTTP/%d, body %q: got %+v, want not_sent, gate", p, body, r)
			}
			if err := do(t.Context(), t, c, &Guard{}, s.URL, body, nil); err != nil {
				t.Errorf("HTTP/%d, body %q: the next request: %v", p, body, err)
			}
			if n := s.whole.Load(); n != 1 {
				t.Errorf("HTTP/%d, body %q: the server read %d requests, want 1", p, body, n)
			}
		}
	}
}

func TestSingleShot_GateHurtsNoNeighbour(t *testing.T) {
	t.Parallel()
	s, c := serve(t, HTTP2, ok)
	if err := do(t.Context(), t, c, &Guard{}, s.URL, "{}", nil); err != nil {
		t.Fatal(err)
	}
	const calls = 400
	var wg sync.WaitGroup
	for i := range calls {
		wg.Go(func() {
			g := &Guard{}
			if i%2 == 1 {
				g.Look = func() error { return errors.New("too late") }
			}
			err := do(t.Context(), t, c, g, s.URL, "{}", nil)
			if refused := i%2 == 1; refused != errors.Is(err, ErrGate) || refused != (err != nil) {
				t.Errorf("call %d: %v", i, err)
			}
		})
	}
	wg.Wait()
	if n := s.whole.Load(); n != 1+calls/2 {
		t.Errorf("the server read %d requests, want %d", n, 1+calls/2)
	}
	if n := s.conns.Load(); n != 1 {
		t.Errorf("there were %d connections, want 1", n)
	}
}

func TestSingleShot_KeepsTheAnswer(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", maxAnswerBytes+100)
	for _, test := range []struct {
		name    string
		handler http.HandlerFunc
		body    string
		cut     bool
	}{
		{"whole", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "<html>") }, "<html>", false},
		{"empty", ok, "", false},
		{"too long", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, long) }, long[:maxAnswerBytes], true},
		{"cut off", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Length", "100")
			io.WriteString(w, "half")
			http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}, "half", true},
	} {
		for _, p := range []Protocol{HTTP1, HTTP2} {
			s, c := serve(t, p, test.handler)
			g := &Guard{}
			if err := do(t.Context(), t, c, g, s.URL, "{}", nil); err != nil {
				t.Errorf("%s, HTTP/%d: %v", test.name, p, err)
			}
			a := g.Answer()
			if a == nil || a.Status != http.StatusOK || string(a.Body) != test.body || (a.Err != nil) != test.cut {
				t.Errorf("%s, HTTP/%d: kept %+v", test.name, p, a)
			}
		}
	}
}

// dribble is a transport whose answers begin and never end.
type dribble struct{}

func (dribble) RoundTrip(r *http.Request) (*http.Response, error) {
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		return nil, err
	}
	pr, pw := io.Pipe()
	context.AfterFunc(r.Context(), func() { pw.CloseWithError(context.Cause(r.Context())) })
	return &http.Response{StatusCode: http.StatusAccepted, Body: pr}, nil
}

func TestSingleShot_AnswerThatNeverEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := &Guard{}
		start := time.Now()
		err := do(t.Context(), t, &http.Client{Transport: SingleShot{dribble{}}}, g, "https://example.com", "{}", nil)
		if took := time.Since(start); err != nil || took != answerPatience {
			t.Errorf("got %v after %v, want an answer after %v", err, took, answerPatience)
		}
		if a := g.Answer(); a == nil || a.Status != http.StatusAccepted || a.Err == nil {
			t.Errorf("kept %+v, want status 202 and an error for the body", a)
		}
	})
}

// wire is a transport that keeps the request as the base saw it.
type wire struct{ got *http.Request }

func (w *wire) RoundTrip(r *http.Request) (*http.Response, error) {
	w.got = r
	_, err := io.Copy(io.Discard, r.Body)
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: http.NoBody}, err
}

func TestSingleShot_NothingToRewind(t *testing.T) {
	t.Parallel()
	for _, body := range []string{"{}", ""} {
		w := &wire{}
		header := http.Header{"Idempotency-Key": {"k1"}, "X-Idempotency-Key": nil, "Accept": {"*/*"}}
		if err := do(t.Context(), t, &http.Client{Transport: SingleShot{w}}, &Guard{}, "https://example.com", body, header); err != nil {
			t.Fatal(err)
		}
		if w.got.GetBody != nil || w.got.Body == http.NoBody {
			t.Errorf("body %q can be rewound", body)
		}
		if want := int64(len(body)); w.got.ContentLength != want && (body != "" || w.got.ContentLength != -1) {
			t.Errorf("body %q: the length is %d", body, w.got.ContentLength)
		}
		want := http.Header{"idempotency-key": {"k1"}, "Accept": {"*/*"}}
		if diff := cmp.Diff(want, w.got.Header); diff != "" {
			t.Errorf("headers (-want +got):\n%s", diff)
		}
		if header["Idempotency-Key"] == nil {
			t.Error("the caller's own headers were changed")
		}
	}
}
