package webpush

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	push "github.com/SherClockHolmes/webpush-go"

	"github.com/seed-4b260dfd/notifier"
	"github.com/seed-4b260dfd/notifier/channels"
)

// maxTTL is the longest time that a push service is asked to keep a message:
// four weeks, which is Google's most; Mozilla and Apple take 30 days.
const maxTTL = 4 * 7 * 24 * time.Hour

// Sender sends through one account.
type Sender struct {
	client  *http.Client
	subject string // as the library wants it: a mailbox without its scheme
	private string
	public  string
	// via takes the place of every endpoint's scheme and host on the way out;
	// the Host header, and the token's audience, keep the endpoint's own. nil: none.
	via *url.URL
}

// New returns the account's sender. It connects to nothing.
func New(cfg Config) (*Sender, error) {
	if wrong := cfg.Validate(); len(wrong) > 0 {
		return nil, wrong[0]
	}
	key, err := cfg.key()
	if err != nil {
		return nil, fmt.Errorf("read the VAPID key: it %w", err)
	}
	hc, err := channels.NewClient(cfg.AccountConfig, channels.HTTP1)
	if err != nil {
		return nil, err
	}
	s := &Sender{
		client:  hc,
		subject: strings.TrimPrefix(cfg.Subject, "mailto:"),
		private: base64.RawURLEncoding.EncodeToString(key.Bytes()),
		public:  base64.RawURLEncoding.EncodeToString(key.PublicKey().Bytes()),
	}
	if cfg.Endpoint != "" {
		if s.via, err = url.Parse(cfg.Endpoint); err != nil {
			return nil, fmt.Errorf("read the endpoint: %w", err)
		}
	}
	return s, nil
}

// Close lets idle connections go.
func (s *Sender) Close() error {
	s.client.CloseIdleConnections()
	return nil
}

// Check verifies offline that what the private key signs is what the public
// key verifies. There is no service to ask: each subscription has its own, and
// none answers a token without a message.
func (s *Sender) Check(context.Context) error {
	raw, err := decodeKey(s.private)
	if err != nil {
		return fmt.Errorf("read the VAPID key: %w", err)
	}
	key, err := ecdsa.ParseRawPrivateKey(elliptic.P256(), raw)
	if err != nil {
		return fmt.Errorf("read the VAPID key: %w", err)
	}
	sum := sha256.Sum256([]byte(s.subject))
	signature, err := ecdsa.SignASN1(rand.Reader, key, sum[:])
	if err != nil {
		return fmt.Errorf("sign with the VAPID key: %w", err)
	}
	point, err := decodeKey(s.public)
	if err != nil {
		return fmt.Errorf("read the VAPID public key: %w", err)
	}
	public, err := ecdsa.ParseUncompressedPublicKey(elliptic.P256(), point)
	if err != nil {
		return fmt.Errorf("read the VAPID public key: %w", err)
	}
	if !ecdsa.VerifyASN1(public, sum[:], signature) {
		return errors.New("the VAPID public key does not verify what the private key signs")
	}
	return nil
}

// Send makes one request.
func (s *Sender) Send(ctx context.Context, c *channels.Call) channels.Result {
	d := c.Delivery
	text, ok := plaintext(d)
	if !ok {
		return refuse(notifier.ReasonBadContent, "the stored content is not a push")
	}
	endpoint, err := readEndpoint(d.Address.Value)
	if err != nil || (Kind{}).CheckAddress(d.Address) != nil {
		return refuse(notifier.ReasonInvalidAddress, "the address is not a subscription")
	}
	resp, err := push.SendNotificationWithContext(channels.WithGuard(ctx, c.Guard), text,
		&push.Subscription{Endpoint: endpoint.String(), Keys: push.Keys{Auth: d.Address.Keys.Auth, P256dh: d.Address.Keys.P256dh}},
		&push.Options{
			HTTPClient: outgoing{s, c},
			// One record, as long as the text needs: the library pads to what it
			// is told, and would make 4096 bytes of every message.
			RecordSize: uint32(len(text) + overhead),
			Subscriber: s.subject, VAPIDPublicKey: s.public, VAPIDPrivateKey: s.private,
			Topic: topic(d), TTL: ttl(d.ExpiresAt, time.Now()), Urgency: urgency(d.Lane.Priority),
		})
	if err == nil {
		resp.Body.Close()
	}
	if a := c.Guard.Answer(); a != nil {
		return read(a, time.Now())
	}
	res := channels.TransportResult(err, c.Guard)
	if res.Outcome == notifier.OutcomeNotSent && errors.Is(err, channels.ErrForbiddenAddress) {
		res.Outcome, res.Reason = notifier.OutcomeRejected, notifier.ReasonForbiddenAddress
	}
	return res
}

func refuse(reason notifier.Reason, status string) channels.Result {
	return channels.Result{Outcome: notifier.OutcomeRejected, Reason: reason, ProviderStatus: status}
}

// outgoing is the client that the library is given: it takes the request to
// where the account says.
type outgoing struct {
	*Sender
	call *channels.Call
}

// Do makes the one request.
func (o outgoing) Do(req *http.Request) (*http.Response, error) {
	req.Header.Set("User-Agent", "notifier")
	if o.via != nil {
		req.Host = req.URL.Host
		req.URL.Scheme, req.URL.Host = o.via.Scheme, o.via.Host
		// Push services have no use for our ids; what stands in for them writes
		// them into its log.
		req.Header.Set("X-Delivery", o.call.Delivery.ID.String())
		req.Header.Set("X-Attempt", strconv.FormatInt(o.call.Fence, 10))
	}
	return o.client.Do(req)
}

// ttl is the rest of a delivery's time in whole seconds. Zero means: now or
// never (RFC 8030 section 5.2).
func ttl(expires, now time.Time) int {
	return int(min(max(expires.Sub(now), 0), maxTTL) / time.Second)
}

// urgency tells a device on battery what is worth waking for (RFC 8030 section 5.3).
func urgency(p notifier.Priority) push.Urgency {
	switch p {
	case notifier.PriorityHigh:
		return push.UrgencyHigh
	case notifier.PriorityBulk:
		return push.UrgencyLow
	case notifier.PriorityNormal:
	}
	return push.UrgencyNormal
}

// topicBytes is the longest Topic (RFC 8030 section 5.4).
const topicBytes = 32

// topic is 192 bits of the hash of the delivery's collapse id, in exactly 32
// characters of base64url. It is hashed always: push services read the Topic in
// the clear, and Apple refuses one that does not decode as base64.
func topic(d *notifier.Delivery) string {
	id := d.CollapseID
	if id == "" {
		id = d.EffectKey
	}
	sum := sha256.Sum256([]byte(id))
	return base64.RawURLEncoding.EncodeToString(sum[:topicBytes*6/8])
}
