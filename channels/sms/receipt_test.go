package sms_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-4b260dfd/notifier"
	"github.com/seed-4b260dfd/notifier/channels"
	"github.com/seed-4b260dfd/notifier/channels/simulate"
	"github.com/seed-4b260dfd/notifier/channels/sms"
)

const (
	receiptToken = "12345"
	receiptSID   = "AC0123456789abcdef0123456789abcdef"
)

func receiver(t *testing.T) *sms.Sender {
	t.Helper()
	return openAs(t, sms.Config{Provider: "twilio", AccountSID: receiptSID, AuthToken: receiptToken, From: "Shop"})
}

func signed(callback string, form url.Values) http.Header {
	h := http.Header{}
	h.Set("X-Twilio-Signature", simulate.TwilioSignature(receiptToken, callback, form))
	return h
}

// The example of Twilio's page on security, computed there.
// https://www.twilio.com/docs/usage/security#validating-requests
func TestReceipts_KnownSignature(t *testing.T) {
	t.Parallel()
	form := url.Values{"CallSid": {"CA1234567890ABCDE"}, "Caller": {"+14158675309"}, "Digits": {"1234"}, "From": {"+14158675309"}, "To": {"+18005551212"}}
	const callback, signature = "https://mycompany.com/myapp.php?foo=1&bar=2", "RSOYDt4T1cUTdK1PDd93/VVr8B8="
	if got := simulate.TwilioSignature(receiptToken, callback, form); got != signature {
		t.Errorf("the simulator signs %s, want %s", got, signature)
	}
	_, err := receiver(t).Receipts(callback, http.Header{"X-Twilio-Signature": {signature}}, []byte(form.Encode()))
	var e *notifier.Error
	if !errors.As(err, &e) || e.Code != notifier.CodeInvalid || e.Field != "delivery" {
		t.Errorf("got %v, want the signature to hold and the delivery to be missing", err)
	}
}

func TestReceipts_States(t *testing.T) {
	t.Parallel()
	r := receiver(t)
	d := delivery(t, "+15555550100", "a")
	callback := "https://notify.example.com/v1/receipts/sms.main?delivery=" + d.ID.String()
	for _, test := range []struct {
		status, code string
		state        notifier.State
		reason       notifier.Reason
	}{
		{"accepted", "", notifier.StateSent, notifier.ReasonNone},
		{"scheduled", "", notifier.StateSent, notifier.ReasonNone},
		{"queued", "", notifier.StateSent, notifier.ReasonNone},
		{"sending", "", notifier.StateSent, notifier.ReasonNone},
		{"sent", "", notifier.StateSent, notifier.ReasonNone},
		{"delivered", "", notifier.StateDelivered, notifier.ReasonNone},
		{"read", "", notifier.StateDelivered, notifier.ReasonNone},
		{"partially_delivered", "", notifier.StateDelivered, notifier.ReasonNone},
		{"undelivered", "30003", notifier.StateRejected, notifier.ReasonRefused},
		{"undelivered", "30005", notifier.StateRejected, notifier.ReasonInvalidAddress},
		{"undelivered", "30006", notifier.StateRejected, notifier.ReasonInvalidAddress},
		{"undelivered", "30007", notifier.StateRejected, notifier.ReasonRefused},
		{"undelivered", "30008", notifier.StateRejected, notifier.ReasonRefused},
		{"failed", "21610", notifier.StateRejected, notifier.ReasonInvalidAddress},
		{"failed", "21408", notifier.StateRejected, notifier.ReasonRefused},
		{"failed", "", notifier.StateRejected, notifier.ReasonRefused},
		{"canceled", "", notifier.StateRejected, notifier.ReasonRefused},
		{"received", "", "", ""},
		{"a word to come", "", "", ""},
	} {
		form := url.Values{"MessageSid": {"SM1"}, "MessageStatus": {test.status}, "To": {"+15555550100"}}
		want := channels.Receipt{Delivery: d.ID, State: test.state, Reason: test.reason, ProviderStatus: test.status, ProviderID: "SM1"}
		if test.code != "" {
			form.Set("ErrorCode", test.code)
			want.ProviderStatus += " " + test.code
		}
		got, err := r.Receipts(callback, signed(callback, form), []byte(form.Encode()))
		if err != nil {
			t.Errorf("%s %s: %v", test.status, test.code, err)
		}
		all := []channels.Receipt{want}
		if test.state == "" {
			all = nil
		}
		if diff := cmp.Diff(all, got); diff != "" {
			t.Errorf("%s %s (-want +got):\n%s", test.status, test.code, diff)
		}
	}
}

