package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-4b260dfd/notifier"
)

// suppressionBook keeps suppressions in memory.
type suppressionBook struct {
	list    []notifier.Suppression
	err     error
	by, why string                     // of the last Unsuppress
	asked   notifier.SuppressionFilter // of the last list
}

func (b *suppressionBook) Suppress(_ context.Context, s notifier.Suppression) (notifier.Suppression, error) {
	if b.err != nil {
		return notifier.Suppression{}, b.err
	}
	for _, old := range b.list {
		if old.Subject() == s.Subject() && old.Channel == s.Channel && old.Type == s.Type && old.Cause == s.Cause {
			return old, nil
		}
	}
	s.ID = fmt.Sprintf("%s%02d", notifier.SuppressionPrefix, len(b.list)+1)
	s.At = time.Date(2026, 12, 1, 9, 0, 0, 0, time.UTC)
	s.Since = s.At
	b.list = append([]notifier.Suppression{s}, b.list...)
	return s, nil
}

func (b *suppressionBook) Unsuppress(_ context.Context, tenant, id, by, why string) (notifier.Suppression, error) {
	b.by, b.why = by, why
	for _, s := range b.list {
		if s.ID == id && s.Tenant == tenant {
			return s, b.err
		}
	}
	return notifier.Suppression{}, &notifier.Error{Code: notifier.CodeNotFound, Message: "there is no such suppression"}
}

func (b *suppressionBook) Suppressions(_ context.Context, f notifier.SuppressionFilter) (out []notifier.Suppression, err error) {
	b.asked = f
	for _, s := range b.list {
		if len(out) < f.Limit && s.Tenant == f.Tenant && (f.Before == "" || s.ID < f.Before) {
			out = append(out, s)
		}
	}
	return out, b.err
}

func newSuppressionService(change ...func(*Config)) (*service, *suppressionBook) {
	b := &suppressionBook{}
	return newService(append(change, func(c *Config) { c.Suppressor = b })...), b
}

func TestSuppressions_PlaceListUndo(t *testing.T) {
	t.Parallel()
	s, book := newSuppressionService()
	if got := s.do("GET", "/v1/suppressions", ""); got.Code != http.StatusOK || got.Body.String() != `{"next_cursor":"","suppressions":[]}` &&
		got.Body.String() != `{"suppressions":[],"next_cursor":""}` {
		t.Errorf("got %d %s, want an empty list", got.Code, got.Body)
	}
	const token = "740f1234567890abcdef19e7"
	body := `{"address":"` + token + `","channel":"apns","type":"digest","cause":"complaint","evidence":"a letter"}`
	w := s.do("POST", "/v1/suppressions", body)
	var got map[string]any
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || w.Code != http.StatusOK {
		t.Fatalf("got %d %s (%v)", w.Code, w.Body, err)
	}
	want := map[string]any{"id": "sup_01", "address": "740f…19e7", "channel": "apns", "type": "digest", "cause": "complaint", "evidence": "a letter",
		"by": "loopback", "at": "2026-12-01T09:00:00Z", "since": "2026-12-01T09:00:00Z"}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("suppression (-want +got):\n%s", d)
	}
	if at := w.Header().Get("Location"); at != "/v1/suppressions/sup_01" {
		t.Errorf("got the location %q", at)
	}
	placed := notifier.Suppression{ID: "sup_01", Tenant: DefaultTenant, Address: notifier.Address{Value: token}, Channel: notifier.ChannelAPNs, Type: "digest",
		Cause: notifier.CauseComplaint, Evidence: "a letter", By: "loopback", At: book.list[0].At, Since: book.list[0].At}
	if d := cmp.Diff([]notifier.Suppression{placed}, book.list); d != "" {
		t.Errorf("placed (-want +got):\n%s", d)
	}
	if again := s.do("POST", "/v1/suppressions", body); again.Body.String() != w.Body.String() {
		t.Errorf("the same again: got %s, want %s", again.Body, w.Body)
	}
	list := s.do("GET", "/v1/suppressions", "").Body.String()
	if !strings.Contains(list, strings.TrimSpace(w.Body.String())) || strings.Contains(list, token) {
		t.Errorf("got %s, want the suppression alone, and its address redacted", list)
	}
	if person := s.do("POST", "/v1/suppressions", `{"recipient":"u_1"}`).Body.String(); !strings.Contains(person, `"recipient":"u_1"`) || strings.Contains(person, "address") {
		t.Errorf("got %s, want the recipient whole, and no address", person)
	}
	for range 2 {
		if w := s.do("DELETE", "/v1/suppressions/sup_01?why="+url.QueryEscape("a mistake"), ""); w.Code != http.StatusOK || strings.Contains(w.Body.String(), token) {
			t.Errorf("got %d %s, want it undone", w.Code, w.Body)
		}
	}
	if book.by != "loopback" || book.why != "a mistake" {
		t.Errorf("undone by %q because %q", book.by, book.why)
	}
}

