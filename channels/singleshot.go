package channels

import (
	"bytes"
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync"
	"time"
)

// Errors of a request that SingleShot did not let through.
var (
	// ErrSecondSend is the error of a second request under one guard: a
	// library's retry, or a redirect.
	ErrSecondSend = errors.New("a second request within one attempt was refused")
	errNoGuard    = errors.New("the request carries no guard")
)

const (
	// maxAnswerBytes is as much of an answer as is read.
	maxAnswerBytes = 64 << 10
	// answerPatience is how long an answer may take from its status to its
	// end. The status decides; a body that trickles must not hold a slot.
	answerPatience = 5 * time.Second
)

// SingleShot lets one request per Guard onto the wire, and keeps its status,
// headers and body, or its error, in the Guard.
//
// net/http sends a request again when it can rewind the body (GetBody) and
// thinks that nothing was processed: on HTTP/2 after REFUSED_STREAM and GOAWAY,
// on HTTP/1.1 on a kept-alive connection whenever a header map holds one of
// the names Idempotency-Key and X-Idempotency-Key. It follows 307 and 308 by
// the same means. So the body is made one that cannot be rewound, and these
// two names go out in lower case, which is the same header to the receiver
// (RFC 9110 section 5.1) and another key to net/http.
type SingleShot struct {
	Base http.RoundTripper
}

// RoundTrip sends the request, unless its Guard has sent one before. The
// answer's body is read to its end here, within limits.
func (s SingleShot) RoundTrip(req *http.Request) (*http.Response, error) {
	g, _ := req.Context().Value(guardKey{}).(*Guard)
	if g == nil {
		closeBody(req)
		return nil, errNoGuard
	}
	if g.requests.Add(1) > 1 {
		closeBody(req)
		g.hiddenResend.Store(true)
		return nil, ErrSecondSend
	}
	ctx, cancel := context.WithCancel(req.Context())
	defer cancel()
	resp, err := s.Base.RoundTrip(s.once(ctx, req, g))
	if err != nil {
		g.fault.CompareAndSwap(nil, &err)
		return nil, err
	}
	patience := time.AfterFunc(answerPatience, cancel)
	defer patience.Stop()
	keep(resp, g)
	return resp, nil
}

// once returns a copy of req that can be sent once only and asks the gate.
func (s SingleShot) once(ctx context.Context, req *http.Request, g *Guard) *http.Request {
	r := req.WithContext(httptrace.WithClientTrace(ctx, g.trace())) // a copy, but for the headers
	r.GetBody = nil
	if r.Body == nil || r.Body == http.NoBody {
		// http.NoBody counts as rewindable; a body of unknown length that
		// happens to be empty does not, and it asks the gate like any other.
		r.Body = io.NopCloser(strings.NewReader(""))
		r.ContentLength = -1
	}
	r.Body = &gatedBody{ReadCloser: r.Body, guard: g}
	r.Header = lowered(r.Header)
	return r
}

// lowered is the headers with the two names in lower case. They are the
// caller's own where neither is there.
func lowered(h http.Header) http.Header {
	for _, k := range [...]string{"Idempotency-Key", "X-Idempotency-Key"} {
		v, ok := h[k]
		if !ok {
			continue
		}
		h = maps.Clone(h)
		delete(h, k)
		if len(v) > 0 {
			h[strings.ToLower(k)] = v
		}
	}
	return h
}

// CloseIdleConnections lets the base's idle connections go.
func (s SingleShot) CloseIdleConnections() {
	if c, ok := s.Base.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// keep reads the answer into the guard and puts a copy of it in its place.
func keep(resp *http.Response, g *Guard) {
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswerBytes+1))
	if len(body) > maxAnswerBytes {
		body, err = body[:maxAnswerBytes], io.ErrShortBuffer
	}
	resp.Body.Close()
	g.answer.CompareAndSwap(nil, &Answer{Status: resp.StatusCode, Header: resp.Header.Clone(), Body: body, Err: err})
	rest := io.Reader(bytes.NewReader(body))
	if err != nil {
		rest = io.MultiReader(rest, failing{err})
	}
	resp.Body = io.NopCloser(rest)
}

// failing is a reader that fails, for whoever reads an answer that was cut.
type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

func closeBody(req *http.Request) {
	if req.Body != nil {
		req.Body.Close()
	}
}

// gatedBody asks the gate before it gives out its first byte, or its end.
//
// The gate is here, and not at the connection, because an HTTP/2 connection's
// writes belong to all its streams: refusing one would end them all. By then
// the headers may be on the wire; without the body no provider acts on them.
type gatedBody struct {
	io.ReadCloser
	guard *Guard
	once  sync.Once
	err   error
}

func (b *gatedBody) Read(p []byte) (int, error) {
	b.once.Do(func() { b.err = b.guard.Pass() })
	if b.err != nil {
		return 0, b.err
	}
	return b.ReadCloser.Read(p)
}

// trace counts what the transport does. GotConn comes before any byte of the
// request is written; WroteHeaders may come without one having been.
func (g *Guard) trace() *httptrace.ClientTrace {
	return &httptrace.ClientTrace{
		GotConn:              func(httptrace.GotConnInfo) { g.gotConn.Add(1) },
		WroteHeaders:         func() { g.wroteHeaders.Add(1) },
		GotFirstResponseByte: func() { g.firstByte.Add(1) },
	}
}
