package api

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-4b260dfd/notifier"
)

func TestPost_Accepted(t *testing.T) {
	t.Parallel()
	s := newService()
	s.ignored = []string{"to.email"}
	w := s.do("POST", "/v1/notifications", shipped, "Idempotency-Key", "order-42/shipped")
	n := wantNotification(t, w, http.StatusAccepted)
	if n.Key != "order-42/shipped" || n.State != notifier.StatePending {
		t.Errorf("got key %q, state %q", n.Key, n.State)
	}
	if got, want := w.Header().Get("Location"), "/v1/notifications/"+n.ID.String(); got != want {
		t.Errorf("got location %q, want %q", got, want)
	}
	if diff := cmp.Diff([]string{"to.email"}, n.Ignored); diff != "" {
		t.Errorf("ignored (-want +got):\n%s", diff)
	}
	if w.Header().Get("Idempotent-Replayed") != "" {
		t.Error("a first copy is called a replay")
	}
	if s.last.Tenant != DefaultTenant {
		t.Errorf("got tenant %q, want %q", s.last.Tenant, DefaultTenant)
	}
	again := s.do("GET", w.Header().Get("Location"), "")
	if got := wantNotification(t, again, http.StatusOK); got.ID != n.ID {
		t.Errorf("the location shows %s, want %s", got.ID, n.ID)
	}
}

// The resource has lists where callers expect lists, and null only for times.
func TestPost_ResourceShape(t *testing.T) {
	t.Parallel()
	w := newService().do("POST", "/v1/notifications", shipped, "Idempotency-Key", "k")
	var got map[string]any
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	id, _ := got["id"].(string)
	delivery, _ := got["deliveries"].([]any)[0].(map[string]any)
	want := map[string]any{"id": id, "key": "k", "type": "order_shipped", "recipient": "u_42", "state": "pending",
		"counts": map[string]any{"pending": 1.}, "order": "send_first", "policy_version": "sha256:00",
		"accepted_at": "0001-01-01T00:00:00Z", "expires_at": "0001-01-01T00:00:00Z", "repeats": 0.,
		"deliveries": []any{map[string]any{"id": delivery["id"], "channel": "apns", "account": "", "address": "740f…19e7",
			"state": "pending", "reason": "due", "possible_effects": 0., "next_attempt_at": nil, "collapse_id": "", "attempts": []any{}}}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("resource (-want +got):\n%s", diff)
	}
	if !strings.HasPrefix(id, "ntf_") {
		t.Errorf("got id %q", id)
	}
}

func TestPost_Request(t *testing.T) {
	t.Parallel()
	s := newService()
	body := `{"key":"k1","type":"t","recipient":"r","locale":"fr-CA","time_zone":null,
	 "to":{"apns":[{"token":"aa","registered_at":"2026-01-02T03:04:05+01:00","account":"shop"},{"token":"aa","registered_at":"2026-01-02T03:04:05+01:00","account":"shop"}],
	       "email":[{"address":"ann@example.com","name":"Ann"}],"webhook":[{"url":"https://example.com/x","secret":"default"}],"sms":null},
	 "data":{"n":12,"price":10.50,"big":12345678901234567890,"deep":{"list":[1,"a",null,true]},"text":"line\none"},
	 "send_at":"2026-12-01T09:00:00Z","expires_at":"2026-12-01T10:00:00.5Z"}`
	wantNotification(t, s.do("POST", "/v1/notifications", body), http.StatusAccepted)
	phone := notifier.Address{Value: "aa", Account: "shop", RegisteredAt: time.Date(2026, 1, 2, 2, 4, 5, 0, time.UTC)}
	want := notifier.Request{Tenant: DefaultTenant, Key: "k1", Type: "t", Recipient: "r", Locale: "fr-CA",
		To: map[notifier.Channel][]notifier.Address{
			notifier.ChannelAPNs:    {phone, phone},
			notifier.ChannelEmail:   {{Value: "ann@example.com", Name: "Ann"}},
			notifier.ChannelWebhook: {{Value: "https://example.com/x", Secret: "default"}},
		},
		Data: map[string]any{"n": int64(12), "price": json.Number("10.50"), "big": json.Number("12345678901234567890"),
			"deep": map[string]any{"list": []any{int64(1), "a", nil, true}}, "text": "line\none"},
		SendAt:    time.Date(2026, 12, 1, 9, 0, 0, 0, time.UTC),
		ExpiresAt: time.Date(2026, 12, 1, 10, 0, 0, 5e8, time.UTC),
	}
	if diff := cmp.Diff(want, s.last); diff != "" {
		t.Errorf("request (-want +got):\n%s", diff)
	}
}

func TestPost_Replay(t *testing.T) {
	t.Parallel()
	s := newService()
	first := wantNotification(t, s.do("POST", "/v1/notifications", shipped, "Idempotency-Key", "k"), http.StatusAccepted)
	close(s.settled)
	other := strings.Replace(shipped, `"recipient"`, `"locale":"fr","recipient"`, 1)
	w := s.do("POST", "/v1/notifications", other, "Idempotency-Key", "k")
	n := wantNotification(t, w, http.StatusOK)
	if w.Header().Get("Idempotent-Replayed") != "true" || w.Header().Get("Location") == "" {
		t.Errorf("got headers %v", w.Header())
	}
	if n.ID != first.ID || n.State != notifier.StateSent || n.Repeats != 1 {
		t.Errorf("got id %s, state %q, repeats %d; want %s, sent, 1", n.ID, n.State, n.Repeats, first.ID)
	}
	if diff := cmp.Diff([]string{"locale"}, n.Ignored); diff != "" {
		t.Errorf("ignored (-want +got):\n%s", diff)
	}
}

