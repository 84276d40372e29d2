package api

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-4b260dfd/notifier"
)

// pauseBook keeps pauses in memory.
type pauseBook struct {
	list    []notifier.Pause
	err     error
	by, why string // of the last Resume
	// ended are those that have ended, and since is what they were last asked by.
	ended []notifier.Pause
	since time.Time
}

func (b *pauseBook) Pause(_ context.Context, p notifier.Pause) (notifier.Pause, error) {
	if b.err != nil {
		return notifier.Pause{}, b.err
	}
	for i := range b.list {
		if b.list[i].Same(&p) {
			return b.list[i], nil
		}
	}
	p.ID = notifier.PauseID(notifier.ID{15: byte(len(b.list) + 1)})
	p.Since = time.Date(2026, 12, 1, 9, 0, 0, 0, time.UTC)
	b.list = append(b.list, p)
	return p, nil
}

func (b *pauseBook) Resume(_ context.Context, id, by, why string) (notifier.Pause, error) {
	b.by, b.why = by, why
	for _, p := range b.list {
		if p.ID == id {
			return p, b.err
		}
	}
	return notifier.Pause{}, &notifier.Error{Code: notifier.CodeNotFound, Message: "there is no such pause"}
}

func (b *pauseBook) Pauses(context.Context) ([]notifier.Pause, error) { return b.list, b.err }

func (b *pauseBook) PausesEnded(_ context.Context, since time.Time) ([]notifier.Pause, error) {
	b.since = since
	return b.ended, b.err
}

func newPauseService(change ...func(*Config)) (*service, *pauseBook) {
	b := &pauseBook{}
	return newService(append(change, func(c *Config) { c.Pauser = b })...), b
}

func wantPause(t *testing.T, status int, body []byte) notifier.Pause {
	t.Helper()
	var p notifier.Pause
	if err := json.Unmarshal(body, &p); err != nil || status != http.StatusOK {
		t.Fatalf("got status %d, %s (%v), want a pause", status, body, err)
	}
	return p
}

func TestPauses_PlaceListResume(t *testing.T) {
	t.Parallel()
	s, book := newPauseService()
	if got := s.do("GET", "/v1/pauses", ""); got.Code != http.StatusOK || got.Body.String() != `{"pauses":[]}` {
		t.Errorf("got %d %s, want an empty list", got.Code, got.Body)
	}
	body := `{"type":"digest","channel":"email","account":"main","tenant":"shop","until":"2030-01-02T03:04:05Z","why":"too many"}`
	w := s.do("POST", "/v1/pauses", body)
	p := wantPause(t, w.Code, w.Body.Bytes())
	want := notifier.Pause{ID: p.ID, Type: "digest", Channel: "email", Account: "main", Tenant: "shop", Cause: notifier.PauseOperator,
		Why: "too many", By: "loopback", Since: p.Since, Until: time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)}
	if diff := cmp.Diff(want, p); diff != "" {
		t.Errorf("pause (-want +got):\n%s", diff)
	}
	if at := w.Header().Get("Location"); at != "/v1/pauses/"+p.ID {
		t.Errorf("got the location %q", at)
	}
	again := s.do("POST", "/v1/pauses", body)
	if again.Body.String() != w.Body.String() {
		t.Errorf("the same again: got %s, want %s", again.Body, w.Body)
	}
	if got := s.do("GET", "/v1/pauses", "").Body.String(); got != `{"pauses":[`+w.Body.String()+`]}` {
		t.Errorf("got %s, want the pause alone", got)
	}
	for range 2 {
		w = s.do("DELETE", "/v1/pauses/"+p.ID+"?why="+url.QueryEscape("all is well"), "")
		if diff := cmp.Diff(want, wantPause(t, w.Code, w.Body.Bytes())); diff != "" {
			t.Errorf("resumed (-want +got):\n%s", diff)
		}
	}
	if book.by != "loopback" || book.why != "all is well" {
		t.Errorf("resumed by %q because %q", book.by, book.why)
	}
}

func TestPauses_Ended(t *testing.T) {
	t.Parallel()
	s, b := newPauseService()
	b.ended = []notifier.Pause{{ID: "pau_1", Type: "digest", EndedAt: time.Date(2026, 12, 1, 10, 0, 0, 0, time.UTC), EndedBy: "ann", EndedWhy: "mended"}}
	w := s.do("GET", "/v1/pauses?ended=true", "")
	for _, want := range []string{`"ended_at":"2026-12-01T10:00:00Z"`, `"ended_by":"ann"`, `"ended_why":"mended"`} {
		if !strings.Contains(w.Body.String(), want) {
			t.Errorf("got %s, want %s in it", w.Body, want)
		}
	}
	if ago := time.Since(b.since); ago < 29*24*time.Hour {
		t.Errorf("asked for those of the last %v, want thirty days", ago)
	}
	if w := s.do("GET", "/v1/pauses?ended=false", ""); strings.Contains(w.Body.String(), "ended") {
		t.Errorf("got %s, want those in force", w.Body)
	}
	wantProblem(t, s.do("GET", "/v1/pauses?ended=perhaps", ""), 400, notifier.CodeInvalid, "ended")
}

