package simulate

import (
	"bufio"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// What the real one announces in its SETTINGS.
const (
	maxStreams    = 1000
	maxHeaderList = 8000
	initialWindow = 65535
)

// service is a provider behind HTTP.
type service interface {
	// asked is what faults are matched against. It is called when a request's
	// headers have come; where the answer lies in the body, ok is false then,
	// and it is called again when the request is whole.
	asked(p *push) (a asked, ok bool)
	// decide judges a request that has come in whole: its log line, and the
	// answer. The line says whether the message takes effect.
	decide(p *push, who *provider, now time.Time) (*Entry, *answer)
	// struck is the answer that a fault gives in place of ok.
	struck(f *Fault, ok *answer) *answer
	// mayTakeEffect is false for the answers after which the sender can rely on
	// nothing having been processed.
	mayTakeEffect(a *answer) bool
	// maxBody is as much of a body as can be accepted.
	maxBody() int
}

// h2Conn is one HTTP/2 connection. One goroutine reads and decides, one
// writes; the log is between them.
type h2Conn struct {
	srv *Server
	svc service
	nc  net.Conn
	fr  *http2.Framer // reads

	// Owned by the reading goroutine.
	who      provider
	streams  map[uint32]*push // headers came, body did not end
	newest   uint32           // highest stream opened
	last     uint32           // highest stream that was processed
	consumed uint32           // of the connection's window, not given back yet
	// refuseAbove is the last stream that counts after a GOAWAY.
	refuseAbove uint32

	hung map[uint32]bool // streams that will never be answered

	open      atomic.Int32 // streams without an end
	readEnded chan struct{}

	mu    sync.Mutex
	ops   []op
	ended bool
	wake  chan struct{}
}

// op is something to write; an error ends the connection.
type op func(*h2Writer) error

// What an op says when it is the connection's last.
var (
	errDrop   = errors.New("the connection is dropped")
	errLinger = errors.New("the connection is closed once the peer has read")
)

func drop(*h2Writer) error { return errDrop }

func newH2Conn(s *Server, svc service, nc net.Conn) *h2Conn {
	c := &h2Conn{srv: s, svc: svc, nc: nc, streams: map[uint32]*push{}, hung: map[uint32]bool{}, readEnded: make(chan struct{}),
		refuseAbove: 1<<31 - 1, wake: make(chan struct{}, 1)}
	c.fr = http2.NewFramer(nil, bufio.NewReaderSize(nc, 1<<16))
	c.fr.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	c.fr.MaxHeaderListSize = maxHeaderList
	c.fr.SetReuseFrames()
	return c
}

func (c *h2Conn) serve() {
	written := make(chan struct{})
	go func() {
		defer close(written)
		newH2Writer(c).run()
	}()
	c.queue(func(w *h2Writer) error {
		return w.fr.WriteSettings(
			http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: maxStreams},
			http2.Setting{ID: http2.SettingMaxHeaderListSize, Val: maxHeaderList})
	})
	c.read()
	close(c.readEnded)
	c.end()
	<-written
}

// queue hands an op to the writing goroutine. It never blocks: a peer that
// does not read holds up nobody's log.
func (c *h2Conn) queue(o op) {
	c.mu.Lock()
	if !c.ended {
		c.ops = append(c.ops, o)
	}
	c.mu.Unlock()
	c.signal()
}

func (c *h2Conn) end() {
	c.mu.Lock()
	c.ended = true
	c.mu.Unlock()
	c.signal()
}

func (c *h2Conn) signal() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// read handles frames until the connection ends.
func (c *h2Conn) read() {
	preface := make([]byte, len(http2.ClientPreface))
	if _, err := io.ReadFull(c.nc, preface); err != nil || string(preface) != http2.ClientPreface {
		return
	}
	for {
		f, err := c.fr.ReadFrame()
		if err == nil {
			err = c.frame(f)
		}
		var se http2.StreamError
		var ce http2.ConnectionError
		switch {
		case err == nil:
		case errors.As(err, &se):
			c.forget(se.StreamID)
			c.queue(func(w *h2Writer) error { return w.fr.WriteRSTStream(se.StreamID, se.Code) })
		case errors.As(err, &ce):
			c.queue(func(w *h2Writer) error { return w.goAway(c.newest, http2.ErrCode(ce), true) })
			_, _ = io.Copy(io.Discard, c.nc) // until the writer has closed it
			return
		default:
			return
		}
	}
}

func (c *h2Conn) frame(f http2.Frame) error {
	switch f := f.(type) {
	case *http2.MetaHeadersFrame:
		return c.headers(f)
	case *http2.DataFrame:
		return c.data(f)
	case *http2.SettingsFrame:
		return c.settings(f)
	case *http2.PingFrame:
		if !f.IsAck() {
			data := f.Data
			c.queue(func(w *h2Writer) error { return w.fr.WritePing(true, data) })
		}
	case *http2.WindowUpdateFrame:
		if f.StreamID == 0 {
			n := int64(f.Increment)
			c.queue(func(w *h2Writer) error { return w.grow(n) })
		}
	case *http2.RSTStreamFrame:
		// A request that had come in whole is processed all the same: the log
		// has it. Its answer finds the stream closed, which peers must ignore.
		c.forget(f.StreamID)
		if c.hung[f.StreamID] {
			delete(c.hung, f.StreamID)
			c.open.Add(-1)
		}
	case *http2.PushPromiseFrame:
		return http2.ConnectionError(http2.ErrCodeProtocol)
	}
	return nil // GOAWAY, PRIORITY and unknown frames ask for nothing
}

