package simulate

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

// serveHTTP1 serves one connection to its end.
func serveHTTP1(nc net.Conn, h http.Handler) {
	l := &oneConn{Conn: nc, ended: make(chan struct{})}
	s := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second, MaxHeaderBytes: 1 << 16}
	_ = s.Serve(l) // it ends with the connection
}

// oneConn is a connection, and a listener that accepts nothing else.
type oneConn struct {
	net.Conn
	given bool
	once  sync.Once
	ended chan struct{}
}

// Accept gives the connection, and after its end net.ErrClosed.
func (c *oneConn) Accept() (net.Conn, error) {
	if !c.given {
		c.given = true
		return c, nil
	}
	<-c.ended
	return nil, net.ErrClosed
}

// Close closes the connection.
func (c *oneConn) Close() error {
	c.once.Do(func() { close(c.ended) })
	return c.Conn.Close()
}

// Addr is the listener's address.
func (c *oneConn) Addr() net.Addr { return c.LocalAddr() }

// http1 is a provider for peers that do not speak HTTP/2.
type http1 struct {
	srv *Server
	svc service
}

// ServeHTTP takes one request.
func (h http1) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p := &push{method: r.Method, path: r.URL.Path, headers: map[string]string{}}
	for name, values := range r.Header {
		p.headers[strings.ToLower(name)] = values[0]
		p.duplicate = p.duplicate || len(values) > 1
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, int64(h.svc.maxBody())+1))
	if err != nil {
		return // not received whole
	}
	p.size = len(body)
	p.body, p.whole = body[:min(len(body), h.svc.maxBody())], true
	p.meet(h.srv.faults, h.svc)
	if p.fault != nil && p.fault.Kind == FaultDropBefore {
		panic(http.ErrAbortHandler)
	}
	e, a := h.svc.decide(p, &provider{}, time.Now())
	if p.fault != nil && a.status == http.StatusOK {
		h.fail(w, r, p, e, a)
		return
	}
	h.log(p, e, a)
	writeAnswer(w, a)
}

// log writes the line before the answer; without it the connection is dropped.
func (h http1) log(p *push, e *Entry, a *answer) {
	if p.unlogged {
		return
	}
	if e.Answer == "" {
		e.Answer = a.String()
	}
	if h.srv.journal.write(e) != nil {
		panic(http.ErrAbortHandler)
	}
}

// fail plays the fault out.
func (h http1) fail(w http.ResponseWriter, r *http.Request, p *push, e *Entry, a *answer) {
	f := p.fault
	e.TookEffect = f.effect(e.TookEffect)
	switch f.Kind {
	case FaultStatus, FaultDeadToken, FaultRedirect:
		a = h.svc.struck(f, a)
		e.TookEffect, e.MayTakeEffect = e.MayTakeEffect && f.effect(a.status == 200), e.MayTakeEffect && h.svc.mayTakeEffect(a)
		h.log(p, e, a)
		writeAnswer(w, a)
		return
	case FaultDelay:
		h.log(p, e, a)
		if h.srv.sleep(f.Delay) {
			writeAnswer(w, a)
			return
		}
	case FaultTruncate:
		e.Answer = "200 truncated"
		h.log(p, e, a)
		hijack(w, func(nc net.Conn) {
			_, _ = fmt.Fprintf(nc, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 64\r\n\r\n{\"na")
		})
		return
	case FaultHang:
		e.Answer = "none"
		h.log(p, e, a)
		select {
		case <-r.Context().Done():
		case <-h.srv.done:
		}
	case FaultDropReply, FaultDropBefore, FaultRSTStream, FaultGoAway,
		FaultCloseBeforeDot, FaultCloseAfterDot, FaultAcceptThenClose, FaultSlowDot, FaultReply, FaultReceipt:
		e.Answer = "none"
		h.log(p, e, a)
	}
	panic(http.ErrAbortHandler)
}

func writeAnswer(w http.ResponseWriter, a *answer) {
	head := w.Header()
	head.Set("Content-Type", "application/json; charset=utf-8")
	if a.html {
		head.Set("Content-Type", "text/html; charset=utf-8")
	}
	if a.retryAfter != "" {
		head.Set("Retry-After", a.retryAfter)
	}
	if a.location != "" {
		head.Set("Location", a.location)
	}
	w.WriteHeader(a.status)
	_, _ = w.Write(a.body()) // the sender may be gone
}
