package servertest

import (
	"bufio"
	"net"
	"sync"
	"time"
)

// proxied is one connection through a proxy. Each direction is a goroutine that
// moves whole messages, so that a reply can be told from the next one.
type proxied struct {
	proxy  *Proxy
	client net.Conn
	cut    chan struct{} // closed with the connection

	mu     sync.Mutex
	server net.Conn
	gone   bool

	// Replies come in the order of their requests, so that counting finds the
	// one that is to be lost.
	asked    int     // replies that the requests passed on so far will have
	answered int     // of them, those that have come
	losing   []*loss // whose replies are lost in this connection
	first    int     // the number of the first reply that is lost
	last     int     // and of the last
}

// serve connects to the server and moves bytes until either side has had enough.
func (c *proxied) serve() {
	defer c.proxy.forget(c)
	defer c.close()
	if !c.pass(0) {
		return
	}
	server, err := net.Dial("tcp", c.proxy.target)
	if err != nil || !c.connected(server) {
		return
	}
	fromClient, fromServer := bufio.NewReader(c.client), bufio.NewReader(server)
	wire, err := wireOf(fromClient)
	if err != nil {
		return
	}
	var replies sync.WaitGroup
	replies.Go(func() {
		defer c.close()
		c.moveReplies(wire, fromServer)
	})
	c.moveRequests(wire, fromClient)
	c.close()
	replies.Wait()
}

// connected keeps the server's end, unless the connection was cut meanwhile.
func (c *proxied) connected(server net.Conn) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.gone {
		_ = server.Close()
		return false
	}
	c.server = server
	return true
}

func (c *proxied) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.gone {
		return
	}
	c.gone = true
	close(c.cut)
	_ = c.client.Close()
	if c.server != nil {
		_ = c.server.Close()
	}
}

// pass waits until bytes may pass, at least for the delay, and reports whether
// the connection still stands then.
func (c *proxied) pass(delay time.Duration) bool {
	open, _ := c.proxy.state()
	if delay > 0 {
		timer := time.NewTimer(delay)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-c.cut:
			return false
		}
	}
	select {
	case <-open:
		return true
	case <-c.cut:
		return false
	}
}

func (c *proxied) moveRequests(wire wire, from *bufio.Reader) {
	to := bufio.NewWriter(c.server)
	for {
		m, err := wire.request(from)
		if err != nil || !c.pass(0) {
			return
		}
		if m.answer != nil {
			if _, err := c.client.Write(m.answer); err != nil {
				return
			}
			continue
		}
		if !c.ask(m) {
			return
		}
		if _, err := to.Write(m.raw); err != nil {
			return
		}
		if from.Buffered() == 0 {
			if err := to.Flush(); err != nil {
				return
			}
		}
	}
}

// ask notes how many replies a request will have, and which is to be lost. It
// reports whether the request goes on its way.
func (c *proxied) ask(m message) bool {
	var hit *loss
	if m.view != nil {
		hit = c.proxy.lossOf(m.view)
	}
	if hit != nil && hit.request {
		c.close()
		close(hit.done)
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if hit != nil {
		c.last = c.asked + 1
		if c.losing == nil {
			c.first = c.last
		}
		c.losing = append(c.losing, hit)
	}
	c.asked += m.replies
	return true
}

func (c *proxied) moveReplies(wire wire, from *bufio.Reader) {
	to := bufio.NewWriter(c.client)
	for {
		m, err := wire.reply(from)
		if err != nil {
			return
		}
		_, delay := c.proxy.state()
		if !c.pass(delay) {
			return
		}
		swallow, lost := c.answer(m.replies)
		if lost != nil {
			_ = to.Flush() // the replies before it are not lost
			c.close()
			for _, l := range lost {
				close(l.done)
			}
			return
		}
		if swallow {
			continue
		}
		if _, err := to.Write(m.raw); err != nil {
			return
		}
		if from.Buffered() == 0 {
			if err := to.Flush(); err != nil {
				return
			}
		}
	}
}

// answer counts what a message from the server completes. It tells whether the
// message belongs to a reply that is lost, and the losses when the last of them
// is complete: the server is done with those requests then.
func (c *proxied) answer(replies int) (swallow bool, lost []*loss) {
	c.mu.Lock()
	defer c.mu.Unlock()
	swallow = c.losing != nil && c.answered >= c.first-1
	c.answered += replies
	if c.answered >= c.last {
		lost = c.losing
	}
	return swallow, lost
}
