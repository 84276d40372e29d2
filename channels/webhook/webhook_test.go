package webhook

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/seed-4b260dfd/notifier"
	"github.com/seed-4b260dfd/notifier/channels"
)

func secret(b byte) string {
	return "whsec_" + base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{b}, 32))
}

func TestKind_CheckAddress(t *testing.T) {
	t.Parallel()
	for _, good := range []string{"https://example.com", "https://example.com:8443/hook?a=b", "http://10.0.0.1/hook", "https://[2606:4700::1111]/x"} {
		if err := (Kind{}).CheckAddress(notifier.Address{Value: good, Secret: "other"}); err != nil {
			t.Errorf("%q: %v", good, err)
		}
	}
	for _, bad := range []string{"", "example.com", "/hook", "ftp://example.com", "https://", "https:///hook", "https://u:p@example.com", "https://u@example.com",
		"https://example.com/#x", "https://example.com:0", "https://example.com:99999", "https://example.com:x", "https:example.com", "https://exam ple.com",
		"https://example.com/é", "https://example.com/\r\nX: y", "https://" + strings.Repeat("a", 2048), "javascript:alert(1)", "https://:443"} {
		var e *notifier.Error
		if err := (Kind{}).CheckAddress(notifier.Address{Value: bad}); !errors.As(err, &e) || e.Code != notifier.CodeInvalid || e.Field != "url" {
			t.Errorf("%q: got %v, want url to be invalid", bad, err)
		}
	}
}

func TestKind_Prepare(t *testing.T) {
	t.Parallel()
	for want, body := range map[string]any{
		`{"a":"<b> & 🎉","n":1.5}`: map[string]any{"n": 1.5, "a": "<b> & 🎉"},
		`"text"`:                  "text",
		`[1,null]`:                []any{1, nil},
		`false`:                   false,
	} {
		got, err := Kind{}.Prepare(map[string]any{"body": body})
		if err != nil || string(got) != want {
			t.Errorf("%v: got %s, %v, want %s", body, got, err, want)
		}
	}
	for _, fields := range []map[string]any{nil, {"body": nil}, {"body": "x", "subject": "y"}, {"body": make(chan int)}} {
		var e *notifier.Error
		if _, err := (Kind{}).Prepare(fields); !errors.As(err, &e) || e.Code != notifier.CodeTemplateFailed || e.Field == "" {
			t.Errorf("%v: got %v, want template_failed with a field", fields, err)
		}
	}
}

func TestKind_PrepareLimit(t *testing.T) {
	t.Parallel()
	fits := strings.Repeat("🎉", (maxBodyBytes-2)/4) + "ab"
	if got, err := (Kind{}).Prepare(map[string]any{"body": fits}); err != nil || len(got) != maxBodyBytes {
		t.Errorf("got %d bytes and %v, want %d", len(got), err, maxBodyBytes)
	}
	_, err := Kind{}.Prepare(map[string]any{"body": fits + "c"})
	var e *notifier.Error
	if !errors.As(err, &e) || e.Code != notifier.CodePayloadTooLarge {
		t.Fatalf("one byte more gave %v, want payload_too_large", err)
	}
	if diff := cmp.Diff(map[string]any{"channel": "webhook", "size": maxBodyBytes + 1, "limit": maxBodyBytes}, e.Details); diff != "" {
		t.Errorf("details (-want +got):\n%s", diff)
	}
}

func TestConfig_Validate(t *testing.T) {
	t.Parallel()
	short := "whsec_" + base64.StdEncoding.EncodeToString(make([]byte, 23))
	long := "whsec_" + base64.StdEncoding.EncodeToString(make([]byte, 65))
	for _, test := range []struct {
		name   string
		cfg    Config
		fields []string
	}{
		{"good", Config{Secrets: map[string][]string{"default": {secret(1), secret(2)}, "other": {secret(3)}}}, nil},
		{"none", Config{}, []string{"secrets.default"}},
		{"no default", Config{Secrets: map[string][]string{"other": {secret(1)}}}, []string{"secrets.default"}},
		{"bad ones", Config{Secrets: map[string][]string{"a": {}, "default": {"hunter2", "whsec_hunter2", short, secret(1), long}}},
			[]string{"secrets.a", "secrets.default[0]", "secrets.default[1]", "secrets.default[2]", "secrets.default[4]"}},
		{"endpoint", Config{AccountConfig: channels.AccountConfig{Endpoint: "https://proxy.example.com/path"}, Secrets: map[string][]string{"default": {secret(1)}}},
			[]string{"endpoint"}},
		{"common field", Config{AccountConfig: channels.AccountConfig{RetryBudget: new(1.1)}, Secrets: map[string][]string{"default": {secret(1)}}},
			[]string{"retry_budget"}},
	} {
		var fields []string
		for _, e := range test.cfg.Validate() {
			fields = append(fields, e.Field)
			if strings.Contains(e.Error(), "hunter2") {
				t.Errorf("%s: the message quotes a secret: %v", test.name, e)
			}
		}
		if diff := cmp.Diff(test.fields, fields); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.name, diff)
		}
		if _, err := New(test.cfg); (err == nil) != (test.fields == nil) {
			t.Errorf("%s: New gave %v", test.name, err)
		}
	}
}

