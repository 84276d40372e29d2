package email_test

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seed-4b260dfd/notifier"
	"github.com/seed-4b260dfd/notifier/channels"
	"github.com/seed-4b260dfd/notifier/channels/email"
	"github.com/seed-4b260dfd/notifier/channels/simulate"
)

func startServer(t *testing.T) *simulate.Server {
	t.Helper()
	s, err := simulate.Start(simulate.Config{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func delivery(t *testing.T, fields map[string]any) *notifier.Delivery {
	t.Helper()
	c, err := email.Kind{}.Prepare(fields)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	return &notifier.Delivery{
		ID:      notifier.DeliveryID{Notification: notifier.NewID(now, 1, [8]byte{1}), Ordinal: 1},
		Address: notifier.Address{Value: "ann@example.com"}, Content: c, AcceptedAt: now,
		EffectKey: notifier.EffectKey("default", "order-1", notifier.ChannelEmail, "ann@example.com"),
	}
}

func small(t *testing.T) *notifier.Delivery {
	t.Helper()
	return delivery(t, map[string]any{"subject": "Hello", "text": "Hello"})
}

func attempt(t *testing.T, s *email.Sender, d *notifier.Delivery, timeout time.Duration, look func() error) channels.Result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	return s.Send(ctx, &channels.Call{Delivery: d, Fence: 1, Guard: &channels.Guard{Look: look}})
}

// A mail that is larger than what the network holds breaks in the content when
// the server closes: the dot never left, whoever asks.
func TestSend_BreaksInTheContent(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	s.SetFaults([]simulate.Fault{{Kind: simulate.FaultCloseBeforeDot}})
	sender := open(t, account(s))
	defer sender.Close()
	looked := false
	got := attempt(t, sender, delivery(t, map[string]any{"subject": "Hello", "text": strings.Repeat("0123456789\n", 900_000)}),
		30*time.Second, func() error { looked = true; return nil })
	if got.Outcome != notifier.OutcomeNotSent || got.Reason != notifier.ReasonUnreachable {
		t.Errorf("got %+v, want not_sent, unreachable", got)
	}
	if looked {
		t.Error("the gate was asked, although the content had not left")
	}
}

// The gate is asked when the server has all but the end of the mail; refused,
// the mail is taken back.
func TestSend_GateRefusesALargeMail(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	sender := open(t, account(s))
	defer sender.Close()
	got := attempt(t, sender, delivery(t, map[string]any{"subject": "Hello", "text": strings.Repeat("0123456789\n", 100_000)}),
		30*time.Second, func() error { return errors.New("too late") })
	if got.Outcome != notifier.OutcomeNotSent || got.Reason != notifier.ReasonGate {
		t.Errorf("got %+v, want not_sent, gate", got)
	}
	if e := s.Effects(); len(e) != 0 {
		t.Errorf("the server has %+v", e)
	}
}

// An attempt that is cancelled while it waits for the reply to the dot ends at
// once, and nobody knows what became of the mail.
func TestSend_CancelledAfterTheDot(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	s.SetFaults([]simulate.Fault{{Kind: simulate.FaultHang}})
	sender := open(t, account(s))
	defer sender.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan channels.Result, 1)
	go func() {
		done <- sender.Send(ctx, &channels.Call{Delivery: small(t), Fence: 1, Guard: &channels.Guard{}})
	}()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for len(s.Effects()) == 0 {
		<-tick.C
	}
	cancel()
	if got := <-done; got.Outcome != notifier.OutcomeUnknown || got.Reason != notifier.ReasonReplyLost {
		t.Errorf("got %+v, want unknown, reply_lost", got)
	}
}

// proxy forwards connections, ending TLS where it is given a configuration,
// and counts them. cut closes those that are open.
type proxy struct {
	net.Listener
	to  string
	tls *tls.Config

	mu    sync.Mutex
	count int
	open  []net.Conn
}

func startProxy(t *testing.T, to string, c *tls.Config) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{Listener: l, to: to, tls: c}
	t.Cleanup(func() { _ = l.Close(); p.cut() })
	go func() {
		for {
			nc, err := l.Accept()
			if err != nil {
				return
			}
			go p.forward(nc)
		}
	}()
	return p
}

