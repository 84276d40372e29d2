package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-4b260dfd/notifier"
)

// rows is the documented table. TestStatusOf_EveryCode wants a row for every
// code there is.
var rows = map[notifier.Code]struct {
	status int
	again  Again
}{
	notifier.CodeKeyRequired: {400, AgainCorrected}, notifier.CodeInvalid: {400, AgainCorrected},
	notifier.CodeUnknownField: {400, AgainCorrected}, notifier.CodeUnsupportedField: {400, AgainCorrected},
	notifier.CodeUnknownType: {400, AgainCorrected}, notifier.CodeDataMissing: {400, AgainCorrected},
	notifier.CodeTemplateFailed: {400, AgainCorrected}, notifier.CodeNoAddress: {400, AgainCorrected},
	notifier.CodeUnauthenticated: {401, AgainNo}, notifier.CodeForbidden: {403, AgainNo}, notifier.CodeNotFound: {404, AgainNo},
	notifier.CodeStateConflict: {409, AgainNo}, notifier.CodeVersionConflict: {409, AgainNo},
	notifier.CodeRequestTooLarge: {413, AgainCorrected}, notifier.CodePayloadTooLarge: {413, AgainCorrected},
	notifier.CodeKeyReused: {422, AgainBug}, notifier.CodeRateLimited: {429, AgainLater},
	notifier.CodeInternal: {500, AgainSame}, notifier.CodeLedgerUnavailable: {503, AgainSame},
	notifier.CodeOverloaded: {503, AgainSame}, notifier.CodeKeyBusy: {503, AgainSame},
}

func TestStatusOf_EveryCode(t *testing.T) {
	t.Parallel()
	file, err := parser.ParseFile(token.NewFileSet(), "../error.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || !strings.HasPrefix(spec.Names[0].Name, "Code") {
			return true
		}
		found++
		code, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
		if err != nil {
			t.Fatal(err)
		}
		want, ok := rows[notifier.Code(code)]
		if !ok {
			t.Errorf("the code %s has no row", code)
		}
		if status, again := StatusOf(notifier.Code(code)); status != want.status || again != want.again {
			t.Errorf("%s: got %d, %d; want %d, %d", code, status, again, want.status, want.again)
		}
		return true
	})
	if found != len(rows) {
		t.Errorf("found %d codes, want %d", found, len(rows))
	}
	if status, again := StatusOf("no such code"); status != 500 || again != AgainSame {
		t.Errorf("an unknown code: got %d, %d; want 500, %d", status, again, AgainSame)
	}
}

// What the accepter says reaches the caller whole, whatever the code, with the
// cause left out.
func TestPost_EveryErrorOfTheAccepter(t *testing.T) {
	t.Parallel()
	for code, want := range rows {
		t.Run(string(code), func(t *testing.T) {
			t.Parallel()
			s := newService()
			s.acceptErr = fmt.Errorf("accept: %w", &notifier.Error{Code: code, Field: "data.order_id", Message: "what is wrong",
				Details: map[string]any{"limit": 4096, "code": "forged", "status": 200}, Err: errors.New("secret cause")})
			w := s.do("POST", "/v1/notifications", shipped, keyHeader, "k")
			if strings.Contains(w.Body.String(), "secret cause") {
				t.Errorf("the cause is shown: %s", w.Body)
			}
			if code == notifier.CodeInternal {
				p := wantProblem(t, w, want.status, code, "")
				if strings.Contains(p.Detail, "what is wrong") || p.Limit != 0 {
					t.Errorf("an internal error is shown: %s", w.Body)
				}
				return
			}
			p := wantProblem(t, w, want.status, code, "data.order_id")
			if p.Detail != "what is wrong" || p.Limit != 4096 {
				t.Errorf("got detail %q, limit %d", p.Detail, p.Limit)
			}
			if got := w.Header().Get("WWW-Authenticate"); (got == "Bearer") != (want.status == 401) {
				t.Errorf("got WWW-Authenticate %q", got)
			}
		})
	}
}

func TestProblem_RetryAfter(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		code   notifier.Code
		after  any
		header string
		member int
	}{
		{notifier.CodeRateLimited, 90 * time.Second, "90", 90},
		{notifier.CodeRateLimited, 1200 * time.Millisecond, "2", 2},
		{notifier.CodeKeyBusy, time.Duration(0), "0", 0},
		{notifier.CodeLedgerUnavailable, nil, "", 0},
		{notifier.CodeOverloaded, -time.Second, "", -1},
		{notifier.CodeInvalid, time.Second, "", 1},
	} {
		s := newService()
		e := &notifier.Error{Code: tc.code, Message: "later"}
		if tc.after != nil {
			e.Details = map[string]any{DetailRetryAfter: tc.after}
		}
		s.acceptErr = e
		w := s.do("POST", "/v1/notifications", shipped, keyHeader, "k")
		var p map[string]any
		if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil {
			t.Fatal(err)
		}
		if got := w.Header().Get("Retry-After"); got != tc.header {
			t.Errorf("%s after %v: got header %q, want %q", tc.code, tc.after, got, tc.header)
		}
		if tc.member >= 0 && tc.after != nil && p["retry_after"] != float64(tc.member) {
			t.Errorf("%s after %v: got member %v, want %d", tc.code, tc.after, p["retry_after"], tc.member)
		}
	}
}