// forget drops a request that has not come in whole.
func (c *h2Conn) forget(id uint32) {
	if _, ok := c.streams[id]; ok {
		delete(c.streams, id)
		c.open.Add(-1)
	}
}

func (c *h2Conn) headers(f *http2.MetaHeadersFrame) error {
	id := f.StreamID
	if p, ok := c.streams[id]; ok { // trailers
		if !f.StreamEnded() {
			return http2.StreamError{StreamID: id, Code: http2.ErrCodeProtocol}
		}
		return c.whole(p)
	}
	if id%2 == 0 || id <= c.newest {
		return http2.ConnectionError(http2.ErrCodeProtocol)
	}
	c.newest = id
	if id > c.refuseAbove {
		return nil
	}
	if f.Truncated {
		return http2.StreamError{StreamID: id, Code: http2.ErrCodeProtocol}
	}
	if c.open.Load() >= maxStreams {
		return http2.StreamError{StreamID: id, Code: http2.ErrCodeRefusedStream}
	}
	p := newPush(f)
	c.open.Add(1)
	c.streams[id] = p
	p.meet(c.srv.faults, c.svc)
	if p.fault != nil && p.fault.Kind == FaultDropBefore {
		return errDrop
	}
	if f.StreamEnded() {
		return c.whole(p)
	}
	return nil
}

// meet takes the fault that the request meets, once it is known what it is about.
func (p *push) meet(fs *faults, svc service) {
	if p.met {
		return
	}
	var a asked
	if a, p.met = svc.asked(p); p.met {
		p.fault = fs.take(a)
	}
}

func newPush(f *http2.MetaHeadersFrame) *push {
	p := &push{id: f.StreamID, method: f.PseudoValue("method"), path: f.PseudoValue("path"),
		headers: make(map[string]string, len(f.Fields))}
	for _, h := range f.RegularFields() {
		if _, ok := p.headers[h.Name]; ok {
			p.duplicate = true
		}
		p.headers[h.Name] = h.Value
	}
	return p
}

// push is one request as it comes in.
type push struct {
	id      uint32 // the stream
	method  string
	path    string
	headers map[string]string
	// duplicate is a header that came twice.
	duplicate bool
	body      []byte
	size      int // of the whole body; body keeps no more than can be accepted
	whole     bool
	fault     *Fault
	met       bool   // fault is decided
	consumed  uint32 // of the stream's window, not given back yet
	// unlogged says that the request is no message: one for a token.
	unlogged bool
}

// data keeps as much of a body as can be accepted and gives the windows back
// by halves, the connection's also for streams that are gone.
func (c *h2Conn) data(f *http2.DataFrame) error {
	c.consumed += f.Length
	if c.consumed >= initialWindow/2 {
		n := c.consumed
		c.consumed = 0
		c.queue(func(w *h2Writer) error { return w.fr.WriteWindowUpdate(0, n) })
	}
	p, ok := c.streams[f.StreamID]
	if !ok {
		return nil
	}
	p.size += len(f.Data())
	if room := c.svc.maxBody() - len(p.body); room > 0 {
		p.body = append(p.body, f.Data()[:min(room, len(f.Data()))]...)
	}
	if f.StreamEnded() {
		return c.whole(p)
	}
	if p.consumed += f.Length; p.consumed >= initialWindow/2 {
		n := p.consumed
		p.consumed = 0
		c.queue(func(w *h2Writer) error { return w.fr.WriteWindowUpdate(p.id, n) })
	}
	return nil
}

// whole takes a request that has come in to its end.
func (c *h2Conn) whole(p *push) error {
	delete(c.streams, p.id)
	if p.id > c.refuseAbove {
		return nil // the GOAWAY went out while its body came in
	}
	p.whole = true
	p.meet(c.srv.faults, c.svc)
	if p.fault != nil && p.fault.Kind == FaultDropBefore {
		return errDrop
	}
	c.handle(p)
	return nil
}

func (c *h2Conn) settings(f *http2.SettingsFrame) error {
	if f.IsAck() {
		return nil
	}
	table := uint32(4096)
	if v, ok := f.Value(http2.SettingHeaderTableSize); ok {
		table = v
	}
	if v, ok := f.Value(http2.SettingInitialWindowSize); ok && v < 1024 {
		// Answers are shorter than this; keeping a window per stream for the
		// sake of such a peer is not worth it.
		return http2.ConnectionError(http2.ErrCodeFlowControl)
	}
	c.queue(func(w *h2Writer) error {
		w.enc.SetMaxDynamicTableSizeLimit(table)
		return w.fr.WriteSettingsAck()
	})
	return nil
}