func TestPost_KeyReused(t *testing.T) {
	t.Parallel()
	s := newService()
	first := wantNotification(t, s.do("POST", "/v1/notifications", shipped, "Idempotency-Key", "k"), http.StatusAccepted)
	p := wantProblem(t, s.do("POST", "/v1/notifications", strings.Replace(shipped, `"42"`, `"43"`, 1), "Idempotency-Key", "k"),
		http.StatusUnprocessableEntity, notifier.CodeKeyReused, "key")
	if p.ID != first.ID.String() || len(p.Differs) != 1 || p.Differs[0] != "data" {
		t.Errorf("got id %q, differs %v", p.ID, p.Differs)
	}
}

// An accepted request is never answered with a 4xx, which would say that
// nothing is stored.
func TestPost_AcceptedButNotReadable(t *testing.T) {
	t.Parallel()
	s := newService()
	s.readErr = &notifier.Error{Code: notifier.CodeNotFound, Message: "gone"}
	wantProblem(t, s.do("POST", "/v1/notifications", shipped, "Idempotency-Key", "k"), http.StatusInternalServerError, notifier.CodeInternal, "")
	s.readErr = &notifier.Error{Code: notifier.CodeLedgerUnavailable, Message: "ask again"}
	wantProblem(t, s.do("POST", "/v1/notifications", shipped, "Idempotency-Key", "k"), http.StatusServiceUnavailable, notifier.CodeLedgerUnavailable, "")
	s.readErr = nil
	wantNotification(t, s.do("POST", "/v1/notifications", shipped, "Idempotency-Key", "k"), http.StatusOK)
}

func TestPost_BeforeTheBody(t *testing.T) {
	t.Parallel()
	big := `{"type":"t","recipient":"` + strings.Repeat("x", maxBodyBytes) + `"}`
	for _, tc := range []struct {
		name, path, body string
		headers          []string
		status           int
		code             notifier.Code
		field            string
	}{
		{"dry run", "?dry_run=true", shipped, nil, 400, notifier.CodeUnsupportedField, "dry_run"},
		{"parameter", "?x=1", shipped, nil, 400, notifier.CodeUnknownField, "x"},
		{"bad query", "?a=%zz", shipped, nil, 400, notifier.CodeInvalid, "a"},
		{"second content type", "", shipped, []string{"Content-Type", "text/plain"}, 400, notifier.CodeInvalid, "Content-Type"},
		{"encoded", "", shipped, []string{"Content-Encoding", "gzip"}, 400, notifier.CodeInvalid, "Content-Encoding"},
		{"too large", "", big, nil, 413, notifier.CodeRequestTooLarge, "body"},
		{"no key", "", shipped, nil, 400, notifier.CodeKeyRequired, "key"},
		{"empty key", "", shipped, []string{"Idempotency-Key", ""}, 400, notifier.CodeKeyRequired, "key"},
		{"no type declared", "", "", []string{"Idempotency-Key", "k"}, 400, notifier.CodeInvalid, "Content-Type"},
		{"empty body", "", "", []string{"Idempotency-Key", "k", "Content-Type", "application/json"}, 400, notifier.CodeInvalid, "body"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			s := newService()
			wantProblem(t, s.do("POST", "/v1/notifications"+tc.path, tc.body, tc.headers...), tc.status, tc.code, tc.field)
			if len(s.byKey) != 0 {
				t.Error("a refused request was accepted")
			}
		})
	}
}

func TestPost_ContentType(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		value string
		ok    bool
	}{
		{"application/json", true}, {"Application/JSON; charset=UTF-8", true}, {"application/json; charset=latin1", false},
		{"text/plain", false}, {"application/x-www-form-urlencoded", false}, {"application/problem+json", false}, {"json", false},
	} {
		hd := http.Header{"Content-Type": {tc.value}}
		if err := checkJSON(hd); (err == nil) != tc.ok {
			t.Errorf("%s: got %v, want accepted %v", tc.value, err, tc.ok)
		}
	}
}

// The limit holds for a body whose length is not announced.
func TestPost_TooLargeWithoutLength(t *testing.T) {
	t.Parallel()
	r, _ := http.NewRequest("POST", "/", struct{ *strings.Reader }{strings.NewReader(strings.Repeat(" ", maxBodyBytes+1))})
	r.Header.Set("Content-Type", "application/json")
	_, err := NewHandler(Config{Accepter: newFake(), Reader: newFake()}).(*handler).readBody(&recorder{ResponseWriter: httptest.NewRecorder()}, r)
	var e *notifier.Error
	if !errors.As(err, &e) || e.Code != notifier.CodeRequestTooLarge || e.Details["limit"] != maxBodyBytes {
		t.Errorf("got %v, want request_too_large", err)
	}
}

func TestPost_AcceptSeconds(t *testing.T) {
	t.Parallel()
	s := newService()
	s.do("POST", "/v1/notifications", shipped, "Idempotency-Key", "k")
	s.do("POST", "/v1/notifications", shipped, "Idempotency-Key", "k")
	s.do("POST", "/v1/notifications", shipped)
	families, err := s.reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	if len(families) != 1 || families[0].GetName() != "notifier_accept_seconds" {
		t.Fatalf("got families %v", families)
	}
	if n := families[0].GetMetric()[0].GetHistogram().GetSampleCount(); n != 2 {
		t.Errorf("got %d samples, want 2: the refused request is not one", n)
	}
}