func TestSuppressions_Pages(t *testing.T) {
	t.Parallel()
	s, book := newSuppressionService()
	for i := range 7 {
		s.do("POST", "/v1/suppressions", fmt.Sprintf(`{"recipient":"u_%d"}`, i))
	}
	var all []string
	cursor := ""
	for pages := 0; ; pages++ {
		var page struct {
			Suppressions []notifier.Suppression `json:"suppressions"`
			NextCursor   string                 `json:"next_cursor"`
		}
		w := s.do("GET", "/v1/suppressions?limit=3&cursor="+cursor, "")
		if err := json.Unmarshal(w.Body.Bytes(), &page); err != nil || w.Code != http.StatusOK || pages > 3 {
			t.Fatalf("page %d: got %d %s (%v)", pages, w.Code, w.Body, err)
		}
		for _, s := range page.Suppressions {
			all = append(all, s.Recipient)
		}
		if cursor = page.NextCursor; cursor == "" {
			break
		}
		s.do("POST", "/v1/suppressions", fmt.Sprintf(`{"recipient":"new_%d"}`, pages))
	}
	if want := []string{"u_6", "u_5", "u_4", "u_3", "u_2", "u_1", "u_0"}; !slices.Equal(all, want) {
		t.Errorf("got %v, want %v, whatever is added meanwhile", all, want)
	}
	s.do("GET", "/v1/suppressions?address=x&channel=sms&type=digest&cause=stop&cursor=sup_9", "")
	want := notifier.SuppressionFilter{Tenant: DefaultTenant, Address: "x", Channel: notifier.ChannelSMS, Type: "digest", Cause: notifier.CauseStop,
		Before: "sup_9", Limit: defaultLimit + 1}
	if d := cmp.Diff(want, book.asked); d != "" {
		t.Errorf("asked for (-want +got):\n%s", d)
	}
}

func TestSuppressions_Refused(t *testing.T) {
	t.Parallel()
	s, book := newSuppressionService()
	for _, tc := range []struct {
		method, path, body string
		status             int
		code               notifier.Code
		field              string
	}{
		{"POST", "/v1/suppressions", `{"address":"x","account":"shop"}`, 400, notifier.CodeUnknownField, "account"},
		{"POST", "/v1/suppressions", `{"address":"x","since":"2026-01-01T00:00:00Z"}`, 400, notifier.CodeUnknownField, "since"},
		{"POST", "/v1/suppressions", `{"address":7}`, 400, notifier.CodeInvalid, "address"},
		{"POST", "/v1/suppressions", `{"recipient":"` + strings.Repeat("x", 256) + `"}`, 400, notifier.CodeInvalid, "recipient"},
		{"POST", "/v1/suppressions", `{"recipient":"r","evidence":"` + strings.Repeat("x", 1025) + `"}`, 400, notifier.CodeInvalid, "evidence"},
		{"POST", "/v1/suppressions", `{"recipient":"r"} {}`, 400, notifier.CodeInvalid, "body"},
		{"POST", "/v1/suppressions?type=digest", `{}`, 400, notifier.CodeUnknownField, "type"},
		{"GET", "/v1/suppressions?tenant=shop", "", 400, notifier.CodeUnknownField, "tenant"},
		{"GET", "/v1/suppressions?channel=pigeon", "", 400, notifier.CodeInvalid, "channel"},
		{"GET", "/v1/suppressions?cause=dislike", "", 400, notifier.CodeInvalid, "cause"},
		{"GET", "/v1/suppressions?cause=stop&cause=operator", "", 400, notifier.CodeInvalid, "cause"},
		{"GET", "/v1/suppressions?address=x&recipient=r", "", 400, notifier.CodeInvalid, "address"},
		{"GET", "/v1/suppressions?cursor=7", "", 400, notifier.CodeInvalid, "cursor"},
		{"GET", "/v1/suppressions?limit=0", "", 400, notifier.CodeInvalid, "limit"},
		{"GET", "/v1/suppressions?limit=501", "", 400, notifier.CodeInvalid, "limit"},
		{"GET", "/v1/suppressions?limit=ten", "", 400, notifier.CodeInvalid, "limit"},
		{"DELETE", "/v1/suppressions/sup_none", "", 404, notifier.CodeNotFound, "id"},
		{"DELETE", "/v1/suppressions/sup_none?because=1", "", 400, notifier.CodeUnknownField, "because"},
		{"DELETE", "/v1/suppressions/sup_none?why=%00", "", 400, notifier.CodeInvalid, "why"},
		{"DELETE", "/v1/suppressions", "", 405, notifier.CodeInvalid, "method"},
		{"GET", "/v1/suppressions/sup_none", "", 405, notifier.CodeInvalid, "method"},
	} {
		wantProblem(t, s.do(tc.method, tc.path, tc.body), tc.status, tc.code, tc.field)
	}
	if len(book.list) != 0 {
		t.Errorf("refused and placed all the same: %+v", book.list)
	}
	book.err = errors.New("disk I/O error")
	wantProblem(t, s.do("GET", "/v1/suppressions", ""), 500, notifier.CodeInternal, "")
	wantProblem(t, newService().do("GET", "/v1/suppressions", ""), 404, notifier.CodeNotFound, "path")
}

