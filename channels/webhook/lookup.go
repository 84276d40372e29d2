package webhook

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/seed-4b260dfd/notifier"
	"github.com/seed-4b260dfd/notifier/channels"
)

// idPlace is what the webhook-id takes the place of in a look-up URL.
const idPlace = "{id}"

// Lookup asks the receiver at the account's lookup_url whether it has the
// message: a GET, signed as a webhook with an empty body is. 200 says that it
// has, 404 that it has not; anything else is no answer.
func (s *Sender) Lookup(ctx context.Context, d *notifier.Delivery, _ time.Time) (channels.Found, error) {
	if s.lookup == "" {
		return channels.Found{}, channels.ErrNoLookup
	}
	id := messageID(d.EffectKey)
	guard := &channels.Guard{}
	req, err := http.NewRequestWithContext(channels.WithGuard(ctx, guard), http.MethodGet, strings.ReplaceAll(s.lookup, idPlace, id), nil)
	if err != nil {
		return channels.Found{}, fmt.Errorf("make the request: %w", err)
	}
	if s.via != nil {
		req.Host = req.URL.Host
		req.URL.Scheme, req.URL.Host = s.via.Scheme, s.via.Host
	}
	name := d.Address.Secret
	if name == "" {
		name = defaultSecret
	}
	at := strconv.FormatInt(time.Now().Unix(), 10)
	req.Header.Set("User-Agent", "notifier")
	req.Header.Set("Webhook-Id", id)
	req.Header.Set("Webhook-Timestamp", at)
	req.Header.Set("Webhook-Signature", sign(s.keys[name], id, at, nil))
	resp, err := s.client.Do(req)
	if err == nil {
		resp.Body.Close()
	}
	a := guard.Answer()
	switch {
	case a == nil && err == nil:
		return channels.Found{}, errors.New("there was no answer")
	case a == nil:
		return channels.Found{}, fmt.Errorf("ask the receiver: %s", channels.ShortStatus(err.Error()))
	case a.Status == http.StatusOK:
		return channels.Found{Sent: true, ProviderID: id, ProviderStatus: "200"}, nil
	case a.Status == http.StatusNotFound:
		return channels.Found{ProviderStatus: "404"}, nil
	}
	return channels.Found{}, fmt.Errorf("the receiver answered %d; allowed are 200 and 404", a.Status)
}