// A detail that has no JSON form does not take the rest with it.
func TestProblem_DetailWithoutJSON(t *testing.T) {
	t.Parallel()
	s := newService()
	s.acceptErr = &notifier.Error{Code: notifier.CodeNoAddress, Field: "to", Message: "none", Details: map[string]any{"f": func() {}}}
	wantProblem(t, s.do("POST", "/v1/notifications", shipped, keyHeader, "k"), 400, notifier.CodeNoAddress, "to")
}

func TestPaths(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		method, path string
		status       int
		code         notifier.Code
		allow        string
	}{
		{"GET", "/", 404, notifier.CodeNotFound, ""},
		{"GET", "/v1", 404, notifier.CodeNotFound, ""},
		{"POST", "/v1//notifications", 404, notifier.CodeNotFound, ""},
		{"POST", "/v1/notifications/", 404, notifier.CodeNotFound, ""},
		{"POST", "/v1/batches", 404, notifier.CodeNotFound, ""},
		{"GET", "/debug/pprof/", 404, notifier.CodeNotFound, ""},
		{"GET", "/v1/notifications/a/b", 404, notifier.CodeNotFound, ""},
		{"GET", "/v1/notifications/a%2Fb", 404, notifier.CodeNotFound, ""},
		{"PUT", "/v1/notifications", 405, notifier.CodeInvalid, "GET, HEAD, POST"},
		{"OPTIONS", "/v1/notifications", 405, notifier.CodeInvalid, "GET, HEAD, POST"},
		{"DELETE", "/v1/notifications/ntf_x", 405, notifier.CodeInvalid, "GET, HEAD"},
		{"POST", "/healthz", 405, notifier.CodeInvalid, "GET, HEAD"},
		{"TRACE", "/readyz", 405, notifier.CodeInvalid, "GET, HEAD"},
	} {
		w := newService().do(tc.method, tc.path, "")
		wantProblem(t, w, tc.status, tc.code, map[int]string{404: "path", 405: "method"}[tc.status])
		if got := w.Header().Get("Allow"); got != tc.allow {
			t.Errorf("%s %s: got Allow %q, want %q", tc.method, tc.path, got, tc.allow)
		}
		want := []string{"no-store", "nosniff"}
		if diff := cmp.Diff(want, []string{w.Header().Get("Cache-Control"), w.Header().Get("X-Content-Type-Options")}); diff != "" {
			t.Errorf("%s %s: headers (-want +got):\n%s", tc.method, tc.path, diff)
		}
	}
}

func TestPanic_Answered(t *testing.T) {
	t.Parallel()
	s := newService()
	s.acceptPanic = "secret data"
	w := s.do("POST", "/v1/notifications", shipped, keyHeader, "k")
	wantProblem(t, w, 500, notifier.CodeInternal, "")
	if log := s.log.String(); strings.Contains(log, "secret data") || !strings.Contains(log, "fake_test.go") {
		t.Errorf("the log must have the stack and not the value: %s", log)
	}
	s.acceptPanic = errors.New("secret data")
	s.log.Reset()
	s.do("POST", "/v1/notifications", shipped, keyHeader, "k")
	if strings.Contains(s.log.String(), "secret data") {
		t.Errorf("the log has the value: %s", s.log)
	}
}

func TestPanic_Abort(t *testing.T) {
	t.Parallel()
	s := newService()
	s.acceptPanic = http.ErrAbortHandler
	defer func() {
		if p := recover(); p != http.ErrAbortHandler {
			t.Errorf("got %v, want the server's own abort", p)
		}
	}()
	s.do("POST", "/v1/notifications", shipped, keyHeader, "k")
}

// No address, recipient, key or datum reaches the log, at any level.
func TestLog_Redacted(t *testing.T) {
	t.Parallel()
	s := newService()
	body := `{"type":"t","recipient":"rec-secret","to":{"apns":[{"token":"tok-secret"}]},"data":{"d":"data-secret"}}`
	s.do("POST", "/v1/notifications", body, keyHeader, "key-secret", "Authorization", "Bearer auth-secret")
	s.do("GET", "/v1/notifications?key=key-secret", "")
	s.do("POST", "/v1/notifications", `{"type":"name-secret`, keyHeader, "key-secret")
	s.readErr = errors.New("the disk is full")
	s.do("GET", "/v1/notifications?key=key-secret", "")
	s.do("GET", "/v1/notifications/ntf-secret", "")
	if log := s.log.String(); strings.Contains(log, "secret") || strings.Count(log, "\n") != 6 || !strings.Contains(log, "the disk is full") {
		t.Errorf("got the log %s", log)
	}
}
