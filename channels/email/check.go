package email

import (
	"context"
	"fmt"

	"github.com/seed-4b260dfd/notifier"
	"github.com/seed-4b260dfd/notifier/channels"
)

// Check connects, logs in where the account has a user, and leaves again
// without having begun a mail.
func (s *Sender) Check(ctx context.Context) error {
	c, at, err := dial(ctx, s.server, s.tls)
	if err != nil {
		res := read(ctx, at, err)
		return fmt.Errorf("%s: %s", res.Reason, res.ProviderStatus)
	}
	defer c.close()
	stop := context.AfterFunc(ctx, c.close)
	defer stop()
	if err := c.client.Noop(); err != nil {
		return fmt.Errorf("%s: %s", notifier.ReasonUnreachable, channels.ShortStatus(err.Error()))
	}
	// What it says to QUIT changes nothing.
	_ = c.client.Quit()
	return nil
}