func TestReceipts_Refused(t *testing.T) {
	t.Parallel()
	r := receiver(t)
	callback := "https://notify.example.com/v1/receipts/sms.main?delivery=" + delivery(t, "+15555550100", "a").ID.String()
	form := url.Values{"MessageSid": {"SM1"}, "MessageStatus": {"delivered"}}
	more := url.Values{"MessageSid": {"SM1"}, "MessageStatus": {"delivered"}, "ErrorCode": {"1"}}
	other := strings.Replace(callback, "dlv_0", "dlv_1", 1)
	elsewhere := "https://notify.example.com/v1/receipts/sms.main?delivery=dlv_1"
	without := url.Values{"MessageSid": {"SM1"}}
	for name, test := range map[string]struct {
		callback string
		header   http.Header
		form     url.Values
		code     notifier.Code
		field    string
	}{
		"no signature":      {callback, http.Header{}, form, notifier.CodeUnauthenticated, ""},
		"not base64":        {callback, http.Header{"X-Twilio-Signature": {"*"}}, form, notifier.CodeUnauthenticated, ""},
		"too short":         {callback, http.Header{"X-Twilio-Signature": {"AAAA"}}, form, notifier.CodeUnauthenticated, ""},
		"another body":      {callback, signed(callback, form), more, notifier.CodeUnauthenticated, ""},
		"another delivery":  {other, signed(callback, form), form, notifier.CodeUnauthenticated, ""},
		"another URL":       {strings.Replace(callback, "sms.main", "sms.other", 1), signed(callback, form), form, notifier.CodeUnauthenticated, ""},
		"not a delivery":    {elsewhere, signed(elsewhere, form), form, notifier.CodeInvalid, "delivery"},
		"without a status":  {callback, signed(callback, without), without, notifier.CodeInvalid, "MessageStatus"},
		"signed by another": {callback, http.Header{"X-Twilio-Signature": {simulate.TwilioSignature("other", callback, form)}}, form, notifier.CodeUnauthenticated, ""},
	} {
		_, err := r.Receipts(test.callback, test.header, []byte(test.form.Encode()))
		var e *notifier.Error
		if !errors.As(err, &e) || e.Code != test.code || e.Field != test.field || strings.Contains(e.Message, receiptToken) {
			t.Errorf("%s: got %v, want %s on %q", name, err, test.code, test.field)
		}
	}
	var e *notifier.Error
	if _, err := r.Receipts(callback, http.Header{}, []byte("%zz")); !errors.As(err, &e) || e.Code != notifier.CodeInvalid {
		t.Errorf("got %v, want the body to be refused", err)
	}
}

// Twilio names the port or leaves it out, whatever it was given.
func TestReceipts_Port(t *testing.T) {
	t.Parallel()
	r := receiver(t)
	query := "/v1/receipts/sms.main?delivery=" + delivery(t, "+15555550100", "a").ID.String()
	form := url.Values{"MessageStatus": {"delivered"}}
	for _, test := range []struct {
		ours, theirs string
		ok           bool
	}{
		{"https://example.com", "https://example.com:443", true},
		{"https://example.com:8443", "https://example.com", true},
		{"http://[::1]", "http://[::1]:80", true},
		{"http://[::1]:8080", "http://[::1]", true},
		{"https://example.com", "https://example.com:8443", false},
		{"https://example.com", "http://example.com", false},
	} {
		got, err := r.Receipts(test.ours+query, signed(test.theirs+query, form), []byte(form.Encode()))
		if (err == nil && len(got) == 1) != test.ok {
			t.Errorf("ours %s, theirs %s: got %v, %v", test.ours, test.theirs, got, err)
		}
	}
}

// The simulated provider calls back about every message that it took, the
// lost replies included, and what it says is read.
func TestReceipts_FromTheProvider(t *testing.T) {
	t.Parallel()
	type got struct {
		receipt channels.Receipt
		at      string
	}
	for name, test := range map[string]struct {
		to    string
		fault simulate.Fault
		want  []string
	}{
		"delivered":       {"+15555550100", simulate.Fault{}, []string{"sent queued", "sent sent", "delivered delivered"}},
		"reply dropped":   {"+15555550100", simulate.Fault{Kind: simulate.FaultDropReply}, []string{"sent queued", "sent sent", "delivered delivered"}},
		"unknown handset": {"+15005553005", simulate.Fault{}, []string{"sent queued", "sent sent", "rejected undelivered 30005 invalid_address"}},
		"dies later": {"+15555550100", simulate.Fault{Kind: simulate.FaultDeadToken, Reason: "30006"},
			[]string{"sent queued", "sent sent", "rejected undelivered 30006 invalid_address"}},
		"filtered": {"+15555550100", simulate.Fault{Kind: simulate.FaultReceipt, Reason: "undelivered 30007", Delay: time.Millisecond},
			[]string{"sent queued", "sent sent", "rejected undelivered 30007 refused"}},
		"no more than queued": {"+15555550100", simulate.Fault{Kind: simulate.FaultReceipt, Reason: "queued"}, []string{"sent queued"}},
		"503 and delivered": {"+15555550100", simulate.Fault{Kind: simulate.FaultStatus, Status: 503, Effect: new(true)},
			[]string{"sent queued", "sent sent", "delivered delivered"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := startProvider(t)
			c := config(s)
			var sender *sms.Sender
			all := make(chan got, 8)
			public := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				body, err := io.ReadAll(r.Body)
				if err != nil {
					t.Error(err)
				}
				receipts, err := sender.Receipts(c.ReceiptURL+"?"+r.URL.RawQuery, r.Header, body)
				if err != nil || len(receipts) != 1 {
					t.Errorf("got %v, %v", receipts, err)
					receipts = make([]channels.Receipt, 1)
				}
				all <- got{receipts[0], r.URL.Path}
			}))
			c.ReceiptURL = "http://" + public.Listener.Addr().String() + "/v1/receipts/sms.main"
			sender = openAs(t, c)
			public.Start()
			t.Cleanup(public.Close)
			if test.fault.Kind != "" {
				test.fault.Channel, test.fault.Times = "sms", 1
				s.SetFaults([]simulate.Fault{test.fault})
			}
			d := delivery(t, test.to, "a")
			attempt(t, sender, d, 1)
			var said []string
			for range test.want {
				g := <-all
				said = append(said, strings.TrimSpace(strings.Join([]string{string(g.receipt.State), g.receipt.ProviderStatus, string(g.receipt.Reason)}, " ")))
				if g.receipt.Delivery != d.ID || !strings.HasPrefix(g.receipt.ProviderID, "SM") || g.at != "/v1/receipts/sms.main" {
					t.Errorf("got %+v at %s", g.receipt, g.at)
				}
			}
			if !slices.Equal(said, test.want) {
				t.Errorf("got %q, want %q", said, test.want)
			}
		})
	}
}
