package channels

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"os"
	"time"
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
	idleHTTP1        = 30 * time.Second
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
