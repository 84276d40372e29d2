package sms_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-4b260dfd/notifier"
	"github.com/seed-4b260dfd/notifier/channels"
	"github.com/seed-4b260dfd/notifier/channels/simulate"
	"github.com/seed-4b260dfd/notifier/channels/sms"
)

// startProvider is a simulated provider of the test's own.
func startProvider(t *testing.T) *simulate.Server {
	t.Helper()
	s, err := simulate.Start(simulate.Config{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return s
}

// delivery is one to a number.
func delivery(t *testing.T, number, text string) *notifier.Delivery {
	t.Helper()
	content, err := sms.Kind{}.Prepare(map[string]any{"text": text})
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	return &notifier.Delivery{ID: notifier.DeliveryID{Notification: notifier.NewID(now, 1, [8]byte{7}), Ordinal: 2},
		Lane: notifier.Lane{Channel: notifier.ChannelSMS, Account: "main"}, Address: notifier.Address{Value: number}, Content: content,
		EffectKey: "effect", AcceptedAt: now, ExpiresAt: now.Add(time.Hour)}
}

func attempt(t *testing.T, s *sms.Sender, d *notifier.Delivery, fence int64) channels.Result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	return s.Send(ctx, &channels.Call{Delivery: d, Fence: fence, Guard: &channels.Guard{}})
}

const validity = "ValidityPeriod"

func TestSender_Request(t *testing.T) {
	t.Parallel()
	type request struct {
		Method, Path, User, Password, Type, Delivery, Attempt string
		Form                                                  url.Values
	}
	seen := make(chan request, 2)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		form, err := url.ParseQuery(string(body))
		if err != nil {
			t.Errorf("body %q: %v", body, err)
		}
		user, password, _ := r.BasicAuth()
		seen <- request{r.Method, r.URL.RequestURI(), user, password, r.Header.Get("Content-Type"), r.Header.Get("X-Delivery"), r.Header.Get("X-Attempt"), form}
		w.WriteHeader(http.StatusCreated)
	}))
	t.Cleanup(server.Close)
	const sid, service = "AC0123456789abcdef0123456789abcdef", "MG0123456789abcdef0123456789abcdef"
	const text = "a&To=+1\r\nb=100%25 {{.x}} \u2028 +é🎉"
	for from, name := range map[string]string{"Shop & Co": "From", service: "MessagingServiceSid"} {
		sender := openAs(t, sms.Config{AccountConfig: channels.AccountConfig{Endpoint: server.URL + "/", AllowPrivate: true}, Provider: "twilio",
			AccountSID: sid, AuthToken: "secret", From: from, ReceiptURL: "https://notify.example.com/v1/receipts/sms.main"})
		d := delivery(t, "+15555550100", text)
		d.ExpiresAt = time.Now().Add(90 * time.Hour)
		if got := attempt(t, sender, d, 7); got.Outcome != notifier.OutcomeSent {
			t.Errorf("got %+v, want sent", got)
		}
		want := request{"POST", "/2010-04-01/Accounts/" + sid + "/Messages.json", sid, "secret", "application/x-www-form-urlencoded", d.ID.String(), "7",
			url.Values{"To": {"+15555550100"}, name: {from}, "Body": {text}, validity: {"36000"}, "SmartEncoded": {"false"},
				"StatusCallback": {"https://notify.example.com/v1/receipts/sms.main?delivery=" + d.ID.String()}}}
		if diff := cmp.Diff(want, <-seen); diff != "" {
			t.Errorf("request (-want +got):\n%s", diff)
		}
		if err := sender.Close(); err != nil {
			t.Error(err)
		}
	}
}

// What is left until the expiry goes along, and never a time that Twilio refuses.
func TestSender_Validity(t *testing.T) {
	t.Parallel()
	seen := make(chan string, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen <- r.FormValue(validity)
		w.WriteHeader(http.StatusCreated)
	}))
	t.Cleanup(server.Close)
	sender := openAs(t, sms.Config{AccountConfig: channels.AccountConfig{Endpoint: server.URL, AllowPrivate: true}, Provider: "twilio",
		AccountSID: "AC0123456789abcdef0123456789abcdef", AuthToken: "secret", From: "Shop"})
	for left, want := range map[time.Duration]string{
		-time.Hour: "1", time.Millisecond: "1", time.Hour + 30*time.Second: "36", 10*time.Hour + time.Minute: "36000", 1000 * time.Hour: "36000",
	} {
		d := delivery(t, "+15555550100", "a")
		d.ExpiresAt = time.Now().Add(left)
		attempt(t, sender, d, 1)
		if got := <-seen; got != want && !(want == "36" && strings.HasPrefix(got, "36") && len(got) == 4) {
			t.Errorf("%v left: got %s, want %s", left, got, want)
		}
	}
}

