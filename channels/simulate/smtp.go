package simulate

import (
	"bufio"
	"bytes"
	"crypto/subtle"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"
)

// Limits of the mail server (RFC 5321 section 4.5.3.1), and the size that it announces.
const (
	maxSMTPLine   = 2048
	maxMailLine   = 1000
	maxMail       = 40 << 20
	smtpIdle      = 5 * time.Minute
	maxRecipients = 100
)

type smtpServer struct {
	srv *Server
	tls *tls.Config
}

func newSMTPServer(s *Server, cert tls.Certificate) *smtpServer {
	return &smtpServer{srv: s, tls: &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12}}
}

// smtpConn is one dialogue.
type smtpConn struct {
	s      *smtpServer
	nc     net.Conn
	in     *bufio.Reader
	secure bool
	user   string // empty before AUTH
	sender bool   // MAIL was accepted
	rcpts  []string
}

var errEnd = errors.New("the dialogue has ended")

func (s *smtpServer) serveConn(nc net.Conn) {
	c := &smtpConn{s: s, nc: nc, in: bufio.NewReaderSize(nc, maxSMTPLine)}
	if f := c.take(StageConnect, "", ""); f != nil {
		_ = c.replyFault(f)
		return
	}
	if c.reply("220 localhost ESMTP notifier simulate") != nil {
		return
	}
	for {
		line, err := c.line()
		if err != nil {
			return
		}
		if err := c.command(line); err != nil {
			return
		}
	}
}

func (c *smtpConn) take(stage, address, delivery string) *Fault {
	return c.s.srv.faults.take(asked{channel: channelEmail, address: address, delivery: delivery, stage: stage})
}

func (c *smtpConn) line() (string, error) {
	if err := c.nc.SetReadDeadline(time.Now().Add(smtpIdle)); err != nil {
		return "", err
	}
	b, err := c.in.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		_ = c.reply("500 5.5.2 Line too long")
	}
	return strings.TrimRight(string(b), "\r\n"), err
}

func (c *smtpConn) reply(lines ...string) error {
	_, err := io.WriteString(c.nc, strings.Join(lines, "\r\n")+"\r\n")
	return err
}

// replyFault gives the fault's reply; 421 ends the dialogue (RFC 5321 section 3.8).
func (c *smtpConn) replyFault(f *Fault) error {
	if err := c.reply(f.smtpReply()); err != nil {
		return err
	}
	if f.Status == 421 {
		return errEnd
	}
	return nil
}

func (f *Fault) smtpReply() string {
	reason := f.Reason
	if reason == "" {
		reason = fmt.Sprintf("%d.0.0 Simulated", f.Status/100)
	}
	return fmt.Sprintf("%d %s", f.Status, reason)
}

func (c *smtpConn) command(line string) error {
	verb, arg, _ := strings.Cut(line, " ")
	switch strings.ToUpper(verb) {
	case "EHLO":
		c.reset()
		return c.reply(c.extensions()...)
	case "HELO":
		c.reset()
		return c.reply("250 localhost")
	case "STARTTLS":
		return c.startTLS()
	case "AUTH":
		return c.auth(arg)
	case "MAIL":
		return c.mail(arg)
	case "RCPT":
		return c.rcpt(arg)
	case "DATA":
		return c.data()
	case "RSET":
		c.reset()
		return c.reply("250 2.0.0 Ok")
	case "NOOP":
		return c.reply("250 2.0.0 Ok")
	case "QUIT":
		return errors.Join(c.reply("221 2.0.0 Bye"), errEnd)
	}
	return c.reply("500 5.5.1 Command unknown")
}

func (c *smtpConn) reset() { c.sender, c.rcpts = false, nil }

func (c *smtpConn) extensions() []string {
	lines := []string{"250-localhost", "250-8BITMIME", "250-ENHANCEDSTATUSCODES", fmt.Sprintf("250-SIZE %d", maxMail)}
	if !c.secure {
		lines = append(lines, "250-STARTTLS")
	}
	return append(lines, "250 AUTH PLAIN")
}

