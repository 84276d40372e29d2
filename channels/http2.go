//lint:file-ignore SA1019 golang.org/x/net/http2 is frozen in favour of net/http; newHTTP2 says why it is used all the same.

package channels

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"golang.org/x/net/http2"
)

const (
	// idleHTTP2 may be long, since pings notice a peer that went away.
	idleHTTP2   = 10 * time.Minute
	pingAfter   = 15 * time.Second
	pingTimeout = 10 * time.Second
	writeStall  = 15 * time.Second
	// lookAgain is how often a call that waits for a stream looks by itself:
	// a raised limit, or a reset that the peer has seen, wakes nobody.
	lookAgain = 10 * time.Millisecond
	// noHeaderTable is the smallest dynamic table for compressing headers that
	// can be asked for (zero asks for the default): nothing fits in.
	noHeaderTable = 1
)

// newHTTP2 drives HTTP/2 through golang.org/x/net rather than net/http, which
// in Go 1.26 sends a request on new connections without end when its stream is
// reset with PROTOCOL_ERROR.
//
// Headers go out as literals. A push has a path, ids and an expiry of its own,
// which in a table would only push each other out, and the token with them; the
// bookkeeping costs as much as all the rest of a call. Apple asks for the same,
// for the sake of its own table.
// https://developer.apple.com/documentation/usernotifications/sending-notification-requests-to-apns
func newHTTP2(cfg AccountConfig, t *tls.Config) http.RoundTripper {
	t = t.Clone()
	t.NextProtos = []string{http2.NextProtoTLS}
	s := &streams{dial: Dialer(cfg.AllowPrivate), tls: t, peers: map[string]*peer{}}
	s.transport = &http2.Transport{
		ConnPool:                  s,
		IdleConnTimeout:           idleHTTP2,
		ReadIdleTimeout:           pingAfter,
		PingTimeout:               pingTimeout,
		WriteByteTimeout:          writeStall,
		MaxHeaderListSize:         maxHeaderBytes,
		MaxEncoderHeaderTableSize: noHeaderTable,
		DisableCompression:        true,
	}
	return s
}

// streams is an HTTP/2 client with one connection to each peer, on which calls
// wait for a stream, within their contexts.
//
// The pool of http2.Transport does neither: it opens another connection when
// the peer's limit of streams is reached, which a provider that starts at one
// stream would meet with one connection for each call; told to be strict, it
// locks up for good when more calls wait than the limit allows
// (https://go.dev/issue/70809).
type streams struct {
	transport *http2.Transport
	dial      func(ctx context.Context, network, addr string) (net.Conn, error)
	tls       *tls.Config

	mu    sync.Mutex
	peers map[string]*peer
}

// peer is the connection to one address. Whoever holds the turn looks for a
// stream; the others wait for it.
type peer struct {
	addr  string
	turn  chan struct{}
	freed chan struct{} // a stream may have become free

	mu   sync.Mutex
	conn *http2.ClientConn
	// failures counts connections that could not be made, and err says why the
	// last one was not: what waited meanwhile need not try again.
	failures int
	err      error
}

// RoundTrip sends the request on the peer's connection.
func (s *streams) RoundTrip(req *http.Request) (*http.Response, error) {
	p := s.peer(hostPort(req))
	resp, err := s.transport.RoundTrip(req)
	if err != nil {
		p.wake()
		return nil, err
	}
	resp.Body = wakeBody{resp.Body, p}
	return resp, nil
}

// CloseIdleConnections closes the connections on which nothing is under way,
// and lets the others end with what is.
func (s *streams) CloseIdleConnections() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.peers {
		if cc := p.take(); cc != nil {
			if st := cc.State(); st.StreamsActive+st.StreamsReserved+st.StreamsPending == 0 {
				cc.Close()
			} else {
				cc.SetDoNotReuse()
			}
		}
	}
}