// receiver is a loopback server that keeps what it was sent.
type receiver struct {
	*httptest.Server
	mu       sync.Mutex
	requests []*http.Request
	bodies   [][]byte
}

func receive(t *testing.T, answer http.HandlerFunc) *receiver {
	t.Helper()
	r := &receiver{}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, err := io.ReadAll(req.Body)
		if err != nil {
			return
		}
		r.mu.Lock()
		r.requests, r.bodies = append(r.requests, req), append(r.bodies, body)
		r.mu.Unlock()
		answer(w, req)
	}))
	t.Cleanup(r.Close)
	return r
}

func newSender(t *testing.T, cfg Config) *Sender {
	t.Helper()
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func private() Config {
	return Config{
		AccountConfig: channels.AccountConfig{AllowPrivate: true},
		Secrets:       map[string][]string{"default": {secret(1), secret(2)}, "other": {secret(3)}},
	}
}

func newDelivery(url string) *notifier.Delivery {
	return &notifier.Delivery{
		ID:        notifier.DeliveryID{Notification: notifier.NewID(time.Unix(1764553976, 0), 1, [8]byte{1}), Ordinal: 2},
		Address:   notifier.Address{Value: url},
		Content:   notifier.Content(`{"event":"paid","note":"<é>"}`),
		EffectKey: notifier.EffectKey("t", "k", notifier.ChannelWebhook, url),
	}
}

func send(t *testing.T, s *Sender, d *notifier.Delivery, fence int64) channels.Result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	return s.Send(ctx, &channels.Call{Delivery: d, Fence: fence, Guard: &channels.Guard{}})
}

func verifies(t *testing.T, secret string, body []byte, h http.Header) bool {
	t.Helper()
	hook, err := standardwebhooks.NewWebhook(secret)
	if err != nil {
		t.Fatal(err)
	}
	return hook.Verify(body, h) == nil
}

