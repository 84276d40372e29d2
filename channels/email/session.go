package email

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	"github.com/emersion/go-sasl"
	"github.com/emersion/go-smtp"

	"github.com/seed-4b260dfd/notifier"
	"github.com/seed-4b260dfd/notifier/channels"
)

// session is one connection that is logged in. It belongs to one call at a time.
type session struct {
	wire   *wire
	client *smtp.Client
	data   *smtp.DataCommand
	expire *time.Timer
	// used says that a mail went through; stale, that the server ended the
	// connection between two mails.
	used, stale bool
}

// wire tells, of the last thing that was written, whether it failed to leave
// in full before anything was read.
type wire struct {
	net.Conn
	reading, torn bool
}

func (w *wire) Write(b []byte) (int, error) {
	n, err := w.Conn.Write(b)
	if n < len(b) && !w.reading {
		w.torn = true
	}
	return n, err
}

func (w *wire) Read(b []byte) (int, error) {
	w.reading = true
	return w.Conn.Read(b)
}

var errNoAuth = errors.New("the server does not offer AUTH PLAIN")

// dial makes a connection up to the point where MAIL may be said.
func dial(ctx context.Context, srv server, t *tls.Config) (*session, stage, error) {
	nc, err := channels.Dialer(true)(ctx, "tcp", srv.addr)
	if err != nil {
		return nil, stageConnect, err
	}
	c := &session{wire: &wire{Conn: nc}}
	// The library has deadlines of its own and no context: closing is what it heeds.
	stop := context.AfterFunc(ctx, func() { _ = nc.Close() })
	at, err := c.login(ctx, srv, t)
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		_ = nc.Close()
		return nil, at, err
	}
	return c, at, nil
}

func (c *session) login(ctx context.Context, srv server, t *tls.Config) (stage, error) {
	switch srv.tls {
	case tlsStart:
		var err error
		if c.client, err = smtp.NewClientStartTLS(c.wire, t); err != nil {
			return stageConnect, err
		}
	case tlsImplicit:
		conn := tls.Client(c.wire, t)
		if err := conn.HandshakeContext(ctx); err != nil {
			return stageConnect, fmt.Errorf("handshake with %s: %w", srv.addr, err)
		}
		c.client = smtp.NewClient(conn)
	default:
		c.client = smtp.NewClient(c.wire)
	}
	if err := c.client.Hello(helloName()); err != nil {
		return stageConnect, err
	}
	if srv.user == "" {
		return stageMail, nil
	}
	if !c.client.SupportsAuth(sasl.Plain) {
		return stageAuth, errNoAuth
	}
	return stageAuth, c.client.Auth(sasl.NewPlainClient("", srv.user, srv.password))
}

// helloName is the host's name where it is a full one.
func helloName() string {
	if name, err := os.Hostname(); err == nil && strings.Contains(name, ".") && isDomain(name) {
		return name
	}
	return "localhost"
}

// envelope goes from MAIL to 354.
func (c *session) envelope(ctx context.Context, m *message) (stage, error) {
	stop := context.AfterFunc(ctx, func() { _ = c.wire.Close() })
	defer stop()
	if err := c.client.Mail(m.from, &smtp.MailOptions{Size: int64(len(m.bytes))}); err != nil {
		var said *smtp.SMTPError
		c.stale = c.used && (!errors.As(err, &said) || said.Code == 421)
		return stageMail, err
	}
	if err := c.client.Rcpt(m.to, nil); err != nil {
		return stageMail, err
	}
	data, err := c.client.Data()
	if err != nil {
		return stageMail, err
	}
	c.data = data
	return stageContent, nil
}

// deliver writes the content, asks the gate and ends the mail with the dot. It
// reports whether the connection can be used again. Closing the connection
// without the dot takes everything back (RFC 5321 section 4.1.1.4).
func (c *session) deliver(ctx, open context.Context, g *channels.Guard, m *message) (channels.Result, bool) {
	stop := context.AfterFunc(open, func() { _ = c.wire.Close() })
	_, err := bytes.NewReader(m.bytes).WriteTo(c.data)
	if !stop() && err == nil {
		err = context.Cause(open)
	}
	if err != nil {
		g.ProveUnsent()
		return read(ctx, stageContent, err), false
	}
	if err := g.Pass(); err != nil {
		return channels.Result{Outcome: notifier.OutcomeNotSent, Reason: notifier.ReasonGate,
			ProviderStatus: channels.ShortStatus(err.Error())}, false
	}
	return c.dot(ctx)
}

// dot sends what is left of the content with the dot, and reads the reply.
// From here on only a reply tells, or a write that did not take the dot along.
func (c *session) dot(ctx context.Context) (channels.Result, bool) {
	stop := context.AfterFunc(ctx, func() { _ = c.wire.Close() })
	c.wire.reading, c.wire.torn = false, false
	r, err := c.data.CloseWithResponse()
	usable := stop()
	switch {
	case err == nil:
		c.used = true
		return sent(r), usable
	case c.wire.torn:
		return read(ctx, stageContent, err), false
	}
	return read(ctx, stageDot, err), false
}

// close ends the connection, without QUIT: it may be in the middle of a mail,
// and what a server says to it changes nothing.
func (c *session) close() { _ = c.wire.Close() }