func TestSender_WhatIsStoredIsNoMessage(t *testing.T) {
	t.Parallel()
	s := startProvider(t)
	sender := openAs(t, config(s))
	for name, edit := range map[string]func(*notifier.Delivery){
		"content": func(d *notifier.Delivery) { d.Content = nil },
		"empty":   func(d *notifier.Delivery) { d.Content = []byte(`{"text":""}`) },
		"address": func(d *notifier.Delivery) { d.Address.Value = "Ann" },
	} {
		d := delivery(t, "+15555550100", "a")
		edit(d)
		if got := attempt(t, sender, d, 1); got.Outcome != notifier.OutcomeRejected || strings.Contains(got.ProviderStatus, "Ann") {
			t.Errorf("%s: got %+v, want it rejected", name, got)
		}
	}
	if all := s.Effects(); len(all) != 0 {
		t.Errorf("the provider received %+v", all)
	}
}

// The numbers of Twilio's test credentials, and wrong accounts.
func TestSender_Numbers(t *testing.T) {
	t.Parallel()
	const dead, rejected, notSent = notifier.OutcomeInvalidAddress, notifier.OutcomeRejected, notifier.OutcomeNotSent
	for name, test := range map[string]struct {
		to      string
		edit    func(*sms.Config)
		status  string
		outcome notifier.Outcome
		reason  notifier.Reason
	}{
		"not a number":     {"+15005550001", nil, "400 21211", dead, notifier.ReasonInvalidAddress},
		"no route":         {"+15005550002", nil, "400 21612", rejected, notifier.ReasonRefused},
		"country":          {"+15005550003", nil, "400 21408", rejected, notifier.ReasonRefused},
		"STOP":             {"+15005550004", nil, "400 21610", dead, notifier.ReasonInvalidAddress},
		"landline":         {"+15005550009", nil, "400 21614", dead, notifier.ReasonInvalidAddress},
		"sender not ours":  {"+15555550100", func(c *sms.Config) { c.From = "+15005550007" }, "400 21606", rejected, notifier.ReasonRefused},
		"sender's queue":   {"+15555550100", func(c *sms.Config) { c.From = "+15005550008" }, "400 21611", notSent, notifier.ReasonThrottled},
		"alphanumeric":     {"+15555550100", func(c *sms.Config) { c.From = "Shop" }, "201", notifier.OutcomeSent, notifier.ReasonNone},
		"service":          {"+15555550100", func(c *sms.Config) { c.From = "MG0123456789abcdef0123456789abcdef" }, "201", notifier.OutcomeSent, notifier.ReasonNone},
		"token replaced":   {"+15555550100", func(c *sms.Config) { c.AuthToken = "old" }, "401 20003", notSent, notifier.ReasonBadCredentials},
		"account not ours": {"+15555550100", func(c *sms.Config) { c.AccountSID = "AC" + strings.Repeat("0", 32) }, "", notSent, notifier.ReasonBadCredentials},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := startProvider(t)
			c := config(s)
			if test.edit != nil {
				test.edit(&c)
			}
			got := attempt(t, openAs(t, c), delivery(t, test.to, "a"), 1)
			if got.Outcome != test.outcome || got.Reason != test.reason || test.status != "" && got.ProviderStatus != test.status {
				t.Errorf("got %+v, want %v, %s, %s", got, test.outcome, test.reason, test.status)
			}
			if (got.ProviderID != "") != (test.outcome == notifier.OutcomeSent) {
				t.Errorf("got the id %q", got.ProviderID)
			}
		})
	}
}

func TestSender_Check(t *testing.T) {
	t.Parallel()
	s := startProvider(t)
	if err := openAs(t, config(s)).Check(t.Context()); err != nil {
		t.Error(err)
	}
	for want, edit := range map[string]func(*sms.Config){
		"401 20003": func(c *sms.Config) { c.AuthToken = "not-the-token" },
		"refused":   func(c *sms.Config) { c.Endpoint = "http://127.0.0.1:1" },
	} {
		c := config(s)
		edit(&c)
		if err := openAs(t, c).Check(t.Context()); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), c.AuthToken) {
			t.Errorf("got %v, want %s in it", err, want)
		}
	}
	suspended := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{"status":"suspended"}`) }))
	t.Cleanup(suspended.Close)
	c := config(s)
	c.Endpoint = suspended.URL
	if err := openAs(t, c).Check(t.Context()); err == nil || !strings.Contains(err.Error(), `"suspended"`) {
		t.Errorf("got %v, want it to say that the account is suspended", err)
	}
	if all := s.Effects(); len(all) != 0 {
		t.Errorf("a check made %+v", all)
	}
}
