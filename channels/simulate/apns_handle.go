package simulate

import (
	"time"

	"golang.org/x/net/http2"
)

// handle decides on a push that has come in whole, on the connection's reading
// goroutine: the order of streams is the order of decisions.
func (c *apnsConn) handle(p *push) {
	now := time.Now()
	e := c.s.entry(p, now)
	a := c.s.check(p, &c.who, now)
	if a != nil {
		e.MayTakeEffect = a.mayTakeEffect()
		a.id = p.headers["apns-id"]
		c.log(e, p.id, a, c.reply(p.id, a))
		return
	}
	if e.EffectKey == "" {
		e.EffectKey = newUUID()
	}
	a = &answer{status: 200, id: e.EffectKey}
	if p.fault == nil {
		e.TookEffect = true
		c.log(e, p.id, a, c.reply(p.id, a))
		return
	}
	c.fail(p, e, a)
}

// log writes the entry and then lets the connection do what follows. Without
// the line there is no answer: the connection is dropped.
func (c *apnsConn) log(e *Entry, id uint32, a *answer, then op) {
	if e.TookEffect || e.MayTakeEffect {
		c.last = max(c.last, id)
	}
	if e.Answer == "" {
		e.Answer = a.String()
	}
	c.s.srv.journal.append(e, func(err error) {
		if err != nil {
			then = drop
		}
		c.queue(then)
	})
}

// fail plays the fault out.
func (c *apnsConn) fail(p *push, e *Entry, a *answer) {
	f := p.fault
	e.TookEffect = f.effect(true)
	switch f.Kind {
	case FaultDelay:
		c.log(e, p.id, a, func(*apnsWriter) error {
			c.s.srv.wg.Go(func() {
				if c.s.srv.sleep(f.Delay) {
					c.queue(c.reply(p.id, a))
				}
			})
			return nil
		})
	case FaultHang:
		e.Answer = "none"
		c.hung[p.id] = true
		c.log(e, p.id, a, func(*apnsWriter) error { return nil })
	case FaultDropReply:
		e.Answer = "none"
		c.log(e, p.id, a, drop)
	case FaultTruncate:
		e.Answer = "200 truncated"
		c.log(e, p.id, a, func(w *apnsWriter) error { return w.truncated(p.id, a) })
	case FaultStatus, FaultDeadToken, FaultRedirect:
		a = f.httpAnswer(a)
		e.TookEffect, e.MayTakeEffect = f.effect(a.status == 200), a.mayTakeEffect()
		c.log(e, p.id, a, c.reply(p.id, a))
	case FaultRSTStream:
		code, _ := errCode(f.Code) // checked when the fault was set
		if code == http2.ErrCodeRefusedStream {
			// RFC 9113 section 8.7: the promise that nothing was processed.
			e.TookEffect, e.MayTakeEffect = f.effect(false), false
		}
		e.Answer = "rst_stream " + f.Code
		c.log(e, p.id, a, func(w *apnsWriter) error { return w.reset(p.id, code) })
	case FaultGoAway:
		c.goAway(p, e, a)
	case FaultDropBefore, FaultCloseBeforeDot, FaultCloseAfterDot, FaultAcceptThenClose, FaultSlowDot, FaultReply:
		c.log(e, p.id, a, drop) // drop_before struck at the headers; the rest is of mail
	}
}

// goAway ends the connection. The last stream id that it names covers all that
// were processed here: what is beyond it was not and will not be (RFC 9113
// section 6.8).
func (c *apnsConn) goAway(p *push, e *Entry, a *answer) {
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
	c.log(e, p.id, a, func(w *apnsWriter) error {
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
		FaultCloseBeforeDot, FaultCloseAfterDot, FaultAcceptThenClose, FaultSlowDot, FaultReply:
	}
	return &answer{status: f.Status, id: ok.id, reason: f.Reason, retryAfter: f.RetryAfter, html: f.HTML}
}
