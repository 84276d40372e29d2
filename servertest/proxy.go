package servertest

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"
)

// Proxy stands between a client and a server and does to their connections what
// networks do. It reads the Redis and the Postgres protocol and passes anything
// else on as it comes, each piece that arrives from the client as one request.
type Proxy struct {
	tb     testing.TB
	target string
	port   *port

	mu       sync.Mutex
	listener net.Listener
	conns    map[*proxied]struct{}
	losses   []*loss
	delay    time.Duration
	open     chan struct{} // closed while bytes may pass
	closed   bool
	running  sync.WaitGroup
}

// loss is one reply, or one request, that is to be lost.
type loss struct {
	match   func(request []byte) bool
	left    int  // how many matching requests until it is this one's turn
	request bool // the request is lost already
	done    chan struct{}
}

// NewProxy starts a proxy in front of target, a host and port, for a test.
func NewProxy(tb testing.TB, target string) *Proxy {
	tb.Helper()
	p, err := StartProxy(target)
	if err != nil {
		tb.Fatal(err)
	}
	p.tb = tb
	tb.Cleanup(func() { _ = p.Stop() })
	return p
}

// StartProxy is NewProxy for programs.
func StartProxy(target string) (*Proxy, error) {
	p := &Proxy{target: target, conns: map[*proxied]struct{}{}, open: make(chan struct{})}
	close(p.open)
	err := onFreePort(func(port *port) error {
		p.port = port
		return p.listen()
	})
	if err != nil {
		return nil, err
	}
	return p, nil
}

// listen is called before the proxy is shared, or with its lock held.
func (p *Proxy) listen() error {
	listener, err := net.Listen("tcp4", p.port.addr())
	if err != nil {
		return fmt.Errorf("listen for %s: %w", p.target, errors.Join(errAddressInUse, err))
	}
	p.listener = listener
	p.running.Go(func() { p.accept(listener) })
	return nil
}

func (p *Proxy) accept(listener net.Listener) {
	for {
		client, err := listener.Accept()
		if err != nil {
			return
		}
		c := &proxied{proxy: p, client: client, cut: make(chan struct{})}
		if !p.keep(c) {
			_ = client.Close()
			return
		}
		p.running.Go(c.serve)
	}
}

func (p *Proxy) keep(c *proxied) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.closed {
		p.conns[c] = struct{}{}
	}
	return !p.closed
}

func (p *Proxy) forget(c *proxied) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, c)
}

// Addr is the proxy's host and port.
func (p *Proxy) Addr() string { return p.port.addr() }

// URL is a server's URL with the proxy in the server's place.
func (p *Proxy) URL(server string) string { return strings.Replace(server, p.target, p.Addr(), 1) }

// DropReply loses the reply of the nth request from now that match accepts,
// counted from 1 over all connections: the request reaches the server, the
// proxy waits until the server has answered, throws the answer away and cuts
// the connection. Requests that were sent behind it in the same connection may have been
// carried out as well, and those replies are lost too. The channel is closed when it has happened.
//
// match is called by one connection at a time. It sees, for Redis, the command
// as it is on the wire; for Postgres a simple query's message, or the text of a
// prepared statement followed by the message that binds it. Preparing alone is no request. pgx commits
// by the simple query "commit".
func (p *Proxy) DropReply(match func(request []byte) bool, nth int) <-chan struct{} {
	return p.lose(&loss{match: match, left: nth, done: make(chan struct{})})
}

// DropRequest is DropReply for a request that never reaches the server: the
// connection is cut in its place.
func (p *Proxy) DropRequest(match func(request []byte) bool, nth int) <-chan struct{} {
	return p.lose(&loss{match: match, left: nth, request: true, done: make(chan struct{})})
}

func (p *Proxy) lose(l *loss) <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.losses = append(p.losses, l)
	return l.done
}

// Contains matches requests that contain the text, in upper or lower case.
func Contains(text string) func(request []byte) bool {
	lower := []byte(strings.ToLower(text))
	return func(request []byte) bool { return bytes.Contains(bytes.ToLower(request), lower) }
}

// lossOf is the loss whose turn a request is, if any.
func (p *Proxy) lossOf(request []byte) *loss {
	p.mu.Lock()
	defer p.mu.Unlock()
	var hit *loss
	for i := 0; i < len(p.losses); i++ {
		l := p.losses[i]
		if !l.match(request) {
			continue
		}
		l.left--
		if l.left <= 0 && hit == nil {
			hit = l
			p.losses = append(p.losses[:i], p.losses[i+1:]...)
			i--
		}
	}
	return hit
}

// Delay holds every piece of every reply back for a time; 0 ends it.
func (p *Proxy) Delay(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.delay = d
}

// Cut closes all connections, in the middle of whatever they carry.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		c.close()
	}
}

// Blackhole lets connections come about and nothing pass through them, new or
// old. What was sent meanwhile arrives when it is switched off, as from a network that heals.
func (p *Proxy) Blackhole(on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.open:
		if on {
			p.open = make(chan struct{})
		}
	default:
		if !on {
			close(p.open)
		}
	}
}

// Refuse makes new connections be refused, as by a port on which nobody
// listens. Those that exist go on: Cut ends them.
func (p *Proxy) Refuse(on bool) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if on == (p.listener == nil) || p.closed {
		return nil
	}
	if on {
		err := p.listener.Close()
		p.listener = nil
		return fail(p.tb, err)
	}
	return fail(p.tb, p.listen())
}

// Stop ends the proxy and cuts its connections.
func (p *Proxy) Stop() error {
	p.mu.Lock()
	stopped := p.closed
	p.closed = true
	if p.listener != nil {
		_ = p.listener.Close()
		p.listener = nil
	}
	p.mu.Unlock()
	if stopped {
		return nil
	}
	p.Cut()
	p.running.Wait()
	p.port.free()
	return nil
}

// state is what holds bytes back now.
func (p *Proxy) state() (open <-chan struct{}, delay time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.open, p.delay
}
