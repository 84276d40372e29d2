package sms

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/seed-4b260dfd/notifier"
	"github.com/seed-4b260dfd/notifier/channels"
)

const (
	// A page of ten messages of the longest kind stays below what is read of
	// an answer. What one number was sent since the attempt fits into few.
	lookupPage  = 10
	lookupPages = 10
	// clockSlack is how far Twilio's clock may be behind ours.
	clockSlack = time.Minute
	// dateLayout is that of the resource's times (RFC 2822, in GMT).
	dateLayout = "Mon, 02 Jan 2006 15:04:05 -0700"
)

// message is what a list has of one message.
type message struct {
	SID         string `json:"sid"`
	To          string `json:"to"`
	Body        string `json:"body"`
	Status      string `json:"status"`
	Direction   string `json:"direction"`
	ErrorCode   *int   `json:"error_code"`
	DateCreated string `json:"date_created"`
}

// Lookup asks for the messages to the delivery's number and looks for its text
// among those made since. Twilio's list knows no id of ours: two deliveries of
// one text to one number at about one time cannot be told apart by it.
// https://www.twilio.com/docs/messaging/api/message-resource#read-multiple-message-resources
func (s *Sender) Lookup(ctx context.Context, d *notifier.Delivery, since time.Time) (channels.Found, error) {
	var stored content
	if err := json.Unmarshal(d.Content, &stored); err != nil || stored.Text == "" {
		return channels.Found{}, errors.New("look up a text message: the stored content is none")
	}
	since = since.Add(-clockSlack)
	q := url.Values{"To": {d.Address.Value}, "DateSent>": {since.UTC().Format(time.DateOnly)}, "PageSize": {strconv.Itoa(lookupPage)}}
	if !serviceSID.MatchString(s.cfg.From) {
		q.Set("From", s.cfg.From)
	}
	next := s.cfg.resource() + "/Messages.json?" + q.Encode()
	var found channels.Found
	for page := 0; next != ""; page++ {
		if page == lookupPages {
			return channels.Found{}, fmt.Errorf("look up a text message: more than %d messages to this number", lookupPages*lookupPage)
		}
		var list struct {
			Messages []message `json:"messages"`
			Next     *string   `json:"next_page_uri"`
		}
		if err := s.get(ctx, next, &list); err != nil {
			return channels.Found{}, fmt.Errorf("look up a text message: %w", err)
		}
		for i := range list.Messages {
			m := &list.Messages[i]
			if !m.isOf(d, stored.Text, since) {
				continue
			}
			found = channels.Found{Sent: true, ProviderID: channels.ShortStatus(m.SID), ProviderStatus: channels.ShortStatus(m.status())}
			if state, _ := stateOf(m.Status, 0); state != notifier.StateRejected {
				return found, nil // one that failed is only the answer when there is no better
			}
		}
		var err error
		if next, err = s.following(list.Next); err != nil {
			return channels.Found{}, fmt.Errorf("look up a text message: %w", err)
		}
	}
	return found, nil
}

// isOf reports whether the message can be the delivery's. A time that cannot
// be read proves nothing.
func (m *message) isOf(d *notifier.Delivery, text string, since time.Time) bool {
	created, err := time.Parse(dateLayout, m.DateCreated)
	return err == nil && !created.Before(since.Truncate(time.Second)) && m.Body == text && m.To == d.Address.Value && !strings.HasPrefix(m.Direction, "inbound")
}

func (m *message) status() string {
	if m.ErrorCode == nil {
		return m.Status
	}
	return statusWith(m.Status, *m.ErrorCode)
}

// following is the URL of the next page, which stays within the account's own
// list: the token goes nowhere else.
func (s *Sender) following(next *string) (string, error) {
	if next == nil || *next == "" {
		return "", nil
	}
	path := apiVersion + "/Accounts/" + s.cfg.AccountSID
	rest, ok := strings.CutPrefix(*next, path)
	if !ok || !strings.HasPrefix(rest, "/Messages.json?") {
		return "", errors.New("the list goes on outside the account")
	}
	return s.cfg.resource() + rest, nil
}

// get reads a resource. Nothing is sent by it, so it has a guard of its own.
func (s *Sender) get(ctx context.Context, from string, into any) error {
	g := &channels.Guard{}
	req, err := http.NewRequestWithContext(channels.WithGuard(ctx, g), http.MethodGet, from, nil)
	if err != nil {
		return errors.New("no request can be made of it")
	}
	s.authorize(req)
	resp, err := s.client.Do(req)
	if err == nil {
		resp.Body.Close()
	}
	a := g.Answer()
	switch {
	case a == nil:
		// The error of the client has the URL in it, with the number.
		return &statusError{channels.TransportResult(err, g)}
	case a.Status != http.StatusOK:
		return &statusError{read(a, time.Now())}
	case a.Err != nil:
		return fmt.Errorf("the answer was cut: %w", a.Err)
	}
	if err := json.Unmarshal(a.Body, into); err != nil {
		return errors.New("the answer cannot be read as JSON")
	}
	return nil
}

// statusError is an answer that was not the resource, or that there was none.
type statusError struct{ channels.Result }

// Error is why, and the provider's status with its error code.
func (e *statusError) Error() string { return string(e.Reason) + ": " + e.ProviderStatus }
