package channels

import (
	"crypto/tls"
	"sync"
	"time"
)

const (
	// holdFor is how long headers wait for their body. It follows at once,
	// unless the peer's flow control has no room for it.
	holdFor = time.Millisecond
	// maxHeld is about what a TLS record takes.
	maxHeld = 16 << 10
)

// joined is a connection on which the headers of a request wait for its body,
// so that a call is one record and one write. The transport flushes after each
// of them. It writes the body as soon as the gate has let it through, which is
// not held up: the look stays as near to the wire as it was.
type joined struct {
	*tls.Conn

	mu   sync.Mutex
	held []byte
	late *time.Timer
}

func newJoined(conn *tls.Conn) *joined {
	c := &joined{Conn: conn}
	c.late = time.AfterFunc(time.Hour, c.tooLate)
	c.late.Stop()
	return c
}

// Write writes p with what is held before it, or holds it.
func (c *joined) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if awaitsBody(p) && len(c.held)+len(p) <= maxHeld {
		if len(c.held) == 0 {
			c.late.Reset(holdFor)
		}
		c.held = append(c.held, p...)
		return len(p), nil
	}
	if len(c.held) == 0 {
		return c.Conn.Write(p)
	}
	c.late.Stop()
	c.held = append(c.held, p...)
	_, err := c.Conn.Write(c.held)
	c.held = c.held[:0]
	if err != nil {
		return 0, err
	}
	return len(p), nil
}

// tooLate writes headers whose body does not come. Where it fails the
// connection ends, and with it the calls on it: nobody else hears of it.
func (c *joined) tooLate() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.held) == 0 {
		return
	}
	err := c.SetWriteDeadline(time.Now().Add(writeStall))
	if err == nil {
		_, err = c.Conn.Write(c.held)
	}
	c.held = c.held[:0]
	if err != nil {
		c.Close()
	}
}

// Close closes the connection; what is held is dropped with it.
func (c *joined) Close() error {
	c.late.Stop()
	return c.Conn.Close()
}

// awaitsBody reports whether p is all the headers of a request that has a
// body: one HEADERS frame with END_HEADERS and without END_STREAM (RFC 9113
// section 6.2). A piece of a body that looks like one is held for a moment,
// which does no harm.
func awaitsBody(p []byte) bool {
	const (
		frameHeader           = 9
		headers               = 1
		endStream, endHeaders = 0x1, 0x4
	)
	return len(p) > frameHeader && int(p[0])<<16|int(p[1])<<8|int(p[2]) == len(p)-frameHeader &&
		p[3] == headers && p[4]&(endStream|endHeaders) == endHeaders
}