func TestPauses_Refused(t *testing.T) {
	t.Parallel()
	s, book := newPauseService()
	id := notifier.PauseID(notifier.ID{15: 9})
	for _, tc := range []struct {
		method, path, body string
		status             int
		code               notifier.Code
		field              string
	}{
		{"POST", "/v1/pauses", `{"type":"digest","fanout":"fan_1"}`, 400, notifier.CodeUnsupportedField, "fanout"},
		{"POST", "/v1/pauses", `{"type":"digest","order":"claim_first"}`, 400, notifier.CodeUnknownField, "order"},
		{"POST", "/v1/pauses", `{"type":"digest","cause":"ledger_rewound"}`, 400, notifier.CodeUnknownField, "cause"},
		{"POST", "/v1/pauses", `{"type":7}`, 400, notifier.CodeInvalid, "type"},
		{"POST", "/v1/pauses", `{"channel":["email"]}`, 400, notifier.CodeInvalid, "channel"},
		{"POST", "/v1/pauses", `{"type":"digest","until":"2h"}`, 400, notifier.CodeInvalid, "until"},
		{"POST", "/v1/pauses", `{"type":"digest","why":"` + strings.Repeat("x", 1025) + `"}`, 400, notifier.CodeInvalid, "why"},
		{"POST", "/v1/pauses", `{"type":"digest","type":"digest"}`, 400, notifier.CodeInvalid, "type"},
		{"POST", "/v1/pauses", `{"type":"digest"} {}`, 400, notifier.CodeInvalid, "body"},
		{"POST", "/v1/pauses", `[]`, 400, notifier.CodeInvalid, "body"},
		{"POST", "/v1/pauses?type=digest", `{}`, 400, notifier.CodeUnknownField, "type"},
		{"GET", "/v1/pauses?all=1", "", 400, notifier.CodeUnknownField, "all"},
		{"DELETE", "/v1/pauses/" + id, "", 404, notifier.CodeNotFound, "id"},
		{"DELETE", "/v1/pauses/" + id + "?because=1", "", 400, notifier.CodeUnknownField, "because"},
		{"DELETE", "/v1/pauses/" + id + "?why=%00", "", 400, notifier.CodeInvalid, "why"},
		{"DELETE", "/v1/pauses/" + id + "/x", "", 404, notifier.CodeNotFound, "path"},
		{"DELETE", "/v1/pauses", "", 405, notifier.CodeInvalid, "method"},
		{"GET", "/v1/pauses/" + id, "", 405, notifier.CodeInvalid, "method"},
	} {
		wantProblem(t, s.do(tc.method, tc.path, tc.body), tc.status, tc.code, tc.field)
	}
	wantProblem(t, s.do("POST", "/v1/pauses", `{"type":"digest"}`, "Content-Type", "text/plain"), 400, notifier.CodeInvalid, "Content-Type")
	if len(book.list) != 0 {
		t.Errorf("refused and placed all the same: %+v", book.list)
	}
	book.err = &notifier.Error{Code: notifier.CodeUnknownType, Field: "type", Message: "there are a, b"}
	if p := wantProblem(t, s.do("POST", "/v1/pauses", `{"type":"digest"}`), 400, notifier.CodeUnknownType, "type"); p.Detail != "there are a, b" {
		t.Errorf("got %q, want what there is", p.Detail)
	}
	book.err = errors.New("disk I/O error")
	wantProblem(t, s.do("GET", "/v1/pauses", ""), 500, notifier.CodeInternal, "")
	wantProblem(t, newService().do("GET", "/v1/pauses", ""), 404, notifier.CodeNotFound, "path")
}

func TestPauses_Scopes(t *testing.T) {
	t.Parallel()
	s, book := newPauseService(withKeys, func(c *Config) {
		c.Keys = append(c.Keys, secretKey("some", "shop", []Scope{ScopeOperate}, "order_*"))
	})
	mail := wantPauseBy(t, s, "operate", `{"channel":"email"}`)
	if mail.By != "operate" {
		t.Errorf("placed by %q, want the key's name", mail.By)
	}
	for _, tc := range []struct {
		key, method, path, body string
		status                  int
		field                   string
	}{
		{"all", "GET", "/v1/pauses", "", 403, "Authorization"},
		{"all", "POST", "/v1/pauses", `{"type":"order_shipped"}`, 403, "Authorization"},
		{"send", "DELETE", pausePath + mail.ID, "", 403, "Authorization"},
		{"some", "POST", "/v1/pauses", `{"type":"login_code"}`, 403, "type"},
		{"some", "POST", "/v1/pauses", `{"channel":"email"}`, 403, "type"},
		{"some", "DELETE", pausePath + mail.ID, "", 403, "type"},
	} {
		wantProblem(t, s.do(tc.method, tc.path, tc.body, bearer(tc.key)...), tc.status, notifier.CodeForbidden, tc.field)
	}
	wantProblem(t, s.do("GET", "/v1/pauses", ""), 401, notifier.CodeUnauthenticated, "Authorization")
	if book.by != "" {
		t.Error("a pause was resumed by a key that may not")
	}
	own := wantPauseBy(t, s, "some", `{"type":"order_shipped"}`)
	if w := s.do("DELETE", pausePath+own.ID, "", bearer("some")...); w.Code != http.StatusOK || book.by != "some" {
		t.Errorf("got %d, resumed by %q: %s", w.Code, book.by, w.Body)
	}
	wantProblem(t, newService(func(c *Config) { c.Pauser = &pauseBook{} }).do("GET", "/v1/pauses", "", "Host", "example.com"),
		403, notifier.CodeForbidden, "Host")
}

func wantPauseBy(t *testing.T, s *service, key, body string) notifier.Pause {
	t.Helper()
	w := s.do("POST", "/v1/pauses", body, bearer(key)...)
	return wantPause(t, w.Code, w.Body.Bytes())
}
