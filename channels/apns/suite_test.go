package apns_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/seed-4b260dfd/notifier"
	"github.com/seed-4b260dfd/notifier/channels"
	"github.com/seed-4b260dfd/notifier/channels/apns"
	"github.com/seed-4b260dfd/notifier/channels/channelstest"
	"github.com/seed-4b260dfd/notifier/channels/simulate"
)

var (
	_ channels.Kind    = apns.Kind{}
	_ channels.Channel = (*apns.Sender)(nil)
)

func config(s *simulate.Server) apns.Config {
	f := s.Files()
	return apns.Config{
		AccountConfig: channels.AccountConfig{Endpoint: s.APNsURL(), CAFile: s.CAFile(), AllowPrivate: true},
		KeyFile:       f.APNsKeyFile,
		KeyID:         f.APNsKeyID,
		TeamID:        f.APNsTeamID,
		Topic:         f.APNsTopic,
		Environment:   "production",
	}
}

func open(t *testing.T, s *simulate.Server) channels.Channel {
	t.Helper()
	sender, err := apns.New(config(s))
	if err != nil {
		t.Fatal(err)
	}
	return sender
}

func address(_ *simulate.Server, n int) notifier.Address {
	return notifier.Address{Value: fmt.Sprintf("%064x", n+1)}
}

func status(code int, reason string) simulate.Fault {
	return simulate.Fault{Kind: simulate.FaultStatus, Status: code, Reason: reason}
}

func result(o notifier.Outcome, r notifier.Reason, words string) channels.Result {
	return channels.Result{Outcome: o, Reason: r, ProviderStatus: words}
}

func TestChannel(t *testing.T) {
	t.Parallel()
	cases := append(channelstest.HTTPCases(), channelstest.HTTP2Cases()...)
	cases = append(cases,
		// Of a token that was made a moment ago: a new one would be no better.
		channelstest.Case{Name: "expired_new_token", Fault: status(403, "ExpiredProviderToken"), Received: 1,
			Want: result(notifier.OutcomeNotSent, notifier.ReasonBadCredentials, "403 ExpiredProviderToken")},
		channelstest.Case{Name: "bad_key", Fault: status(403, "InvalidProviderToken"), Received: 1,
			Want: result(notifier.OutcomeNotSent, notifier.ReasonBadCredentials, "403 InvalidProviderToken")},
		channelstest.Case{Name: "bad_device_token", Fault: status(400, "BadDeviceToken"), Received: 1,
			Want: result(notifier.OutcomeRejected, notifier.ReasonInvalidAddress, "400 BadDeviceToken")},
		channelstest.Case{Name: "unregistered", Fault: simulate.Fault{Kind: simulate.FaultDeadToken}, Received: 1,
			Want: result(notifier.OutcomeInvalidAddress, notifier.ReasonInvalidAddress, "410 Unregistered"),
			After: func(t *testing.T, r channels.Result) {
				if age := time.Since(r.InvalidSince); age < 59*time.Minute || age > 61*time.Minute {
					t.Errorf("invalid since %v, want an hour ago", r.InvalidSince)
				}
			}},
		channelstest.Case{Name: "410_html", Fault: simulate.Fault{Kind: simulate.FaultStatus, Status: 410, HTML: true}, Received: 1,
			Want: result(notifier.OutcomeInvalidAddress, notifier.ReasonInvalidAddress, "410")},
		channelstest.Case{Name: "too_large", Fault: status(413, "PayloadTooLarge"), Received: 1,
			Want: result(notifier.OutcomeRejected, notifier.ReasonBadContent, "413 PayloadTooLarge")},
		channelstest.Case{Name: "unknown_4xx", Fault: status(400, "SomethingNew"), Received: 1,
			Want: result(notifier.OutcomeRejected, notifier.ReasonRefused, "400 SomethingNew")},
		channelstest.Case{Name: "shutdown", Fault: status(503, "Shutdown"), Received: 1,
			Want: result(notifier.OutcomeUnknown, notifier.ReasonProviderError, "503 Shutdown")},
	)
	channelstest.Run(t, channelstest.Subject{
		Kind:    apns.Kind{},
		Open:    open,
		Address: address,
		Fields:  map[string]any{"title": "Your order <42> is on its way", "body": "It arrives tomorrow & not later 🎉", "data": map[string]any{"order_id": "42"}},
		Crowd:   400,
		Cases:   cases,
	})
}
