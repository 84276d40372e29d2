package simulate

import (
	"bufio"
	"bytes"
	"errors"
	"strconv"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// lingerTime is how long a connection is kept for the peer to read a GOAWAY.
const lingerTime = time.Second

// h2Writer is the writing half of a connection; it belongs to one goroutine.
type h2Writer struct {
	*h2Conn
	buf *bufio.Writer
	fr  *http2.Framer // writes
	enc *hpack.Encoder
	hdr bytes.Buffer
	// window is what the peer takes in bodies on this connection; blocked are
	// the answers that wait for more of it.
	window  int64
	blocked []op
}

func newH2Writer(c *h2Conn) *h2Writer {
	w := &h2Writer{h2Conn: c, buf: bufio.NewWriterSize(c.nc, 1<<15), window: initialWindow}
	w.fr = http2.NewFramer(w.buf, nil)
	w.enc = hpack.NewEncoder(&w.hdr)
	return w
}

// run writes what is queued, flushing once per round, and closes the
// connection at the end.
func (w *h2Writer) run() {
	defer w.nc.Close()
	var batch []op
	for range w.wake {
		w.mu.Lock()
		batch, w.ops = w.ops, batch[:0]
		ended := w.ended
		w.mu.Unlock()
		err := w.round(batch)
		if errors.Is(err, errLinger) {
			w.linger()
		}
		if err != nil || ended {
			w.end()
			return
		}
	}
}

// round runs ops and flushes, also when one of them drops the connection: the
// neighbours' answers that are in the buffer go out.
func (w *h2Writer) round(batch []op) (err error) {
	for i, o := range batch {
		if err = o(w); err != nil {
			break
		}
		batch[i] = nil
	}
	return errors.Join(err, w.buf.Flush())
}

// linger ends our half and waits a moment for the peer to end the other: a
// reset would overtake the GOAWAY on its way.
func (w *h2Writer) linger() {
	if c, ok := w.nc.(interface{ CloseWrite() error }); ok {
		_ = c.CloseWrite() // the peer may be gone, which is no news
	}
	t := time.NewTimer(lingerTime)
	defer t.Stop()
	select {
	case <-t.C:
	case <-w.readEnded:
	}
}

// grow adds to the window and lets waiting answers go.
func (w *h2Writer) grow(n int64) error {
	if w.window += n; w.window > 1<<31-1 {
		return w.goAway(1<<31-1, http2.ErrCodeFlowControl, true)
	}
	waiting := w.blocked
	w.blocked = nil
	for _, o := range waiting {
		if err := o(w); err != nil {
			return err
		}
	}
	return nil
}

// reply answers a stream.
func (c *h2Conn) reply(id uint32, a *answer) op {
	return func(w *h2Writer) error {
		body := a.body()
		if int64(len(body)) > w.window {
			w.blocked = append(w.blocked, c.reply(id, a))
			return nil
		}
		w.open.Add(-1)
		w.window -= int64(len(body))
		if err := w.headers(id, a, len(body), len(body) == 0); err != nil || len(body) == 0 {
			return err
		}
		return w.fr.WriteData(id, true, body)
	}
}

// truncated announces more than it sends and drops the connection.
func (w *h2Writer) truncated(id uint32, a *answer) error {
	if err := w.headers(id, a, 64, false); err != nil {
		return err
	}
	if err := w.fr.WriteData(id, false, []byte(`{"rea`)); err != nil {
		return err
	}
	return errDrop
}

func (w *h2Writer) headers(id uint32, a *answer, length int, end bool) error {
	w.hdr.Reset()
	w.field(":status", strconv.Itoa(a.status))
	if a.id != "" {
		w.field("apns-id", a.id)
	}
	switch {
	case a.html:
		w.field("content-type", "text/html; charset=utf-8")
	case length > 0:
		w.field("content-type", "application/json; charset=utf-8")
	}
	if length > 0 {
		w.field("content-length", strconv.Itoa(length))
	}
	if a.retryAfter != "" {
		w.field("retry-after", a.retryAfter)
	}
	if a.location != "" {
		w.field("location", a.location)
	}
	return w.fr.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: w.hdr.Bytes(), EndStream: end, EndHeaders: true})
}

func (w *h2Writer) field(name, value string) {
	// Ids differ from answer to answer: kept out of the table, they do not
	// push out what repeats. Writing to a buffer cannot fail.
	_ = w.enc.WriteField(hpack.HeaderField{Name: name, Value: value, Sensitive: name == "apns-id"})
}

func (w *h2Writer) reset(id uint32, code http2.ErrCode) error {
	w.open.Add(-1)
	return w.fr.WriteRSTStream(id, code)
}

// goAway announces the end; closes says that it comes at once, without waiting
// for the streams that are open.
func (w *h2Writer) goAway(last uint32, code http2.ErrCode, closes bool) error {
	var debug []byte
	if code == http2.ErrCodeNo {
		debug = []byte(`{"reason":"IdleTimeout"}`)
	}
	if err := w.fr.WriteGoAway(last, code, debug); err != nil {
		return err
	}
	if closes {
		return errLinger
	}
	return nil
}
