package sms_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/seed-4b260dfd/notifier"
	"github.com/seed-4b260dfd/notifier/channels"
	"github.com/seed-4b260dfd/notifier/channels/channelstest"
	"github.com/seed-4b260dfd/notifier/channels/simulate"
	"github.com/seed-4b260dfd/notifier/channels/sms"
)

var (
	_ channels.Kind        = sms.Kind{}
	_ channels.Channel     = (*sms.Sender)(nil)
	_ channels.Receiver    = (*sms.Sender)(nil)
	_ channels.Looker      = (*sms.Sender)(nil)
	_ channels.LiveChecker = (*sms.Sender)(nil)
)

// config is an account at a simulated provider.
func config(s *simulate.Server) sms.Config {
	f := s.Files()
	return sms.Config{
		AccountConfig: channels.AccountConfig{Endpoint: s.HTTPURL(), AllowPrivate: true},
		Provider:      "twilio", AccountSID: f.TwilioAccountSID, AuthToken: f.TwilioAuthToken, From: f.TwilioFrom,
	}
}

func open(t *testing.T, s *simulate.Server) channels.Channel { return openAs(t, config(s)) }

func openAs(t *testing.T, c sms.Config) *sms.Sender {
	t.Helper()
	sender, err := sms.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return sender
}

func address(_ *simulate.Server, n int) notifier.Address {
	return notifier.Address{Value: fmt.Sprintf("+1555555%04d", n)}
}

func TestChannel(t *testing.T) {
	t.Parallel()
	answered := func(status int, code string, o notifier.Outcome, r notifier.Reason) channelstest.Case {
		if code == "" {
			code = fmt.Sprint(20000 + status)
		}
		return channelstest.Case{
			Name:     fmt.Sprint("status_", status, "_", code),
			Fault:    simulate.Fault{Kind: simulate.FaultStatus, Status: status, Reason: code},
			Want:     channels.Result{Outcome: o, Reason: r, ProviderStatus: fmt.Sprint(status, " ", code)},
			Received: 1,
		}
	}
	const dead, rejected, notSent = notifier.OutcomeInvalidAddress, notifier.OutcomeRejected, notifier.OutcomeNotSent
	cases := append(channelstest.HTTPCases(),
		answered(400, "21211", dead, notifier.ReasonInvalidAddress),
		answered(400, "21217", dead, notifier.ReasonInvalidAddress),
		answered(400, "21614", dead, notifier.ReasonInvalidAddress),
		answered(400, "21610", dead, notifier.ReasonInvalidAddress),
		answered(400, "21408", rejected, notifier.ReasonRefused),
		answered(400, "21606", rejected, notifier.ReasonRefused),
		answered(400, "21612", rejected, notifier.ReasonRefused),
		answered(400, "21659", rejected, notifier.ReasonRefused),
		answered(400, "21617", rejected, notifier.ReasonBadContent),
		answered(400, "21611", notSent, notifier.ReasonThrottled),
		answered(400, "29999", rejected, notifier.ReasonRefused),
		answered(401, "20003", notSent, notifier.ReasonBadCredentials),
		answered(403, "", notSent, notifier.ReasonBadCredentials),
		answered(404, "", notSent, notifier.ReasonBadCredentials),
		answered(408, "", notifier.OutcomeUnknown, notifier.ReasonProviderError),
		answered(429, "", notSent, notifier.ReasonThrottled),
		answered(502, "", notifier.OutcomeUnknown, notifier.ReasonProviderError),
		answered(504, "", notifier.OutcomeUnknown, notifier.ReasonProviderError),
		channelstest.Case{Name: "503_delivered", Received: 1,
			Fault: simulate.Fault{Kind: simulate.FaultStatus, Status: 503, HTML: true, Effect: new(true)},
			Want:  channels.Result{Reason: notifier.ReasonProviderError, ProviderStatus: "503"}},
		channelstest.Case{Name: "dead_later", Received: 1,
			Fault: simulate.Fault{Kind: simulate.FaultDeadToken, Reason: "30005"}, Want: channels.Result{Outcome: notifier.OutcomeSent}},
	)
	for i := range cases {
		// Twilio's limits are the account's or the sender's, not the recipient's.
		cases[i].Want.AccountWide = cases[i].Want.Reason == notifier.ReasonThrottled
	}
	channelstest.Run(t, channelstest.Subject{
		Kind:    sms.Kind{},
		Open:    open,
		Address: address,
		Fields:  map[string]any{"text": "Votre code : 123 <b>1 & 2</b> = 3 + 4% 🎉" + strings.Repeat("é", 200)},
		Cases:   cases,
	})
}
