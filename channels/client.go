package channels

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"os"
	"time"

	"golang.org/x/net/http2"
)

// Protocol is the version of HTTP that a provider speaks.
type Protocol uint8

// The protocols.
const (
	HTTP1 Protocol = iota + 1
	HTTP2
)

const (
	handshakeTimeout = 10 * time.Second
	// idleHTTP1 lies below the 60 s after which common servers hang up: a
	// request that meets their hanging up has an unknown outcome.
	idleHTTP1 = 30 * time.Second
	// idleHTTP2 may be long, since pings notice a peer that went away.
	idleHTTP2        = 10 * time.Minute
	pingAfter        = 15 * time.Second
	pingTimeout      = 10 * time.Second
	writeStall       = 15 * time.Second
	maxHeaderBytes   = 64 << 10
	defaultIdleConns = 100
)

// NewClient returns the client of one account: every request through
// SingleShot, no redirect followed, no proxy from the environment, no time-out
// of its own (the context has it).
func NewClient(cfg AccountConfig, p Protocol) (*http.Client, error) {
	tlsConfig, err := cfg.TLS()
	if err != nil {
		return nil, err
	}
	var base http.RoundTripper
	switch p {
	case HTTP1:
		base = newHTTP1(cfg, tlsConfig)
	case HTTP2:
		base = newHTTP2(cfg, tlsConfig)
	default:
		return nil, fmt.Errorf("make a client for protocol %d: there is no such protocol", p)
	}
	return &http.Client{
		Transport:     SingleShot{Base: base},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}, nil
}

// TLS returns the account's TLS configuration: version 1.2 at least, trusting
// CAFile where one is given.
func (c AccountConfig) TLS() (*tls.Config, error) {
	t := &tls.Config{MinVersion: tls.VersionTLS12}
	if c.CAFile == "" {
		return t, nil
	}
	pem, err := os.ReadFile(c.CAFile)
	if err != nil {
		return nil, fmt.Errorf("read the CA file: %w", err)
	}
	t.RootCAs = x509.NewCertPool()
	if !t.RootCAs.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("read the CA file %q: no PEM certificate in it", c.CAFile)
	}
	return t, nil
}

func newHTTP1(cfg AccountConfig, t *tls.Config) http.RoundTripper {
	idle := cfg.MaxInFlight
	if idle == 0 {
		idle = defaultIdleConns
	}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	return &http.Transport{
		Proxy:                  nil,
		DialContext:            Dialer(cfg.AllowPrivate),
		TLSClientConfig:        t,
		TLSHandshakeTimeout:    handshakeTimeout,
		Protocols:              protocols,
		IdleConnTimeout:        idleHTTP1,
		MaxIdleConns:           idle,
		MaxIdleConnsPerHost:    idle,
		MaxResponseHeaderBytes: maxHeaderBytes,
		DisableCompression:     true,
	}
}

// newHTTP2 drives HTTP/2 through golang.org/x/net rather than net/http, which
// in Go 1.26 sends a request on new connections without end when its stream is
// reset with PROTOCOL_ERROR. There is one connection, and calls wait for a
// stream on it: a provider that starts with few streams is not met by a
// connection for each call.
func newHTTP2(cfg AccountConfig, t *tls.Config) http.RoundTripper {
	dial := Dialer(cfg.AllowPrivate)
	return prompt{&http2.Transport{
		TLSClientConfig: t,
		DialTLSContext: func(ctx context.Context, network, addr string, t *tls.Config) (net.Conn, error) {
			return dialHTTP2(ctx, dial, network, addr, t)
		},
		StrictMaxConcurrentStreams: true,
		IdleConnTimeout:            idleHTTP2,
		ReadIdleTimeout:            pingAfter,
		PingTimeout:                pingTimeout,
		WriteByteTimeout:           writeStall,
		MaxHeaderListSize:          maxHeaderBytes,
		DisableCompression:         true,
	}}
}

func dialHTTP2(ctx context.Context, dial func(context.Context, string, string) (net.Conn, error), network, addr string, t *tls.Config) (net.Conn, error) {
	raw, err := dial(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, handshakeTimeout)
	defer cancel()
	conn := tls.Client(raw, t)
	if err := conn.HandshakeContext(ctx); err != nil {
		raw.Close()
		return nil, fmt.Errorf("handshake with %s: %w", addr, err)
	}
	if got := conn.ConnectionState().NegotiatedProtocol; got != http2.NextProtoTLS {
		raw.Close()
		return nil, fmt.Errorf("handshake with %s: the peer does not speak HTTP/2 (ALPN %q)", addr, got)
	}
	return conn, nil
}

// prompt returns when the request's context ends. The pool under it waits for
// a dial that another request began, whatever the context says. The request
// that is left behind there finds its gate closed.
type prompt struct{ *http2.Transport }

func (p prompt) RoundTrip(req *http.Request) (*http.Response, error) {
	type answer struct {
		resp *http.Response
		err  error
	}
	done := make(chan answer, 1)
	go func() {
		resp, err := p.Transport.RoundTrip(req)
		done <- answer{resp, err}
	}()
	select {
	case a := <-done:
		return a.resp, a.err
	case <-req.Context().Done():
	}
	select {
	case a := <-done: // both at once: an answer is worth more
		return a.resp, a.err
	default:
	}
	go func() {
		if a := <-done; a.err == nil {
			a.resp.Body.Close()
		}
	}()
	return nil, req.Context().Err()
}
