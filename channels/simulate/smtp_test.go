package simulate

import (
	"errors"
	"net"
	"net/smtp"
	"net/textproto"
	"strings"
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

func TestSMTP_Faults(t *testing.T) {
	t.Parallel()
	reply := func(stage string, status int) Fault { return Fault{Kind: FaultReply, Stage: stage, Status: status} }
	for _, tt := range []struct {
		name  string
		fault Fault
		// Where the dialogue ended, and with what: a code, or -1 for a lost connection.
		step      string
		code      int
		answer    string // of the log; empty: no line
		took, may bool
	}{
		{"connect", reply(StageConnect, 554), "connect", 554, "", false, false},
		{"auth", reply(StageAuth, 535), "auth", 535, "", false, false},
		{"mail", reply(StageMail, 451), "mail", 451, "", false, false},
		{"rcpt", reply(StageRcpt, 550), "rcpt", 550, "", false, false},
		{"data", reply(StageData, 452), "data", 452, "", false, false},
		{"dot later", reply(StageDot, 451), "dot", 451, "451 4.0.0 Simulated", false, false},
		{"dot never", reply(StageDot, 554), "dot", 554, "554 5.0.0 Simulated", false, true},
		{"status", Fault{Kind: FaultStatus, Status: 452, Reason: "4.2.2 Full"}, "dot", 452, "452 4.2.2 Full", false, false},
		{"dead", Fault{Kind: FaultDeadToken, Address: "ann@example.com"}, "rcpt", 550, "", false, false},
		{"drop_before", Fault{Kind: FaultDropBefore}, "rcpt", -1, "", false, false},
		{"close_before_dot", Fault{Kind: FaultCloseBeforeDot, Delivery: "dlv_1"}, "dot", -1, "", false, false},
		{"close_after_dot", Fault{Kind: FaultCloseAfterDot, Delivery: "dlv_1"}, "dot", -1, "none", true, true},
		{"drop_reply", Fault{Kind: FaultDropReply}, "dot", -1, "none", true, true},
		{"truncate", Fault{Kind: FaultTruncate}, "dot", -1, "250 truncated", true, true},
		{"accept_then_close", Fault{Kind: FaultAcceptThenClose}, "dot", 0, "250", true, true},
		{"slow_dot", Fault{Kind: FaultSlowDot, Delay: time.Millisecond}, "dot", 0, "250", true, true},
		{"of another", Fault{Kind: FaultDropReply, Address: "bob@example.com"}, "dot", 0, "250", true, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := start(t)
			tt.fault.Channel, tt.fault.Times = "email", 1
			s.SetFaults([]Fault{tt.fault})
			step, err := dialogue(s)
			if step != tt.step || codeOf(err) != tt.code {
				t.Errorf("got %q %v, want %q %d", step, err, tt.step, tt.code)
			}
			if tt.answer == "" {
				if all := s.Effects(); len(all) != 0 {
					t.Errorf("got log lines %+v, want none", all)
				}
			} else if e := only(t, s); e.Answer != tt.answer || e.TookEffect != tt.took || e.MayTakeEffect != tt.may {
				t.Errorf("log: got %+v, want answer %q, took %v, may %v", e, tt.answer, tt.took, tt.may)
			}
			if step, err := dialogue(s); err != nil {
				t.Errorf("the next mail: %s %v", step, err)
			}
		})
	}
}

// dialogue makes a connection of its own and goes through all steps.
func dialogue(s *Server) (step string, err error) {
	nc, err := net.Dial("tcp", s.SMTPAddr())
	if err != nil {
		return "dial", err
	}
	defer nc.Close()
	c, err := smtp.NewClient(nc, "127.0.0.1")
	if err != nil {
		return "connect", err
	}
	if err := c.Auth(smtp.PlainAuth("", s.Files().SMTPUser, s.Files().SMTPPassword, "127.0.0.1")); err != nil {
		return "auth", err
	}
	return sendMail(c, "ann@example.com")
}

func codeOf(err error) int {
	var said *textproto.Error
	switch {
	case err == nil:
		return 0
	case errors.As(err, &said):
		return said.Code
	default:
		return -1
	}
}

func TestSMTP_Strict(t *testing.T) {
	t.Parallel()
	s := start(t)
	for _, tt := range []struct {
		name, user, password, line string
		code                       int
	}{
		{"wrong password", s.Files().SMTPUser, "guess", "", 535},
		{"wrong user", "root", s.Files().SMTPPassword, "", 535},
		{"no AUTH", "", "", "MAIL FROM:<a@example.com>", 530},
		{"RCPT first", s.Files().SMTPUser, s.Files().SMTPPassword, "RCPT TO:<a@example.com>", 503},
		{"DATA first", s.Files().SMTPUser, s.Files().SMTPPassword, "DATA", 503},
		{"too big", s.Files().SMTPUser, s.Files().SMTPPassword, "MAIL FROM:<a@example.com> SIZE=99999999", 552},
		{"no path", s.Files().SMTPUser, s.Files().SMTPPassword, "MAIL a@example.com", 501},
		{"unknown", s.Files().SMTPUser, s.Files().SMTPPassword, "EXPN all", 500},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c, err := dialMail(s)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			if tt.user != "" {
				err = c.Auth(smtp.PlainAuth("", tt.user, tt.password, "127.0.0.1"))
			}
			if tt.line != "" && err == nil {
				if err = c.Noop(); err == nil { // says EHLO
					_, err = c.Text.Cmd("%s", tt.line)
				}
				if err == nil {
					_, _, err = c.Text.ReadResponse(250)
				}
			}
			if codeOf(err) != tt.code {
				t.Errorf("got %v, want %d", err, tt.code)
			}
		})
	}
}

// Repeats of a mail differ in X-Attempt, which their hash leaves out.
func TestSMTP_HashLeavesAttemptOut(t *testing.T) {
	t.Parallel()
	s := start(t)
	c := mailer(t, s)
	for _, m := range []string{testMail, strings.Replace(testMail, "X-Attempt: 3", "X-Attempt: 4", 1), strings.Replace(testMail, "Hello", "Hallo", 1)} {
		if err := c.Mail("shop@example.com"); err != nil {
			t.Fatal(err)
		}
		if err := c.Rcpt("ann@example.com"); err != nil {
			t.Fatal(err)
		}
		w, err := c.Data()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(m)); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	}
	e := s.Effects()
	if e[0].BodyHash != e[1].BodyHash || e[0].Fence == e[1].Fence {
		t.Errorf("a repeat: got %+v and %+v, want one hash and two fences", e[0], e[1])
	}
	if e[0].BodyHash == e[2].BodyHash {
		t.Error("two mails have one hash")
	}
}
