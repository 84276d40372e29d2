package fcm_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/seed-4b260dfd/notifier"
	"github.com/seed-4b260dfd/notifier/channels"
	"github.com/seed-4b260dfd/notifier/channels/channelstest"
	"github.com/seed-4b260dfd/notifier/channels/fcm"
	"github.com/seed-4b260dfd/notifier/channels/simulate"
)

var (
	_ channels.Kind        = fcm.Kind{}
	_ channels.Channel     = (*fcm.Sender)(nil)
	_ channels.LiveChecker = (*fcm.Sender)(nil)
)

func config(s *simulate.Server) fcm.Config {
	return fcm.Config{
		AccountConfig:   channels.AccountConfig{Endpoint: s.FCMURL(), CAFile: s.CAFile(), AllowPrivate: true},
		CredentialsFile: s.Files().FCMCredentialsFile,
	}
}

func open(t *testing.T, s *simulate.Server) channels.Channel {
	t.Helper()
	sender, err := fcm.New(config(s))
	if err != nil {
		t.Fatal(err)
	}
	return sender
}

func address(_ *simulate.Server, n int) notifier.Address {
	return notifier.Address{Value: fmt.Sprintf("fGh-%08d:APA91b_%0140d", n, n)}
}

func status(code int, reason string) simulate.Fault {
	return simulate.Fault{Kind: simulate.FaultStatus, Status: code, Reason: reason}
}

func result(o notifier.Outcome, r notifier.Reason, words string) channels.Result {
	return channels.Result{Outcome: o, Reason: r, ProviderStatus: words}
}

// httpCases are everybody's, with the times that FCM asks to stay away.
func httpCases() []channelstest.Case {
	cases := channelstest.HTTPCases()
	for i := range cases {
		switch cases[i].Name {
		case "500", "503_html":
			cases[i].Want.RetryAfter = 10 * time.Second
		case "429_without":
			cases[i].Want.RetryAfter = time.Minute
		}
		// Nothing says that it is one device's quota.
		cases[i].Want.AccountWide = cases[i].Want.Reason == notifier.ReasonThrottled
	}
	return cases
}

func TestChannel(t *testing.T) {
	t.Parallel()
	yes := true
	later := func(r channels.Result, d time.Duration) channels.Result { r.RetryAfter = d; return r }
	trouble := channels.Result{Outcome: notifier.OutcomeUnknown, Reason: notifier.ReasonProviderError, RetryAfter: 10 * time.Second}
	cases := append(httpCases(), channelstest.HTTP2Cases()...)
	cases = append(cases,
		channelstest.Case{Name: "unregistered", Fault: simulate.Fault{Kind: simulate.FaultDeadToken}, Received: 1,
			Want: result(notifier.OutcomeInvalidAddress, notifier.ReasonInvalidAddress, "404 UNREGISTERED")},
		channelstest.Case{Name: "other_sender", Fault: status(403, "SENDER_ID_MISMATCH"), Received: 1,
			Want: result(notifier.OutcomeInvalidAddress, notifier.ReasonInvalidAddress, "403 SENDER_ID_MISMATCH")},
		channelstest.Case{Name: "may_not_send", Fault: status(403, "PERMISSION_DENIED"), Received: 1,
			Want: result(notifier.OutcomeNotSent, notifier.ReasonBadCredentials, "403 PERMISSION_DENIED")},
		channelstest.Case{Name: "403_html", Fault: simulate.Fault{Kind: simulate.FaultStatus, Status: 403, HTML: true}, Received: 1,
			Want: result(notifier.OutcomeNotSent, notifier.ReasonBadCredentials, "403")},
		channelstest.Case{Name: "404_html", Fault: simulate.Fault{Kind: simulate.FaultStatus, Status: 404, HTML: true}, Received: 1,
			Want: result(notifier.OutcomeRejected, notifier.ReasonRefused, "404")},
		channelstest.Case{Name: "apns_key_refused", Fault: status(401, "THIRD_PARTY_AUTH_ERROR"), Received: 1,
			Want: result(notifier.OutcomeNotSent, notifier.ReasonBadCredentials, "401 THIRD_PARTY_AUTH_ERROR")},
		channelstest.Case{Name: "token_refused", Fault: status(401, "UNAUTHENTICATED"), Received: 1,
			Want: channels.Result{Outcome: notifier.OutcomeNotSent, Again: true, ProviderStatus: "401 UNAUTHENTICATED"}},
		channelstest.Case{Name: "bad_argument", Fault: status(400, "INVALID_ARGUMENT"), Received: 1,
			Want: result(notifier.OutcomeRejected, notifier.ReasonRefused, "400 INVALID_ARGUMENT")},
		channelstest.Case{Name: "quota", Fault: status(429, "QUOTA_EXCEEDED"), Received: 1,
			Want: channels.Result{Outcome: notifier.OutcomeNotSent, Reason: notifier.ReasonThrottled, ProviderStatus: "429 QUOTA_EXCEEDED",
				RetryAfter: time.Minute, AccountWide: true}},
		channelstest.Case{Name: "unavailable", Fault: status(503, "UNAVAILABLE"), Want: trouble, Received: 1},
		// The message arrived all the same.
		channelstest.Case{Name: "unavailable_delivered", Received: 1, Want: trouble,
			Fault: simulate.Fault{Kind: simulate.FaultStatus, Status: 503, Reason: "UNAVAILABLE", Effect: &yes}},
		// The SDK would wait these two seconds and send again.
		channelstest.Case{Name: "unavailable_soon", Received: 1, Want: trouble,
			Fault: simulate.Fault{Kind: simulate.FaultStatus, Status: 503, Reason: "UNAVAILABLE", RetryAfter: "2"}},
		channelstest.Case{Name: "unavailable_for_long", Received: 1, Want: later(trouble, 300*time.Second),
			Fault: simulate.Fault{Kind: simulate.FaultStatus, Status: 503, Reason: "UNAVAILABLE", RetryAfter: "300"}},
		channelstest.Case{Name: "502_html", Fault: simulate.Fault{Kind: simulate.FaultStatus, Status: 502, HTML: true}, Want: trouble, Received: 1},
	)
	channelstest.Run(t, channelstest.Subject{
		Kind:    fcm.Kind{},
		Open:    open,
		Address: address,
		Fields: map[string]any{"title": "Your order <42> is on its way", "body": "It arrives tomorrow & not later 🎉", "badge": 2, "sound": "default",
			"subtitle": "語", "image": "https://example.com/i.png", "url": "https://example.com/o", "data": map[string]any{"order_id": "42", "n": 7}},
		Crowd: 400,
		Cases: cases,
	})
}
