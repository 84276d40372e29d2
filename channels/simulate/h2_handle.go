package simulate

import (
	"net/http"
	"time"

	"golang.org/x/net/http2"
)

// handle decides on a request that has come in whole, on the connection's
// reading goroutine: the order of streams is the order of decisions.
func (c *h2Conn) handle(p *push) {
	e, a := c.svc.decide(p, &c.who, time.Now())
	if p.fault != nil && a.status == http.StatusOK {
		c.fail(p, e, a)
		return
	}
	c.log(e, p, a, c.reply(p.id, a))
}

// log writes the entry and then lets the connection do what follows. Without
// the line there is no answer: the connection is dropped.
func (c *h2Conn) log(e *Entry, p *push, a *answer, then op) {
	if p.unlogged {
		c.queue(then)
		return
	}
	if e.TookEffect || e.MayTakeEffect {
		c.last = max(c.last, p.id)
	}
	if e.Answer == "" {
		e.Answer = a.String()
	}
	c.srv.journal.append(e, func(err error) {
		if err != nil {
			then = drop
		}
		c.queue(then)
	})
}

// fail plays the fault out.
func (c *h2Conn) fail(p *push, e *Entry, a *answer) {
	f := p.fault
	e.TookEffect = f.effect(e.TookEffect)
	switch f.Kind {
	case FaultDelay:
		c.log(e, p, a, func(*h2Writer) error {
			c.srv.wg.Go(func() {
				if c.srv.sleep(f.Delay) {
					c.queue(c.reply(p.id, a))
				}
			})
			return nil
		})
	case FaultHang:
		e.Answer = "none"
		c.hung[p.id] = true
		c.log(e, p, a, func(*h2Writer) error { return nil })
	case FaultDropReply:
		e.Answer = "none"
		c.log(e, p, a, drop)
	case FaultTruncate:
		e.Answer = "200 truncated"
		c.log(e, p, a, func(w *h2Writer) error { return w.truncated(p.id, a) })
	case FaultStatus, FaultDeadToken, FaultRedirect:
		a = c.svc.struck(f, a)
		e.TookEffect, e.MayTakeEffect = e.MayTakeEffect && f.effect(a.status == 200), e.MayTakeEffect && c.svc.mayTakeEffect(a)
		c.log(e, p, a, c.reply(p.id, a))
	case FaultRSTStream:
		code, _ := errCode(f.Code) // checked when the fault was set
		if code == http2.ErrCodeRefusedStream {
			// RFC 9113 section 8.7: the promise that nothing was processed.
			e.TookEffect, e.MayTakeEffect = f.effect(false), false
		}
		e.Answer = "rst_stream " + f.Code
		c.log(e, p, a, func(w *h2Writer) error { return w.reset(p.id, code) })
	case FaultGoAway:
		c.goAway(p, e, a)
	case FaultDropBefore, FaultCloseBeforeDot, FaultCloseAfterDot, FaultAcceptThenClose, FaultSlowDot, FaultReply, FaultReceipt:
		c.log(e, p, a, drop) // drop_before struck at the headers; the rest is of mail
	}
}

// goAway ends the connection. The last stream id that it names covers all that
// were processed here: what is beyond it was not and will not be (RFC 9113
// section 6.8).
func (c *h2Conn) goAway(p *push, e *Entry, a *answer) {
	e.Answer = "goaway " + p.fault.Code
	code, last := http2.ErrCodeNo, c.last
	closes := true
	switch p.fault.Code {
	case GoAwayProcessed:
		last = max(last, p.id)
	case GoAwayUnprocessed:
		closes = false
	case GoAwayError:
		code = http2.ErrCodeEnhanceYourCalm
	}
	if p.id > last {
		e.TookEffect, e.MayTakeEffect = p.fault.effect(false), false
	}
	c.refuseAbove = last
	c.log(e, p, a, func(w *h2Writer) error {
		if !closes {
			w.open.Add(-1)
		}
		return w.goAway(last, code, closes)
	})
}

// httpAnswer is the answer of the faults that HTTP providers share.
func (f *Fault) httpAnswer(ok *answer) *answer {
	switch f.Kind {
	case FaultDeadToken:
		return &answer{status: 410, id: ok.id, reason: "Unregistered", timestamp: time.Now().Add(-time.Hour).UnixMilli()}
	case FaultRedirect:
		return &answer{status: 307, id: ok.id, location: "/redirected"}
	case FaultStatus, FaultDelay, FaultHang, FaultDropReply, FaultDropBefore, FaultTruncate, FaultRSTStream, FaultGoAway,
		FaultCloseBeforeDot, FaultCloseAfterDot, FaultAcceptThenClose, FaultSlowDot, FaultReply, FaultReceipt:
	}
	return &answer{status: f.Status, id: ok.id, reason: f.Reason, retryAfter: f.RetryAfter, html: f.HTML}
}
