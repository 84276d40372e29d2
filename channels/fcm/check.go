package fcm

import (
	"context"
	"fmt"
	"strings"
	"time"

	"firebase.google.com/go/v4/messaging"

	"github.com/seed-4b260dfd/notifier"
	"github.com/seed-4b260dfd/notifier/channels"
)

// nobody is a registration token that is none.
const nobody = "notifier-check"

// Check fetches a token and has a message to nobody validated, without its
// being sent. That Google finds the address wrong says that it got past the
// credentials.
func (s *Sender) Check(ctx context.Context) error {
	for again := 0; ; again++ {
		token, err := s.tokens.get(ctx)
		if err != nil {
			res := withoutToken(err, time.Now())
			return fmt.Errorf("%s: %s", res.Reason, res.ProviderStatus)
		}
		m := &messaging.Message{Token: nobody, Notification: &messaging.Notification{Title: "check"}}
		res := s.call(ctx, &attempt{bearer: token}, &channels.Guard{}, func(ctx context.Context) (string, error) {
			return s.client.SendDryRun(ctx, m)
		})
		switch {
		case res.Again && again == 0:
			continue
		case res.Outcome == notifier.OutcomeSent, res.Outcome == notifier.OutcomeInvalidAddress, strings.HasPrefix(res.ProviderStatus, "400 INVALID_ARGUMENT"):
			return nil
		}
		return fmt.Errorf("%s: %s", res.Reason, res.ProviderStatus)
	}
}