func TestSuppressions_Scopes(t *testing.T) {
	t.Parallel()
	s, book := newSuppressionService(withKeys, func(c *Config) {
		c.Keys = append(c.Keys, secretKey("some", "shop", []Scope{ScopeOperate}, "order_*"), secretKey("theirs", "other", []Scope{ScopeOperate}))
	})
	place := func(key, body string) string {
		t.Helper()
		w := s.do("POST", "/v1/suppressions", body, bearer(key)...)
		if w.Code != http.StatusOK || book.list[0].By != key {
			t.Fatalf("got %d %s, want it placed by %s", w.Code, w.Body, key)
		}
		return book.list[0].ID
	}
	all := place("operate", `{"recipient":"u_1"}`)
	for _, tc := range []struct {
		key, method, path, body string
		status                  int
		code                    notifier.Code
		field                   string
	}{
		{"all", "GET", "/v1/suppressions", "", 403, notifier.CodeForbidden, "Authorization"},
		{"all", "POST", "/v1/suppressions", `{"recipient":"u_2"}`, 403, notifier.CodeForbidden, "Authorization"},
		{"send", "DELETE", suppressionPath + all, "", 403, notifier.CodeForbidden, "Authorization"},
		{"some", "POST", "/v1/suppressions", `{"recipient":"u_2"}`, 403, notifier.CodeForbidden, "type"},
		{"some", "POST", "/v1/suppressions", `{"recipient":"u_2","type":"login_code"}`, 403, notifier.CodeForbidden, "type"},
		{"some", "DELETE", suppressionPath + all, "", 403, notifier.CodeForbidden, "type"},
	} {
		wantProblem(t, s.do(tc.method, tc.path, tc.body, bearer(tc.key)...), tc.status, tc.code, tc.field)
	}
	wantProblem(t, s.do("GET", "/v1/suppressions", ""), 401, notifier.CodeUnauthenticated, "Authorization")
	if book.by != "" || len(book.list) != 1 {
		t.Errorf("a key that may not has undone one, or placed one: by %q, %+v", book.by, book.list)
	}
	if got := s.do("GET", "/v1/suppressions", "", bearer("theirs")...).Body.String(); strings.Contains(got, "u_1") {
		t.Errorf("another tenant reads %s", got)
	}
	wantProblem(t, s.do("DELETE", suppressionPath+all, "", bearer("theirs")...), 404, notifier.CodeNotFound, "id")
	own := place("some", `{"recipient":"u_2","type":"order_shipped"}`)
	if w := s.do("DELETE", suppressionPath+own, "", bearer("some")...); w.Code != http.StatusOK || book.by != "some" {
		t.Errorf("got %d, undone by %q: %s", w.Code, book.by, w.Body)
	}
}
