package simulate

import (
	"net"
	"net/smtp"
	"testing"
	"time"
)

const testMail = "From: shop@example.com\r\nTo: ann@example.com\r\nSubject: =?utf-8?q?Caf=C3=A9?=\r\n now\r\nMessage-ID: <key1@example.com>\r\n" +
	"X-Delivery: dlv_1\r\nX-Attempt: 3\r\n\r\nHello\r\n.dot\r\n"

// mailer is a client of the standard library that has said EHLO and AUTH.
func mailer(t *testing.T, s *Server) *smtp.Client {
	t.Helper()
	c, err := dialMail(s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	if err := c.Auth(smtp.PlainAuth("", s.Files().SMTPUser, s.Files().SMTPPassword, "127.0.0.1")); err != nil {
		t.Fatal(err)
	}
	return c
}

func dialMail(s *Server) (*smtp.Client, error) {
	nc, err := net.Dial("tcp", s.SMTPAddr())
	if err != nil {
		return nil, err
	}
	return smtp.NewClient(nc, "127.0.0.1")
}

// sendMail goes through the dialogue and returns the step that failed.
func sendMail(c *smtp.Client, to string) (step string, err error) {
	if err := c.Mail("shop@example.com"); err != nil {
		return "mail", err
	}
	if err := c.Rcpt(to); err != nil {
		return "rcpt", err
	}
	w, err := c.Data()
	if err != nil {
		return "data", err
	}
	if _, err := w.Write([]byte(testMail)); err != nil {
		return "content", err
	}
	return "dot", w.Close()
}

func TestSMTP_AcceptsAMail(t *testing.T) {
	t.Parallel()
	s := start(t)
	c := mailer(t, s)
	if step, err := sendMail(c, "ann@example.com"); err != nil {
		t.Fatalf("%s: %v", step, err)
	}
	e := only(t, s)
	e.Time, e.BodyHash = time.Time{}, ""
	want := Entry{Channel: "email", Account: s.Files().SMTPUser, Address: "ann@example.com", Delivery: "dlv_1", Fence: 3, EffectKey: "key1@example.com",
		Title: "Café now", Answer: "250", TookEffect: true, MayTakeEffect: true}
	if e != want {
		t.Errorf("log: got %+v, want %+v", e, want)
	}
}
