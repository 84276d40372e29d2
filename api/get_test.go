package api

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/seed-4b260dfd/notifier"
)

func TestGet_Refused(t *testing.T) {
	t.Parallel()
	missing := notifier.ID{15: 1}.String()
	for _, tc := range []struct {
		path   string
		status int
		code   notifier.Code
		field  string
	}{
		{"/v1/notifications/" + missing, 404, notifier.CodeNotFound, "id"},
		{"/v1/notifications/" + strings.ToUpper(missing), 404, notifier.CodeNotFound, "id"},
		{"/v1/notifications/42", 404, notifier.CodeNotFound, "id"},
		{"/v1/notifications/" + missing + "?verbose=1", 400, notifier.CodeUnknownField, "verbose"},
		{"/v1/notifications", 400, notifier.CodeInvalid, "key"},
		{"/v1/notifications?key=a&key=b", 400, notifier.CodeInvalid, "key"},
		{"/v1/notifications?key=", 400, notifier.CodeKeyRequired, "key"},
		{"/v1/notifications?key=%00", 400, notifier.CodeInvalid, "key"},
		{"/v1/notifications?key=a&state=sent", 400, notifier.CodeUnsupportedField, "state"},
		{"/v1/notifications?cursor=x", 400, notifier.CodeUnsupportedField, "cursor"},
		{"/v1/notifications?key=a&colour=red", 400, notifier.CodeUnknownField, "colour"},
	} {
		t.Run(tc.path, func(t *testing.T) {
			t.Parallel()
			wantProblem(t, newService().do("GET", tc.path, ""), tc.status, tc.code, tc.field)
		})
	}
	for _, name := range []string{"type", "state", "reason", "recipient", "fanout", "since", "until", "cursor", "limit"} {
		wantProblem(t, newService().do("GET", "/v1/notifications?key=k&"+name+"=1", ""), 400, notifier.CodeUnsupportedField, name)
	}
}

func TestGet_ByKey(t *testing.T) {
	t.Parallel()
	s := newService()
	if got := s.do("GET", "/v1/notifications?key=a%2Fb", ""); got.Code != http.StatusOK || got.Body.String() != `{"notifications":[],"next_cursor":""}` {
		t.Errorf("got %d %s", got.Code, got.Body)
	}
	n := wantNotification(t, s.do("POST", "/v1/notifications", shipped, keyHeader, "a/b"), http.StatusAccepted)
	got := s.do("GET", "/v1/notifications?key=a%2Fb", "").Body.String()
	if !strings.HasPrefix(got, `{"notifications":[{"id":"`+n.ID.String()+`","key":"a/b",`) || !strings.HasSuffix(got, `}],"next_cursor":""}`) {
		t.Errorf("got %s", got)
	}
}

func TestGet_LedgerFails(t *testing.T) {
	t.Parallel()
	s := newService()
	s.readErr = errors.New("disk I/O error")
	for _, path := range []string{"/v1/notifications?key=k", "/v1/notifications/" + notifier.ID{15: 1}.String()} {
		w := s.do("GET", path, "")
		wantProblem(t, w, http.StatusInternalServerError, notifier.CodeInternal, "")
		if strings.Contains(w.Body.String(), "disk") {
			t.Errorf("the cause is shown: %s", w.Body)
		}
	}
	if n := strings.Count(s.log.String(), "disk I/O error"); n != 2 {
		t.Errorf("the cause is logged %d times, want 2: %s", n, s.log)
	}
}

func TestHealth(t *testing.T) {
	t.Parallel()
	draining := make(chan struct{})
	s := newService(func(c *Config) { c.Draining = draining })
	if w := s.do("GET", "/healthz", ""); w.Code != http.StatusOK || w.Body.String() != `{"status":"ok"}` {
		t.Errorf("healthz: got %d %s", w.Code, w.Body)
	}
	if w := s.do("GET", "/readyz", ""); w.Code != http.StatusOK || w.Body.String() != `{"status":"ready","degraded":[]}` {
		t.Errorf("readyz: got %d %s", w.Code, w.Body)
	}
	s.degraded = []string{"account:apns.shop"}
	if w := s.do("GET", "/readyz", ""); w.Code != http.StatusOK || w.Body.String() != `{"status":"ready","degraded":["account:apns.shop"]}` {
		t.Errorf("readyz, degraded: got %d %s", w.Code, w.Body)
	}
	for _, tc := range []struct {
		err  error
		code notifier.Code
	}{
		{errors.New("secret path"), notifier.CodeLedgerUnavailable},
		{context.DeadlineExceeded, notifier.CodeLedgerUnavailable},
		{&notifier.Error{Code: notifier.CodeOverloaded, Message: "draining"}, notifier.CodeOverloaded},
		{&notifier.Error{Code: notifier.CodeInvalid, Message: "the ledger is read-only"}, notifier.CodeLedgerUnavailable},
	} {
		s.readyErr = tc.err
		w := s.do("GET", "/readyz", "")
		wantProblem(t, w, http.StatusServiceUnavailable, tc.code, "")
		if strings.Contains(w.Body.String(), "secret") {
			t.Errorf("the cause is shown: %s", w.Body)
		}
	}
	s.readyErr = nil
	close(draining)
	wantProblem(t, s.do("GET", "/readyz", ""), http.StatusServiceUnavailable, notifier.CodeOverloaded, "")
	if w := s.do("GET", "/healthz", ""); w.Code != http.StatusOK {
		t.Errorf("healthz while draining: got %d", w.Code)
	}
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	wantProblem(t, newService().do("GET", "/metrics", ""), http.StatusNotFound, notifier.CodeNotFound, "path")
	s := newService(func(c *Config) {
		c.Metrics = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "# metrics") })
	})
	if w := s.do("GET", "/metrics", ""); w.Code != http.StatusOK || w.Body.String() != "# metrics" {
		t.Errorf("got %d %s", w.Code, w.Body)
	}
}
