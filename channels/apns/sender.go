package apns

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/sideshow/apns2"

	"github.com/seed-4b260dfd/notifier"
	"github.com/seed-4b260dfd/notifier/channels"
)

// Sender sends through one account, over one connection.
type Sender struct {
	client *apns2.Client
	topic  string
	// named says that our ids go along in headers. Apple has no use for them;
	// what stands in for Apple writes them into its log.
	named bool
}

// New returns the account's sender. It reads the key file and makes a first
// token, and connects to nothing.
func New(cfg Config) (*Sender, error) {
	if wrong := cfg.Validate(); len(wrong) > 0 {
		return nil, wrong[0]
	}
	key, err := cfg.key()
	if err != nil {
		return nil, err
	}
	// apns2 drops this error later on, and would send without a token.
	if _, err := key.Generate(); err != nil {
		return nil, fmt.Errorf("sign a token with %q: %w", cfg.KeyFile, err)
	}
	hc, err := channels.NewClient(cfg.AccountConfig, channels.HTTP2)
	if err != nil {
		return nil, err
	}
	hc.Transport = exact{hc.Transport}
	return &Sender{
		client: &apns2.Client{Host: cfg.host(), Token: key, HTTPClient: hc},
		topic:  cfg.Topic,
		named:  cfg.Endpoint != "",
	}, nil
}

// Close lets the idle connection go.
func (s *Sender) Close() error {
	s.client.HTTPClient.CloseIdleConnections()
	return nil
}

// Send makes one request.
func (s *Sender) Send(ctx context.Context, c *channels.Call) channels.Result {
	stored, err := readContent(c.Delivery.Content)
	if err != nil || len(stored.Payload) == 0 {
		return channels.Result{Outcome: notifier.OutcomeRejected, Reason: notifier.ReasonBadContent,
			ProviderStatus: "the stored content is not a push"}
	}
	used := s.client.Token.GenerateIfExpired()
	ctx = context.WithValue(channels.WithGuard(ctx, c.Guard), partsKey{}, s.parts(c, stored))
	_, err = s.client.PushWithContext(ctx, s.notification(c.Delivery, stored))
	a := c.Guard.Answer()
	if a == nil {
		return channels.TransportResult(err, c.Guard)
	}
	res, expired := read(a, time.Now())
	if expired {
		// Where a new token does not help, somebody has to look at the clock.
		if res.Again = renew(s.client.Token, used, time.Now()); !res.Again {
			res.Reason = notifier.ReasonBadCredentials
		}
	}
	return res
}

// notification is the request's headers; the body follows in parts.
func (s *Sender) notification(d *notifier.Delivery, stored content) *apns2.Notification {
	n := &apns2.Notification{
		ApnsID:      notifier.UUID(d.EffectKey),
		DeviceToken: d.Address.Value,
		Topic:       s.topic,
		Expiration:  expiration(d.ExpiresAt),
		Priority:    apns2.PriorityHigh,
		PushType:    apns2.PushTypeAlert,
		// exact sends the stored payload. Encoding that one here would be for nothing.
		Payload: placeholder,
	}
	if stored.PushType == pushBackground {
		// A background push with priority 10 is an error, and there is nothing
		// on the screen that it could replace.
		n.Priority, n.PushType = apns2.PriorityLow, apns2.PushTypeBackground
		return n
	}
	n.CollapseID = collapseID(d)
	return n
}

// expiration is never zero: apns2 leaves the header out for any time that is
// not after 1970 began, and Apple then stores the push for as long as it
// likes. One second into 1970 means: try once, store nothing.
func expiration(t time.Time) time.Time {
	if first := time.Unix(1, 0); t.Before(first) {
		return first
	}
	return t
}

// maxCollapseBytes is the longest apns-collapse-id.
const maxCollapseBytes = 64

// collapseID is the delivery's collapse id where that is a legal header value
// of at most 64 bytes, else its SHA-256, whose hex form has exactly 64.
func collapseID(d *notifier.Delivery) string {
	id := d.CollapseID
	if id == "" {
		id = d.EffectKey
	}
	outside := func(r rune) bool { return r < 0x20 || r > 0x7e }
	// A space at either end would be lost on the way.
	if len(id) <= maxCollapseBytes && strings.IndexFunc(id, outside) < 0 && strings.TrimSpace(id) == id && id != "" {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	return hex.EncodeToString(sum[:])
}

// parts is what apns2 has no room for.
type parts struct {
	payload           []byte
	delivery, attempt string
}

type partsKey struct{}

func (s *Sender) parts(c *channels.Call, stored content) *parts {
	p := &parts{payload: stored.Payload}
	if s.named {
		p.delivery, p.attempt = c.Delivery.ID.String(), strconv.FormatInt(c.Fence, 10)
	}
	return p
}

// placeholder is the payload that apns2 is given to encode.
const placeholder = "{}"

// exact sends the stored payload in place of what apns2 encodes: its escapes for
// HTML would make a payload grow, and it can pass the limit that was checked.
type exact struct{ next http.RoundTripper }

func (e exact) RoundTrip(req *http.Request) (*http.Response, error) {
	p, _ := req.Context().Value(partsKey{}).(*parts)
	if p == nil {
		return nil, errors.New("the request carries no payload")
	}
	// Nobody else has this request's headers: apns2 has just made them.
	r := req.WithContext(req.Context())
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(p.payload)), int64(len(p.payload))
	if p.delivery != "" {
		r.Header.Set("X-Delivery", p.delivery)
		r.Header.Set("X-Attempt", p.attempt)
	}
	return e.next.RoundTrip(r)
}

func (e exact) CloseIdleConnections() {
	if c, ok := e.next.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}
