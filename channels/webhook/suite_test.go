package webhook_test

import (
	"fmt"
	"testing"

	"github.com/seed-4b260dfd/notifier"
	"github.com/seed-4b260dfd/notifier/channels"
	"github.com/seed-4b260dfd/notifier/channels/channelstest"
	"github.com/seed-4b260dfd/notifier/channels/simulate"
	"github.com/seed-4b260dfd/notifier/channels/webhook"
)

var (
	_ channels.Kind    = webhook.Kind{}
	_ channels.Channel = (*webhook.Sender)(nil)
)

func open(t *testing.T, s *simulate.Server) channels.Channel {
	t.Helper()
	sender, err := webhook.New(webhook.Config{
		AccountConfig: channels.AccountConfig{AllowPrivate: true},
		Secrets:       map[string][]string{"default": {s.Files().WebhookSecret}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return sender
}

func address(s *simulate.Server, n int) notifier.Address {
	return notifier.Address{Value: fmt.Sprintf("%s/hooks/%d?v=1", s.HTTPURL(), n)}
}

func TestChannel(t *testing.T) {
	t.Parallel()
	answered := func(status int, o notifier.Outcome, r notifier.Reason) channelstest.Case {
		return channelstest.Case{
			Name:     fmt.Sprint("status_", status),
			Fault:    simulate.Fault{Kind: simulate.FaultStatus, Status: status},
			Want:     channels.Result{Outcome: o, Reason: r, ProviderStatus: fmt.Sprint(status)},
			Received: 1,
		}
	}
	cases := append(channelstest.HTTPCases(),
		answered(202, notifier.OutcomeSent, notifier.ReasonNone),
		answered(204, notifier.OutcomeSent, notifier.ReasonNone),
		answered(302, notifier.OutcomeRejected, notifier.ReasonRefused),
		answered(400, notifier.OutcomeRejected, notifier.ReasonRefused),
		answered(401, notifier.OutcomeRejected, notifier.ReasonRefused),
		answered(408, notifier.OutcomeUnknown, notifier.ReasonProviderError),
		answered(409, notifier.OutcomeUnknown, notifier.ReasonProviderError),
		answered(413, notifier.OutcomeRejected, notifier.ReasonBadContent),
		answered(502, notifier.OutcomeUnknown, notifier.ReasonProviderError),
		answered(504, notifier.OutcomeUnknown, notifier.ReasonProviderError),
	)
	channelstest.Run(t, channelstest.Subject{
		Kind:    webhook.Kind{},
		Open:    open,
		Address: address,
		Fields:  map[string]any{"body": map[string]any{"event": "paid", "note": "<b>1 & 2</b> 🎉"}},
		Cases:   cases,
	})
}
