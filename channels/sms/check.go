package sms

import (
	"context"
	"errors"
	"fmt"

	"github.com/seed-4b260dfd/notifier"
	"github.com/seed-4b260dfd/notifier/channels"
)

// Check asks Twilio for the account, which shows that SID and token are good
// and that the account may send. No message is made.
// https://www.twilio.com/docs/iam/api/account#fetch-an-account-resource
func (s *Sender) Check(ctx context.Context) error {
	var account struct {
		Status string `json:"status"`
	}
	err := s.get(ctx, s.cfg.resource()+".json", &account)
	var refused *statusError
	switch {
	case errors.As(err, &refused) && refused.Reason == notifier.ReasonBadCredentials:
		return fmt.Errorf("%w: account_sid and auth_token do not go together, or the token was replaced", err)
	case err != nil:
		return err
	case account.Status != "active":
		return fmt.Errorf("the account is %q, not active: it cannot send", channels.ShortStatus(account.Status))
	}
	return nil
}
