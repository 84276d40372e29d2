package email_test

import (
	"fmt"
	"net/url"
	"testing"
	"time"

	"github.com/seed-4b260dfd/notifier"
	"github.com/seed-4b260dfd/notifier/channels"
	"github.com/seed-4b260dfd/notifier/channels/channelstest"
	"github.com/seed-4b260dfd/notifier/channels/email"
	"github.com/seed-4b260dfd/notifier/channels/simulate"
)

// account is the configuration of an account at the simulated server.
func account(s *simulate.Server) email.Config {
	f := s.Files()
	u := url.URL{Scheme: "smtp", User: url.UserPassword(f.SMTPUser, f.SMTPPassword), Host: s.SMTPAddr()}
	return email.Config{SMTP: u.String(), TLS: "none", From: "Shop <no-reply@example.com>"}
}

func open(t *testing.T, cfg email.Config) *email.Sender {
	t.Helper()
	s, err := email.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func result(o notifier.Outcome, r notifier.Reason) channels.Result {
	return channels.Result{Outcome: o, Reason: r}
}

// suite is the table of the channel, one row per stage and reply.
func suite() []channelstest.Case {
	sent := result(notifier.OutcomeSent, notifier.ReasonNone)
	lost := result(notifier.OutcomeUnknown, notifier.ReasonReplyLost)
	throttled := result(notifier.OutcomeNotSent, notifier.ReasonThrottled)
	busy := throttled // before the server has heard who the mail is for
	busy.AccountWide = true
	refused := result(notifier.OutcomeRejected, notifier.ReasonRefused)
	dead := result(notifier.OutcomeInvalidAddress, notifier.ReasonInvalidAddress)
	credentials := result(notifier.OutcomeNotSent, notifier.ReasonBadCredentials)
	unsent := result(notifier.OutcomeNotSent, notifier.ReasonUnreachable)
	cases := []channelstest.Case{
		{Name: "slow_dot", Fault: simulate.Fault{Kind: simulate.FaultSlowDot, Delay: 300 * time.Millisecond}, Want: sent, Received: 1},
		// A small mail leaves in one piece with its dot: that the server closed
		// before it read the dot cannot be told from here.
		{Name: "close_before_dot", Fault: simulate.Fault{Kind: simulate.FaultCloseBeforeDot}, Want: lost},
		{Name: "close_after_dot", Fault: simulate.Fault{Kind: simulate.FaultCloseAfterDot}, Want: lost, Received: 1},
		{Name: "reply_dropped", Fault: simulate.Fault{Kind: simulate.FaultDropReply}, Want: lost, Received: 1},
		{Name: "accept_then_close", Fault: simulate.Fault{Kind: simulate.FaultAcceptThenClose}, Want: sent, Received: 1},
		{Name: "truncated_reply", Fault: simulate.Fault{Kind: simulate.FaultTruncate}, Want: lost, Received: 1},
		{Name: "hang", Fault: simulate.Fault{Kind: simulate.FaultHang},
			Want: result(notifier.OutcomeUnknown, notifier.ReasonTimeOut), Received: 1, Timeout: 2 * time.Second},
		{Name: "drop_before", Fault: simulate.Fault{Kind: simulate.FaultDropBefore}, Want: unsent},
		{Name: "dead", Fault: simulate.Fault{Kind: simulate.FaultDeadToken}, Want: dead},
		{Name: "moved_at_dot", Fault: simulate.Fault{Kind: simulate.FaultStatus, Status: 550, Reason: "5.1.6 Moved"}, Want: dead, Received: 1},
		{Name: "too_big", Fault: simulate.Fault{Kind: simulate.FaultStatus, Status: 552, Reason: "5.3.4 Too big"},
			Want: result(notifier.OutcomeRejected, notifier.ReasonBadContent), Received: 1},
		{Name: "250_by_another_number", Fault: simulate.Fault{Kind: simulate.FaultStatus, Status: 251, Reason: "2.0.0 Forwarded"}, Want: sent, Received: 1},
		{Name: "354_at_dot", Fault: simulate.Fault{Kind: simulate.FaultStatus, Status: 354, Reason: "What"},
			Want: result(notifier.OutcomeUnknown, notifier.ReasonProviderError), Received: 1},
		{Name: "auth_535", Fault: simulate.Fault{Kind: simulate.FaultReply, Stage: simulate.StageAuth, Status: 535}, Want: credentials, Fresh: true},
		{Name: "auth_454", Fault: simulate.Fault{Kind: simulate.FaultReply, Stage: simulate.StageAuth, Status: 454}, Want: busy, Fresh: true},
		{Name: "connect_421", Fault: simulate.Fault{Kind: simulate.FaultReply, Stage: simulate.StageConnect, Status: 421}, Want: busy, Fresh: true},
		{Name: "connect_554", Fault: simulate.Fault{Kind: simulate.FaultReply, Stage: simulate.StageConnect, Status: 554}, Want: credentials, Fresh: true},
		{Name: "mail_530", Fault: simulate.Fault{Kind: simulate.FaultReply, Stage: simulate.StageMail, Status: 530}, Want: credentials},
		// A yes where 354 is due is none to the mail, which has not left.
		{Name: "data_250", Fault: simulate.Fault{Kind: simulate.FaultReply, Stage: simulate.StageData, Status: 250}, Want: unsent},
		// On a kept connection 421 is the server's farewell, and another is made.
		{Name: "mail_421", Fault: simulate.Fault{Kind: simulate.FaultReply, Stage: simulate.StageMail, Status: 421}, Want: throttled, Fresh: true},
	}
	for _, stage := range []string{simulate.StageMail, simulate.StageRcpt, simulate.StageData, simulate.StageDot} {
		received := 0
		if stage == simulate.StageDot {
			received = 1
		}
		cases = append(cases,
			channelstest.Case{Name: stage + "_451", Fault: simulate.Fault{Kind: simulate.FaultReply, Stage: stage, Status: 451}, Want: throttled, Received: received},
			channelstest.Case{Name: stage + "_554", Fault: simulate.Fault{Kind: simulate.FaultReply, Stage: stage, Status: 554}, Want: refused, Received: received})
	}
	return cases
}

func TestSender_Suite(t *testing.T) {
	t.Parallel()
	channelstest.Run(t, channelstest.Subject{
		Kind: email.Kind{},
		Open: func(t *testing.T, s *simulate.Server) channels.Channel { return open(t, account(s)) },
		Address: func(_ *simulate.Server, n int) notifier.Address {
			return notifier.Address{Value: fmt.Sprintf("ann%d@example.com", n), Name: "Ann"}
		},
		Fields: map[string]any{"subject": "Your order", "text": "It left.\n.\n", "html": "<p>It left.</p>"},
		Crowd:  20,
		Cases:  suite(),
	})
}