// GetClientConn returns the connection with a stream reserved on it. It is
// for http2.Transport.
func (s *streams) GetClientConn(req *http.Request, addr string) (*http2.ClientConn, error) {
	ctx, p := req.Context(), s.peer(addr)
	before := p.failed(nil)
	select {
	case p.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { <-p.turn }()
	for {
		cc, err := s.connection(ctx, p, before)
		if err != nil {
			return nil, err
		}
		if cc.ReserveNewRequest() {
			return cc, nil
		}
		if st := cc.State(); st.Closed || st.Closing {
			p.forget(cc) // it closes itself after its last stream
			continue
		}
		select {
		case <-p.freed:
		case <-time.After(lookAgain):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// MarkDead forgets a connection. It is for http2.Transport.
func (s *streams) MarkDead(cc *http2.ClientConn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.peers {
		p.forget(cc)
	}
}

func (s *streams) peer(addr string) *peer {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.peers[addr]
	if p == nil {
		p = &peer{addr: addr, turn: make(chan struct{}, 1), freed: make(chan struct{}, 1)}
		s.peers[addr] = p
	}
	return p
}

// connection returns the peer's connection, or makes one. It is called by the
// holder of the turn; before is what failed gave it when it began to wait.
func (s *streams) connection(ctx context.Context, p *peer, before int) (*http2.ClientConn, error) {
	p.mu.Lock()
	cc, failures, err := p.conn, p.failures, p.err
	p.mu.Unlock()
	if cc != nil {
		return cc, nil
	}
	if failures > before {
		return nil, err
	}
	cc, err = s.connect(ctx, p.addr)
	if err != nil {
		if ctx.Err() == nil {
			p.failed(err)
		}
		return nil, err
	}
	p.mu.Lock()
	p.conn = cc
	p.mu.Unlock()
	return cc, nil
}

// connect makes a connection and waits until the peer has said how many
// streams it takes: its settings come before its answer to a ping (RFC 9113
// section 3.4).
func (s *streams) connect(ctx context.Context, addr string) (*http2.ClientConn, error) {
	raw, err := s.dial(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, handshakeTimeout)
	defer cancel()
	t := s.tls.Clone()
	t.ServerName, _, _ = net.SplitHostPort(addr)
	conn := tls.Client(raw, t)
	if err := conn.HandshakeContext(ctx); err != nil {
		raw.Close()
		return nil, fmt.Errorf("handshake with %s: %w", addr, err)
	}
	if got := conn.ConnectionState().NegotiatedProtocol; got != http2.NextProtoTLS {
		raw.Close()
		return nil, fmt.Errorf("handshake with %s: the peer does not speak HTTP/2 (ALPN %q)", addr, got)
	}
	cc, err := s.transport.NewClientConn(newJoined(conn))
	if err != nil {
		raw.Close()
		return nil, fmt.Errorf("begin HTTP/2 with %s: %w", addr, err)
	}
	if err := cc.Ping(ctx); err != nil {
		cc.Close()
		return nil, fmt.Errorf("begin HTTP/2 with %s: %w", addr, err)
	}
	return cc, nil
}

// failed counts a connection that could not be made, if err is one, and
// returns the count.
func (p *peer) failed(err error) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil {
		p.failures, p.err = p.failures+1, err
	}
	return p.failures
}

func (p *peer) forget(cc *http2.ClientConn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.conn == cc {
		p.conn = nil
	}
}

func (p *peer) take() *http2.ClientConn {
	p.mu.Lock()
	defer p.mu.Unlock()
	cc := p.conn
	p.conn = nil
	return cc
}

func (p *peer) wake() {
	select {
	case p.freed <- struct{}{}:
	default:
	}
}

// wakeBody tells the peer's next call when an answer has been read.
type wakeBody struct {
	io.ReadCloser
	peer *peer
}

func (b wakeBody) Close() error {
	err := b.ReadCloser.Close()
	b.peer.wake()
	return err
}

// hostPort is the request's peer as http2.Transport names it.
func hostPort(req *http.Request) string {
	if req.URL.Port() != "" {
		return req.URL.Host
	}
	return net.JoinHostPort(req.URL.Hostname(), "443")
}