func TestSender_Request(t *testing.T) {
	t.Parallel()
	r := receive(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusAccepted) })
	s := newSender(t, private())
	d := newDelivery(r.URL + "/hook?a=b")
	if got, want := send(t, s, d, 7), (channels.Result{Outcome: notifier.OutcomeSent, ProviderStatus: "202"}); got != want {
		t.Fatalf("got %+v, want %+v", got, want)
	}
	named := *d
	named.Address.Secret = "other"
	if got := send(t, s, &named, 8); got.Outcome != notifier.OutcomeSent {
		t.Fatalf("got %+v, want sent", got)
	}
	h := r.requests[0].Header
	for name, want := range map[string]string{
		"Content-Type": "application/json", "Webhook-Id": "msg_" + d.EffectKey[:32], "Idempotency-Key": d.EffectKey,
		"X-Delivery": d.ID.String(), "X-Attempt": "7",
	} {
		if got := h.Get(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if !bytes.Equal(r.bodies[0], d.Content) || r.requests[0].URL.RequestURI() != "/hook?a=b" || r.requests[0].Method != http.MethodPost {
		t.Errorf("got %s %s with %s", r.requests[0].Method, r.requests[0].URL, r.bodies[0])
	}
	// While one secret replaces another, each of the two alone verifies.
	for b, want := range map[byte]bool{1: true, 2: true, 3: false, 4: false} {
		if got := verifies(t, secret(b), r.bodies[0], h); got != want {
			t.Errorf("secret %d: verified %v, want %v", b, got, want)
		}
		if got := verifies(t, secret(b), r.bodies[1], r.requests[1].Header); got != (b == 3) {
			t.Errorf("secret %d for an address that names another: verified %v", b, got)
		}
	}
	if verifies(t, secret(1), append(r.bodies[0], ' '), h) {
		t.Error("another body verified")
	}
}

func TestSender_Endpoint(t *testing.T) {
	t.Parallel()
	r := receive(t, func(http.ResponseWriter, *http.Request) {})
	cfg := private()
	cfg.Endpoint = r.URL + "/"
	s := newSender(t, cfg)
	if got := send(t, s, newDelivery("https://shop.example.com/hook?a=b"), 1); got.Outcome != notifier.OutcomeSent {
		t.Fatalf("got %+v, want sent", got)
	}
	if req := r.requests[0]; req.Host != "shop.example.com" || req.URL.RequestURI() != "/hook?a=b" {
		t.Errorf("got %s for host %s", req.URL, req.Host)
	}
}

// What an account on the public internet does not connect to has received nothing.
func TestSender_ForbiddenAddress(t *testing.T) {
	t.Parallel()
	r := receive(t, func(http.ResponseWriter, *http.Request) { t.Error("a request arrived") })
	port := r.URL[strings.LastIndex(r.URL, ":"):]
	cfg := private()
	cfg.AllowPrivate = false
	s := newSender(t, cfg)
	for _, url := range []string{"https://127.0.0.1" + port, "https://localhost" + port + "/hook", "https://[::1]" + port, "https://[::ffff:127.0.0.1]" + port,
		"https://10.0.0.1", "https://169.254.169.254/latest", r.URL, "http://example.com"} {
		got := send(t, s, newDelivery(url), 1)
		if got.Outcome != notifier.OutcomeRejected || got.Reason != notifier.ReasonForbiddenAddress || got.ProviderStatus == "" {
			t.Errorf("%s: got %+v, want rejected, forbidden_address", url, got)
		}
	}
}

func TestSender_CannotBeMade(t *testing.T) {
	t.Parallel()
	s := newSender(t, private())
	d := newDelivery("https://example.com")
	d.Address.Secret = "unheard-of"
	if got := send(t, s, d, 1); got.Outcome != notifier.OutcomeNotSent || got.Reason != notifier.ReasonBadCredentials || !strings.Contains(got.ProviderStatus, "unheard-of") {
		t.Errorf("got %+v, want not_sent, bad_credentials, with the secret's name", got)
	}
	var wrong *notifier.Error
	if err := s.CheckAddress(d.Address); !errors.As(err, &wrong) || wrong.Code != notifier.CodeInvalid || wrong.Field != "secret" {
		t.Errorf("got %v of an address with that secret, want invalid at secret", err)
	}
	d.Address.Secret = defaultSecret
	if err := s.CheckAddress(d.Address); err != nil {
		t.Errorf("got %v of an address with a secret of the account", err)
	}
	if got := send(t, s, newDelivery("https://u:p@example.com"), 1); got.Outcome != notifier.OutcomeRejected || got.Reason != notifier.ReasonInvalidAddress ||
		strings.Contains(got.ProviderStatus, "u:p") {
		t.Errorf("got %+v, want rejected, invalid_address, without the password", got)
	}
}

func TestRead(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for status := 200; status < 600; status++ {
		got := read(&channels.Answer{Status: status, Header: http.Header{"Retry-After": {"9"}}}, now)
		want := channels.Result{ProviderStatus: fmt.Sprint(status), RetryAfter: 9 * time.Second}
		switch {
		case status < 300:
			want.Outcome = notifier.OutcomeSent
		case status == 408, status == 409, status >= 500:
			want.Outcome, want.Reason = notifier.OutcomeUnknown, notifier.ReasonProviderError
		case status == 410:
			want.Outcome, want.Reason = notifier.OutcomeInvalidAddress, notifier.ReasonInvalidAddress
		case status == 413:
			want.Outcome, want.Reason = notifier.OutcomeRejected, notifier.ReasonBadContent
		case status == 425, status == 429:
			want.Outcome, want.Reason = notifier.OutcomeNotSent, notifier.ReasonThrottled
		default:
			want.Outcome, want.Reason = notifier.OutcomeRejected, notifier.ReasonRefused
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%d (-want +got):\n%s", status, diff)
		}
	}
}

func TestMessageID(t *testing.T) {
	t.Parallel()
	key := notifier.Child("a")
	if got := messageID(key); got != "msg_"+key[:32] {
		t.Errorf("got %q", got)
	}
	if got := messageID("short.key"); len(got) != 36 || strings.Contains(got, ".") {
		t.Errorf("got %q, want an id of 36 bytes without a dot", got)
	}
}