func (p *proxy) forward(nc net.Conn) {
	if p.tls != nil {
		nc = tls.Server(nc, p.tls)
	}
	up, err := net.Dial("tcp", p.to)
	if err != nil {
		_ = nc.Close()
		return
	}
	p.mu.Lock()
	p.count++
	p.open = append(p.open, nc, up)
	p.mu.Unlock()
	go func() { _, _ = io.Copy(up, nc); _ = up.Close() }()
	_, _ = io.Copy(nc, up)
	_ = nc.Close()
}

func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.open {
		_ = c.Close()
	}
	p.open = nil
}

func (p *proxy) connections() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.count
}

// Mails share a connection; one that the server has closed meanwhile is
// replaced, and the mail is received once.
func TestSend_KeepsConnections(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	p := startProxy(t, s.SMTPAddr(), nil)
	cfg := account(s)
	cfg.Endpoint = "smtp://" + p.Addr().String()
	sender := open(t, cfg)
	defer sender.Close()
	for i := range 3 {
		if got := attempt(t, sender, small(t), 30*time.Second, nil); got.Outcome != notifier.OutcomeSent {
			t.Fatalf("mail %d: got %+v, want sent", i, got)
		}
	}
	if n := p.connections(); n != 1 {
		t.Errorf("three mails took %d connections, want 1", n)
	}
	p.cut()
	if got := attempt(t, sender, small(t), 30*time.Second, nil); got.Outcome != notifier.OutcomeSent {
		t.Errorf("after the cut: got %+v, want sent", got)
	}
	if n := p.connections(); n != 2 {
		t.Errorf("got %d connections, want 2", n)
	}
	if e := s.Effects(); len(e) != 4 {
		t.Errorf("the server has %d mails, want 4", len(e))
	}
}

// A farewell on a kept connection is answered by another connection.
func TestSend_FarewellBetweenMails(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	sender := open(t, account(s))
	defer sender.Close()
	if got := attempt(t, sender, small(t), 30*time.Second, nil); got.Outcome != notifier.OutcomeSent {
		t.Fatalf("got %+v, want sent", got)
	}
	s.SetFaults([]simulate.Fault{{Kind: simulate.FaultReply, Channel: "email", Stage: simulate.StageMail, Status: 421, Times: 1}})
	if got := attempt(t, sender, small(t), 30*time.Second, nil); got.Outcome != notifier.OutcomeSent {
		t.Errorf("got %+v, want sent", got)
	}
}

func TestSend_TLS(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	f := s.Files()
	cert, err := tls.LoadX509KeyPair(f.CertFile, f.KeyFile)
	if err != nil {
		t.Fatal(err)
	}
	implicit := startProxy(t, s.SMTPAddr(), &tls.Config{Certificates: []tls.Certificate{cert}})
	with := func(mode, ca, addr string) email.Config {
		c := account(s)
		c.TLS, c.CAFile = mode, ca
		if addr != "" {
			c.Endpoint = "smtp://" + addr
		}
		return c
	}
	for _, tt := range []struct {
		name string
		cfg  email.Config
		want notifier.Outcome
	}{
		{"starttls", with("starttls", f.CAFile, ""), notifier.OutcomeSent},
		{"starttls by default", with("", f.CAFile, ""), notifier.OutcomeSent},
		{"starttls, unknown authority", with("starttls", "", ""), notifier.OutcomeNotSent},
		{"implicit", with("implicit", f.CAFile, implicit.Addr().String()), notifier.OutcomeSent},
		{"implicit, unknown authority", with("implicit", "", implicit.Addr().String()), notifier.OutcomeNotSent},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			sender := open(t, tt.cfg)
			defer sender.Close()
			for range 2 { // on a fresh connection, and on a kept one
				if got := attempt(t, sender, small(t), 10*time.Second, nil); got.Outcome != tt.want {
					t.Errorf("got %+v, want %v", got, tt.want)
				}
			}
		})
	}
}

