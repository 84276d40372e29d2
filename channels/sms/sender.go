package sms

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/seed-4b260dfd/notifier"
	"github.com/seed-4b260dfd/notifier/channels"
)

// Sender sends through one account.
type Sender struct {
	client *http.Client
	cfg    Config
	// named says that our ids go along in headers. Twilio has no use for them;
	// what stands in for Twilio writes them into its log.
	named bool
}

// New returns the account's sender. It connects to nothing.
func New(cfg Config) (*Sender, error) {
	if wrong := cfg.Validate(); len(wrong) > 0 {
		return nil, wrong[0]
	}
	hc, err := channels.NewClient(cfg.AccountConfig, channels.HTTP1)
	if err != nil {
		return nil, err
	}
	return &Sender{client: hc, cfg: cfg, named: cfg.Endpoint != ""}, nil
}

// Close lets idle connections go.
func (s *Sender) Close() error {
	s.client.CloseIdleConnections()
	return nil
}

// Send makes one request.
func (s *Sender) Send(ctx context.Context, c *channels.Call) channels.Result {
	var stored content
	if err := json.Unmarshal(c.Delivery.Content, &stored); err != nil || stored.Text == "" {
		return refuse(notifier.ReasonBadContent, "the stored content is not a text message")
	}
	if err := (Kind{}).CheckAddress(c.Delivery.Address); err != nil {
		return refuse(notifier.ReasonInvalidAddress, "the address is not a number")
	}
	form := s.form(c.Delivery, stored.Text, time.Now())
	req, err := http.NewRequestWithContext(channels.WithGuard(ctx, c.Guard), http.MethodPost,
		s.cfg.resource()+"/Messages.json", strings.NewReader(form.Encode()))
	if err != nil {
		return refuse(notifier.ReasonRefused, "no request can be made of it")
	}
	s.authorize(req)
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if s.named {
		req.Header.Set("X-Delivery", c.Delivery.ID.String())
		req.Header.Set("X-Attempt", strconv.FormatInt(c.Fence, 10))
	}
	resp, err := s.client.Do(req)
	if err == nil {
		resp.Body.Close()
	}
	if a := c.Guard.Answer(); a != nil {
		return read(a, time.Now())
	}
	return channels.TransportResult(err, c.Guard)
}

func (s *Sender) authorize(req *http.Request) {
	req.SetBasicAuth(s.cfg.AccountSID, s.cfg.AuthToken)
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", "notifier")
}

// form is the request. All of it but the time that is left is equal in every
// attempt.
// https://www.twilio.com/docs/messaging/api/message-resource#create-a-message-resource
func (s *Sender) form(d *notifier.Delivery, text string, now time.Time) url.Values {
	form := url.Values{
		"To":             {d.Address.Value},
		"Body":           {text},
		"ValidityPeriod": {strconv.Itoa(validity(d.ExpiresAt.Sub(now)))},
		// Otherwise a messaging service may put other characters in place of
		// some: the segments would be others than we have counted, and a
		// look-up would not find the text.
		"SmartEncoded": {"false"},
	}
	if serviceSID.MatchString(s.cfg.From) {
		form.Set("MessagingServiceSid", s.cfg.From)
	} else {
		form.Set("From", s.cfg.From)
	}
	if s.cfg.ReceiptURL != "" {
		form.Set("StatusCallback", s.cfg.ReceiptURL+"?"+deliveryParameter+"="+url.QueryEscape(d.ID.String()))
	}
	return form
}

// The shortest and the longest that a message may wait at Twilio, in seconds.
// https://www.twilio.com/docs/api/errors/21624
const minValidity, maxValidity = 1, 36_000

// validity is what is left until the expiry, in whole seconds that Twilio
// takes. A message that expires later waits ten hours at most.
func validity(left time.Duration) int {
	return int(min(max(left/time.Second, minValidity), maxValidity))
}

func refuse(reason notifier.Reason, status string) channels.Result {
	return channels.Result{Outcome: notifier.OutcomeRejected, Reason: reason, ProviderStatus: status}
}
