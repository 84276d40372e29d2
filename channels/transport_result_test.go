//lint:file-ignore SA1019 golang.org/x/net/http2 is frozen in favour of net/http; it is what the channels use.

package channels

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"github.com/seed-4b260dfd/notifier"
)

// passed is a guard whose request may have left.
func passed() *Guard {
	g := &Guard{}
	_ = g.Pass()
	g.gotConn.Add(1)
	return g
}

func TestTransportResult_Errors(t *testing.T) {
	t.Parallel()
	const refused = "stream error: stream ID 3; REFUSED_STREAM; received from peer"
	retry := func(s string) error {
		return fmt.Errorf("http2: Transport: cannot retry err [%s] after Request.Body was written; define Request.GetBody to avoid this error", s)
	}
	for _, test := range []struct {
		name    string
		err     error
		outcome notifier.Outcome
		reason  notifier.Reason
	}{
		{"refused stream", retry(refused), notifier.OutcomeNotSent, notifier.ReasonUnreachable},
		{"refused stream, typed", http2.StreamError{StreamID: 3, Code: http2.ErrCodeRefusedStream, Cause: errors.New("received from peer")}, notifier.OutcomeNotSent, notifier.ReasonUnreachable},
		{"refused by ourselves", errors.New("stream error: stream ID 3; REFUSED_STREAM"), notifier.OutcomeUnknown, notifier.ReasonReplyLost},
		{"graceful GOAWAY", retry("http2: Transport received Server's graceful shutdown GOAWAY"), notifier.OutcomeNotSent, notifier.ReasonUnreachable},
		{"GOAWAY to the first stream", errors.New("http2: Transport received GOAWAY from server ErrCode:ENHANCE_YOUR_CALM"), notifier.OutcomeNotSent, notifier.ReasonUnreachable},
		{"other reset", http2.StreamError{StreamID: 3, Code: http2.ErrCodeProtocol, Cause: errors.New("received from peer")}, notifier.OutcomeUnknown, notifier.ReasonReplyLost},
		{"reset, within a retry", retry("stream error: stream ID 3; PROTOCOL_ERROR; received from peer"), notifier.OutcomeUnknown, notifier.ReasonReplyLost},
		{"GOAWAY and close", http2.GoAwayError{LastStreamID: 7}, notifier.OutcomeUnknown, notifier.ReasonReplyLost},
		{"GOAWAY with a forged text", http2.GoAwayError{DebugData: refused}, notifier.OutcomeUnknown, notifier.ReasonReplyLost},
		{"a forged answer", fmt.Errorf("net/http: malformed HTTP response %q", refused), notifier.OutcomeUnknown, notifier.ReasonReplyLost},
		{"EOF", io.EOF, notifier.OutcomeUnknown, notifier.ReasonReplyLost},
		{"idle connection closed", errors.New("http: server closed idle connection"), notifier.OutcomeUnknown, notifier.ReasonReplyLost},
		{"ping time-out", errors.New("http2: client connection lost"), notifier.OutcomeUnknown, notifier.ReasonReplyLost},
		{"write error", &net.OpError{Op: "write", Err: errors.New("broken pipe")}, notifier.OutcomeUnknown, notifier.ReasonReplyLost},
		{"deadline", context.DeadlineExceeded, notifier.OutcomeUnknown, notifier.ReasonTimeOut},
		{"cancelled", context.Canceled, notifier.OutcomeUnknown, notifier.ReasonReplyLost},
		{"nothing at all", nil, notifier.OutcomeUnknown, notifier.ReasonReplyLost},
	} {
		err := test.err
		if err != nil {
			err = &url.Error{Op: "Post", URL: "https://example.com/secret", Err: err}
		}
		got := TransportResult(err, passed())
		if got.Outcome != test.outcome || got.Reason != test.reason {
			t.Errorf("%s: got %v, %s, want %v, %s", test.name, got.Outcome, got.Reason, test.outcome, test.reason)
		}
		if strings.Contains(got.ProviderStatus, "secret") {
			t.Errorf("%s: the status quotes the address: %q", test.name, got.ProviderStatus)
		}
		if unsent := TransportResult(err, &Guard{}); unsent.Outcome != notifier.OutcomeNotSent {
			t.Errorf("%s, before the gate: got %v, want not_sent", test.name, unsent.Outcome)
		}
		g := passed()
		g.firstByte.Add(1)
		if begun := TransportResult(err, g); begun.Outcome != notifier.OutcomeUnknown {
			t.Errorf("%s, after an answer began: got %v, want unknown", test.name, begun.Outcome)
		}
	}
}

