package apns

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/sideshow/apns2"
	"github.com/sideshow/apns2/token"

	"github.com/seed-4b260dfd/notifier"
	"github.com/seed-4b260dfd/notifier/channels"
)

// Sender sends through one account, over one connection.
type Sender struct {
	transport http.RoundTripper
	key       *token.Token
	// host is where requests go; the path is the device's.
	host  url.URL
	topic []string
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
	// This error is dropped later on, when a token is replaced.
	if _, err := key.Generate(); err != nil {
		return nil, fmt.Errorf("sign a token with %q: %w", cfg.KeyFile, err)
	}
	host, err := url.Parse(cfg.host())
	if err != nil {
		return nil, fmt.Errorf("read the endpoint: %w", err)
	}
	hc, err := channels.NewClient(cfg.AccountConfig, channels.HTTP2)
	if err != nil {
		return nil, err
	}
	return &Sender{transport: hc.Transport, key: key, host: *host, topic: []string{cfg.Topic}, named: cfg.Endpoint != ""}, nil
}

// Close lets the idle connection go.
func (s *Sender) Close() error {
	if c, ok := s.transport.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
	return nil
}

// Send makes one request.
func (s *Sender) Send(ctx context.Context, c *channels.Call) channels.Result {
	stored, err := readContent(c.Delivery.Content)
	if err != nil || len(stored.Payload) == 0 {
		return channels.Result{Outcome: notifier.OutcomeRejected, Reason: notifier.ReasonBadContent,
			ProviderStatus: "the stored content is not a push"}
	}
	used := s.key.GenerateIfExpired()
	// The transport and not a client: there are no cookies and no redirects to
	// follow, and the context has the time-out. What is answered is in the guard.
	resp, err := s.transport.RoundTrip(s.request(channels.WithGuard(ctx, c.Guard), c, stored, used))
	if err == nil {
		resp.Body.Close()
	}
	a := c.Guard.Answer()
	if a == nil {
		return channels.TransportResult(err, c.Guard)
	}
	res, expired := read(a, time.Now())
	if expired {
		// Where a new token does not help, somebody has to look at the clock.
		if res.Again = renew(s.key, used, time.Now()); !res.Again {
			res.Reason = notifier.ReasonBadCredentials
		}
	}
	return res
}

// Values of headers, made once.
var (
	contentType = []string{"application/json; charset=utf-8"}
	atOnce      = []string{strconv.Itoa(apns2.PriorityHigh)}
	whenHandy   = []string{strconv.Itoa(apns2.PriorityLow)}
	anAlert     = []string{string(apns2.PushTypeAlert)}
	aWakeUp     = []string{string(apns2.PushTypeBackground)}
)

// request is made by hand and not by apns2, which encodes the payload again,
// with escapes for HTML that make it grow past the limit that was checked.
// https://developer.apple.com/documentation/usernotifications/sending-notification-requests-to-apns
func (s *Sender) request(ctx context.Context, c *channels.Call, stored content, bearer string) *http.Request {
	d := c.Delivery
	only := func(value string) []string { return []string{value} }
	h := http.Header{
		"Authorization":   only("bearer " + bearer),
		"Content-Type":    contentType,
		"Apns-Topic":      s.topic,
		"Apns-Id":         only(notifier.UUID(d.EffectKey)),
		"Apns-Expiration": only(strconv.FormatInt(expiration(d.ExpiresAt).Unix(), 10)),
	}
	if stored.PushType == pushBackground {
		// A background push with priority 10 is an error, and there is nothing
		// on the screen that it could replace.
		h["Apns-Priority"], h["Apns-Push-Type"] = whenHandy, aWakeUp
	} else {
		h["Apns-Priority"], h["Apns-Push-Type"] = atOnce, anAlert
		h["Apns-Collapse-Id"] = only(collapseID(d))
	}
	if s.named {
		h["X-Delivery"], h["X-Attempt"] = only(d.ID.String()), only(strconv.FormatInt(c.Fence, 10))
	}
	u := s.host
	u.Path += "/3/device/" + d.Address.Value
	r := &http.Request{
		Method: http.MethodPost, URL: &u, Host: u.Host, Header: h,
		Body: io.NopCloser(bytes.NewReader(stored.Payload)), ContentLength: int64(len(stored.Payload)),
	}
	return r.WithContext(ctx)
}

// expiration is never before 1970: Apple may take that for a header that is not
// there, and then stores the push for as long as it likes. One second into 1970
// means: try once, store nothing.
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
