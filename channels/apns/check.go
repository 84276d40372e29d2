package apns

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/seed-4b260dfd/notifier"
	"github.com/seed-4b260dfd/notifier/channels"
)

// nobody is a device token of the right form that no device has.
var nobody = strings.Repeat("0", 64)

// Check sends a background push to nobody's device. Key and team are looked at
// first: that the device token is wrong says that Apple took them. Whether the
// topic is one of theirs only a real device tells.
func (s *Sender) Check(ctx context.Context) error {
	d := &notifier.Delivery{
		Address: notifier.Address{Value: nobody}, EffectKey: notifier.Child("check", s.topic),
		Content:   notifier.Content(`{"push_type":"background","payload":{"aps":{"content-available":1}}}`),
		ExpiresAt: time.Unix(1, 0), // now or never
	}
	for again := 0; ; again++ {
		res := s.Send(ctx, &channels.Call{Delivery: d, Guard: &channels.Guard{}})
		switch {
		case res.Again && again == 0:
			continue
		case res.ProviderStatus == "400 BadDeviceToken", res.Outcome == notifier.OutcomeInvalidAddress, res.Outcome == notifier.OutcomeSent:
			return nil
		}
		return fmt.Errorf("%s: %s", res.Reason, res.ProviderStatus)
	}
}