func TestTransportResult_ClosesTheGate(t *testing.T) {
	t.Parallel()
	g := &Guard{}
	_ = TransportResult(context.DeadlineExceeded, g)
	if err := g.Pass(); !errors.Is(err, ErrGate) {
		t.Errorf("a request passed after it had been called unsent: %v", err)
	}
}

func TestTransportResult_KeptErrorGoesFirst(t *testing.T) {
	t.Parallel()
	first := error(&url.Error{Op: "Post", Err: context.DeadlineExceeded})
	g := passed()
	g.fault.Store(&first)
	if got := TransportResult(errors.New("the library's own words"), g); got.Reason != notifier.ReasonTimeOut {
		t.Errorf("got %+v, want the reason of the first error", got)
	}
}

func TestTransportResult_RealConnections(t *testing.T) {
	t.Parallel()
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	s, trusting := serve(t, HTTP1, ok)
	strangers, err := NewClient(AccountConfig{AllowPrivate: true}, HTTP1)
	if err != nil {
		t.Fatal(err)
	}
	public, err := NewClient(AccountConfig{}, HTTP1)
	if err != nil {
		t.Fatal(err)
	}
	strangers2, err := NewClient(AccountConfig{AllowPrivate: true}, HTTP2)
	if err != nil {
		t.Fatal(err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for _, test := range []struct {
		name   string
		ctx    context.Context
		client *http.Client
		url    string
	}{
		{"connection refused", t.Context(), trusting, "https://" + closed.Addr().String()},
		{"unknown certificate", t.Context(), strangers, s.URL},
		{"unknown certificate, HTTP/2", t.Context(), strangers2, s.URL},
		{"no HTTP/2 there", t.Context(), s.client(t, HTTP2), s.URL},
		{"private network", t.Context(), public, s.URL},
		{"no such host", t.Context(), trusting, "https://host.invalid"},
		{"context ended", ended, trusting, s.URL},
	} {
		g := &Guard{}
		err := do(test.ctx, t, test.client, g, test.url, "{}", nil)
		got := TransportResult(err, g)
		if got.Outcome != notifier.OutcomeNotSent || got.Reason != notifier.ReasonUnreachable || got.ProviderStatus == "" {
			t.Errorf("%s: got %+v, want not_sent, unreachable", test.name, got)
		}
	}
	if n := s.whole.Load(); n != 0 {
		t.Errorf("the server read %d requests, want none", n)
	}
}

// In TLS 1.3 the refusal of our certificate comes after the handshake, and
// meets whatever was written meanwhile.
func TestTransportResult_CertificateRequired(t *testing.T) {
	t.Parallel()
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		t.Error("the handler ran")
	}))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert, MinVersion: tls.VersionTLS13}
	s.StartTLS()
	t.Cleanup(s.Close)
	c, err := NewClient(AccountConfig{CAFile: caFile(t, s), AllowPrivate: true}, HTTP1)
	if err != nil {
		t.Fatal(err)
	}
	g := &Guard{}
	err = do(t.Context(), t, c, g, s.URL, "{}", nil)
	if got := TransportResult(err, g); got.Outcome != notifier.OutcomeNotSent && got.Reason != notifier.ReasonReplyLost {
		t.Errorf("got %+v for %v, want not_sent, or reply_lost where the write failed first", got, err)
	}

	cfg, err := AccountConfig{CAFile: caFile(t, s)}.TLS()
	if err != nil {
		t.Fatal(err)
	}
	conn, err := tls.Dial("tcp", s.Listener.Addr().String(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_, alert := conn.Read(make([]byte, 1))
	if got := TransportResult(alert, passed()); got.Outcome != notifier.OutcomeNotSent || got.Reason != notifier.ReasonBadCredentials {
		t.Errorf("got %+v for %v, want not_sent, bad_credentials", got, alert)
	}
}

func TestTransportResult_HangsUntilTheDeadline(t *testing.T) {
	t.Parallel()
	for _, p := range []Protocol{HTTP1, HTTP2} {
		s, c := serve(t, p, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		g := &Guard{}
		err := do(ctx, t, c, g, s.URL, "{}", nil)
		if got := TransportResult(err, g); got.Outcome != notifier.OutcomeUnknown || got.Reason != notifier.ReasonTimeOut {
			t.Errorf("HTTP/%d: got %+v, want unknown, time_out", p, got)
		}
	}
}

func TestShortStatus(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"410 Unregistered":             "410 Unregistered",
		"two\r\nlines\x00":             "two  lines",
		"\xff bytes":                   "? bytes",
		strings.Repeat("é", 99):        strings.Repeat("é", 99),
		"a" + strings.Repeat("é", 150): "a" + strings.Repeat("é", 99),
	} {
		if got := ShortStatus(in); got != want {
			t.Errorf("ShortStatus(%q) = %q, want %q", in, got, want)
		}
	}
}