func (c *smtpConn) startTLS() error {
	if c.secure {
		return c.reply("503 5.5.1 Already secure")
	}
	if err := c.reply("220 2.0.0 Go ahead"); err != nil {
		return err
	}
	t := tls.Server(c.nc, c.s.tls)
	if err := t.Handshake(); err != nil {
		return err
	}
	// What was read ahead in the clear is forgotten (RFC 3207 section 4.2).
	c.nc, c.in, c.secure = t, bufio.NewReaderSize(t, maxSMTPLine), true
	c.user = ""
	c.reset()
	return nil
}

// auth takes AUTH PLAIN (RFC 4616), with or without an initial response.
func (c *smtpConn) auth(arg string) error {
	mech, resp, _ := strings.Cut(arg, " ")
	switch {
	case c.user != "":
		return c.reply("503 5.5.1 Already authenticated")
	case !strings.EqualFold(mech, "PLAIN"):
		return c.reply("504 5.5.4 Only PLAIN is known")
	}
	if resp == "" {
		if err := c.reply("334 "); err != nil {
			return err
		}
		var err error
		if resp, err = c.line(); err != nil {
			return err
		}
	}
	if f := c.take(StageAuth, "", ""); f != nil {
		return c.replyFault(f)
	}
	b, err := base64.StdEncoding.DecodeString(resp)
	if err != nil {
		return c.reply("501 5.5.2 Not base64")
	}
	files := &c.s.srv.files
	want := []byte("\x00" + files.SMTPUser + "\x00" + files.SMTPPassword)
	// The identity to act as may be named or left empty.
	if i := bytes.IndexByte(b, 0); i < 0 || subtle.ConstantTimeCompare(b[i:], want) == 0 {
		return c.reply("535 5.7.8 Authentication credentials invalid")
	}
	c.user = files.SMTPUser
	return c.reply("235 2.7.0 Authentication successful")
}

func (c *smtpConn) mail(arg string) error {
	if f := c.take(StageMail, "", ""); f != nil {
		return c.replyFault(f)
	}
	_, params, ok := path(arg, "FROM:")
	size := 0
	for p := range strings.FieldsSeq(params) {
		if _, err := fmt.Sscanf(strings.ToUpper(p), "SIZE=%d", &size); err == nil && size > maxMail {
			return c.reply("552 5.3.4 Message too big")
		}
	}
	switch {
	case c.user == "":
		return c.reply("530 5.7.0 Authentication required")
	case c.sender:
		return c.reply("503 5.5.1 A transaction is under way")
	case !ok:
		return c.reply("501 5.5.4 Expected MAIL FROM:<address>")
	}
	c.sender = true
	return c.reply("250 2.1.0 Ok")
}

func (c *smtpConn) rcpt(arg string) error {
	address, _, ok := path(arg, "TO:")
	switch {
	case !c.sender:
		return c.reply("503 5.5.1 MAIL first")
	case !ok || !strings.Contains(address, "@"):
		return c.reply("501 5.1.3 Bad recipient address syntax")
	case len(c.rcpts) == maxRecipients:
		return c.reply("452 4.5.3 Too many recipients")
	}
	if f := c.take(StageRcpt, address, ""); f != nil {
		return c.failRcpt(f)
	}
	c.rcpts = append(c.rcpts, address)
	return c.reply("250 2.1.5 Ok")
}

func (c *smtpConn) failRcpt(f *Fault) error {
	if f.Kind == FaultDropBefore {
		return errEnd
	}
	if f.Kind == FaultDeadToken {
		return c.reply("550 5.1.1 The email account that you tried to reach does not exist")
	}
	return c.replyFault(f)
}

// path reads "FROM:<a@b> PARAMS".
func path(arg, prefix string) (address, params string, ok bool) {
	if len(arg) < len(prefix) || !strings.EqualFold(arg[:len(prefix)], prefix) {
		return "", "", false
	}
	rest, ok := strings.CutPrefix(strings.TrimLeft(arg[len(prefix):], " "), "<")
	if !ok {
		return "", "", false
	}
	return strings.Cut(rest, ">")
}
