package webhook

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/seed-4b260dfd/notifier"
	"github.com/seed-4b260dfd/notifier/channels"
)

// Sender posts webhooks, signed with one account's secrets.
type Sender struct {
	client *http.Client
	keys   map[string][][]byte
	// via takes the place of every address's scheme and host on the way out;
	// the Host header keeps the address's own. nil: none.
	via    *url.URL
	plain  bool
	lookup string
}

// New returns the account's sender. It connects to nothing.
func New(cfg Config) (*Sender, error) {
	if wrong := cfg.Validate(); len(wrong) > 0 {
		return nil, wrong[0]
	}
	keys, err := cfg.keys()
	if err != nil {
		return nil, err
	}
	hc, err := channels.NewClient(cfg.AccountConfig, channels.HTTP1)
	if err != nil {
		return nil, err
	}
	s := &Sender{client: hc, keys: keys, plain: cfg.AllowPrivate, lookup: cfg.LookupURL}
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

// Send makes one request.
func (s *Sender) Send(ctx context.Context, c *channels.Call) channels.Result {
	req, refused := s.request(channels.WithGuard(ctx, c.Guard), c, time.Now())
	if refused != nil {
		return *refused
	}
	resp, err := s.client.Do(req)
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

// CheckAddress refuses an address that names a secret which the account does
// not have.
func (s *Sender) CheckAddress(a notifier.Address) error {
	if _, ok := s.keys[a.Secret]; ok || a.Secret == "" {
		return nil
	}
	return &notifier.Error{Code: notifier.CodeInvalid, Field: "secret",
		Message: fmt.Sprintf("the account has no secret %q; it has %s", a.Secret, strings.Join(slices.Sorted(maps.Keys(s.keys)), ", "))}
}

// request builds the attempt's request, or says why none can be made.
func (s *Sender) request(ctx context.Context, c *channels.Call, now time.Time) (*http.Request, *channels.Result) {
	d := c.Delivery
	name := d.Address.Secret
	if name == "" {
		name = defaultSecret
	}
	keys := s.keys[name]
	if len(keys) == 0 {
		// It was there at acceptance: the account is wrong, not the message.
		return nil, &channels.Result{Outcome: notifier.OutcomeNotSent, Reason: notifier.ReasonBadCredentials,
			ProviderStatus: fmt.Sprintf("the account has no secret %q", name)}
	}
	if err := (Kind{}).CheckAddress(d.Address); err != nil {
		return nil, refuse(notifier.ReasonInvalidAddress, "the address is not one that a webhook can have")
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, d.Address.Value, bytes.NewReader(d.Content))
	if err != nil {
		return nil, refuse(notifier.ReasonInvalidAddress, "the address is not a URL")
	}
	if req.URL.Scheme != "https" && !s.plain {
		return nil, refuse(notifier.ReasonForbiddenAddress, "the address is without TLS")
	}
	if s.via != nil {
		req.Host = req.URL.Host
		req.URL.Scheme, req.URL.Host = s.via.Scheme, s.via.Host
	}
	setHeaders(req.Header, c, keys, now)
	return req, nil
}

func setHeaders(h http.Header, c *channels.Call, keys [][]byte, now time.Time) {
	d := c.Delivery
	id := messageID(d.EffectKey)
	at := strconv.FormatInt(now.Unix(), 10)
	h.Set("Content-Type", "application/json")
	h.Set("User-Agent", "notifier")
	h.Set("Webhook-Id", id)
	h.Set("Webhook-Timestamp", at)
	h.Set("Webhook-Signature", sign(keys, id, at, d.Content))
	// In lower case, since net/http repeats requests that carry the name as it
	// spells it itself.
	h["idempotency-key"] = []string{d.EffectKey}
	h.Set("X-Delivery", d.ID.String())
	h.Set("X-Attempt", strconv.FormatInt(c.Fence, 10))
}

// messageID has 128 bits of the effect key: one id per effect, equal in every
// attempt. It holds no dot, which separates the parts of what is signed.
func messageID(effectKey string) string {
	if len(effectKey) < 32 {
		effectKey = notifier.Child(effectKey)
	}
	return "msg_" + effectKey[:32]
}

// sign returns a signature for each key, the value of the header.
func sign(keys [][]byte, id, at string, body []byte) string {
	signatures := make([]string, 0, len(keys))
	for _, key := range keys {
		mac := hmac.New(sha256.New, key)
		mac.Write([]byte(id + "." + at + "."))
		mac.Write(body)
		signatures = append(signatures, "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	}
	return strings.Join(signatures, " ")
}

func refuse(reason notifier.Reason, status string) *channels.Result {
	return &channels.Result{Outcome: notifier.OutcomeRejected, Reason: reason, ProviderStatus: channels.ShortStatus(status)}
}
