package webpush_test

import (
	"fmt"
	"testing"

	"github.com/seed-4b260dfd/notifier"
	"github.com/seed-4b260dfd/notifier/channels"
	"github.com/seed-4b260dfd/notifier/channels/channelstest"
	"github.com/seed-4b260dfd/notifier/channels/simulate"
	"github.com/seed-4b260dfd/notifier/channels/webpush"
)

var (
	_ channels.Kind        = webpush.Kind{}
	_ channels.Channel     = (*webpush.Sender)(nil)
	_ channels.LiveChecker = (*webpush.Sender)(nil)
)

func config(s *simulate.Server) webpush.Config {
	return webpush.Config{
		AccountConfig:   channels.AccountConfig{Endpoint: s.HTTPURL(), AllowPrivate: true},
		VAPIDPrivateKey: s.Files().VAPIDPrivateKey,
		Subject:         "mailto:ops@example.com",
	}
}

func open(t *testing.T, s *simulate.Server) channels.Channel {
	t.Helper()
	return openWith(t, config(s))
}

func openWith(t *testing.T, cfg webpush.Config) *webpush.Sender {
	t.Helper()
	sender, err := webpush.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return sender
}

func address(s *simulate.Server, n int) notifier.Address {
	sub := s.Subscription(fmt.Sprint("browser ", n))
	return notifier.Address{Value: sub.Endpoint, Keys: notifier.PushKeys(sub.Keys)}
}

func fields() map[string]any {
	return map[string]any{"title": "Your order <42> is on its way", "body": "It arrives tomorrow & not later 🎉", "data": map[string]any{"order_id": "42"}}
}

func TestChannel(t *testing.T) {
	t.Parallel()
	answered := func(status int, reason string, o notifier.Outcome, r notifier.Reason, words string) channelstest.Case {
		return channelstest.Case{
			Name:     fmt.Sprint("status_", status, "_", reason),
			Fault:    simulate.Fault{Kind: simulate.FaultStatus, Status: status, Reason: reason},
			Want:     channels.Result{Outcome: o, Reason: r, ProviderStatus: words},
			Received: 1,
		}
	}
	cases := append(channelstest.HTTPCases(),
		answered(200, "", notifier.OutcomeSent, notifier.ReasonNone, "200"),
		answered(202, "", notifier.OutcomeSent, notifier.ReasonNone, "202"),
		answered(301, "", notifier.OutcomeRejected, notifier.ReasonRefused, "301"),
		answered(400, "110", notifier.OutcomeRejected, notifier.ReasonBadContent, "400 errno 110 110"),
		answered(400, "111", notifier.OutcomeRejected, notifier.ReasonRefused, "400 errno 111 111"),
		answered(400, "UnauthorizedRegistration", notifier.OutcomeNotSent, notifier.ReasonBadCredentials, ""),
		answered(401, "109", notifier.OutcomeNotSent, notifier.ReasonBadCredentials, "401 errno 109 109"),
		answered(403, "BadJwtToken", notifier.OutcomeNotSent, notifier.ReasonBadCredentials, ""),
		answered(404, "102", notifier.OutcomeInvalidAddress, notifier.ReasonInvalidAddress, "404 errno 102 102"),
		answered(406, "", notifier.OutcomeNotSent, notifier.ReasonThrottled, ""),
		answered(410, "103", notifier.OutcomeInvalidAddress, notifier.ReasonInvalidAddress, "410 errno 103 103"),
		answered(413, "104", notifier.OutcomeRejected, notifier.ReasonBadContent, "413 errno 104 104"),
		answered(502, "903", notifier.OutcomeUnknown, notifier.ReasonProviderError, "502 errno 903 903"),
		answered(503, "201", notifier.OutcomeNotSent, notifier.ReasonThrottled, "503 errno 201 201"),
		answered(503, "202", notifier.OutcomeNotSent, notifier.ReasonThrottled, "503 errno 202 202"),
		answered(503, "999", notifier.OutcomeUnknown, notifier.ReasonProviderError, "503 errno 999 999"),
		answered(504, "", notifier.OutcomeUnknown, notifier.ReasonProviderError, "504"),
	)
	channelstest.Run(t, channelstest.Subject{Kind: webpush.Kind{}, Open: open, Address: address, Fields: fields(), Cases: cases})
}