// A server without STARTTLS is not given the password, nor the mail.
func TestSend_StartTLSIsRequired(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	heard := make(chan string, 1)
	go func() {
		nc, err := l.Accept()
		if err != nil {
			return
		}
		defer nc.Close()
		_, _ = io.WriteString(nc, "220 old\r\n")
		b := make([]byte, 1024)
		n, _ := nc.Read(b) // EHLO
		_, _ = io.WriteString(nc, "250-old\r\n250 AUTH PLAIN\r\n")
		m, _ := nc.Read(b[n:])
		heard <- string(b[n : n+m])
	}()
	u := url.URL{Scheme: "smtp", User: url.UserPassword("user", "secret"), Host: l.Addr().String()}
	sender := open(t, email.Config{SMTP: u.String(), From: "no-reply@example.com"})
	defer sender.Close()
	if got := attempt(t, sender, small(t), 10*time.Second, nil); got.Outcome != notifier.OutcomeNotSent {
		t.Errorf("got %+v, want not_sent", got)
	}
	if got := <-heard; got != "" {
		t.Errorf("the server heard %q after EHLO, want nothing", got)
	}
}

func TestSend_ReportsTheQueueID(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	s.SetFaults([]simulate.Fault{{Kind: simulate.FaultReply, Channel: "email", Stage: simulate.StageDot, Status: 250, Reason: "2.0.0 Ok: queued as 4F2A1"}})
	sender := open(t, account(s))
	defer sender.Close()
	got := attempt(t, sender, small(t), 10*time.Second, nil)
	if got.Outcome != notifier.OutcomeSent || got.ProviderID != "4F2A1" || got.ProviderStatus != "250 2.0.0 Ok: queued as 4F2A1" {
		t.Errorf("got %+v", got)
	}
}

func TestConfig_Validate(t *testing.T) {
	t.Parallel()
	good := email.Config{SMTP: "smtp://user:secret@mail.example.com:587", TLS: "starttls", From: "Shop <no-reply@example.com>"}
	for _, tt := range []struct {
		name  string
		edit  func(*email.Config)
		field string // "": nothing is wrong
	}{
		{"good", func(*email.Config) {}, ""},
		{"no user", func(c *email.Config) { c.SMTP = "smtp://mail.example.com"; c.TLS = "none" }, ""},
		{"clear on loopback", func(c *email.Config) { c.SMTP = "smtp://user:secret@127.0.0.1:2525"; c.TLS = "none" }, ""},
		{"endpoint", func(c *email.Config) { c.Endpoint = "smtp://127.0.0.1:2525" }, ""},
		{"no server", func(c *email.Config) { c.SMTP = "" }, "smtp"},
		{"https", func(c *email.Config) { c.SMTP = "https://mail.example.com" }, "smtp"},
		{"with a path", func(c *email.Config) { c.SMTP = "smtp://mail.example.com/a" }, "smtp"},
		{"clear elsewhere", func(c *email.Config) { c.TLS = "none" }, "tls"},
		{"unknown tls", func(c *email.Config) { c.TLS = "maybe" }, "tls"},
		{"no from", func(c *email.Config) { c.From = "" }, "from"},
		{"bad from", func(c *email.Config) { c.From = "Shop" }, "from"},
		{"two froms", func(c *email.Config) { c.From = "a@example.com, b@example.com" }, "from"},
		{"endpoint with a user", func(c *email.Config) { c.Endpoint = "smtp://a:b@127.0.0.1:2525" }, "endpoint"},
		{"common field", func(c *email.Config) { c.MaxPerSecond = new(-5.0) }, "max_per_second"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := good
			tt.edit(&c)
			wrong := c.Validate()
			switch {
			case tt.field == "" && len(wrong) > 0:
				t.Errorf("got %v, want nothing wrong", wrong[0])
			case tt.field != "" && (len(wrong) != 1 || wrong[0].Field != tt.field):
				t.Errorf("got %v, want one about %s", wrong, tt.field)
			}
			for _, w := range wrong {
				if strings.Contains(w.Error(), "secret") {
					t.Errorf("the message holds the password: %v", w)
				}
			}
		})
	}
}
