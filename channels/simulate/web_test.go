package simulate

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

func TestWebhook_Faults(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name      string
		fault     Fault
		status    int
		body      string
		err       string
		answer    string // of the log; empty: no line
		took, may bool
	}{
		{"delay", Fault{Kind: FaultDelay, Delay: time.Millisecond}, 200, `{"ok":true,"reason":""}`, "", "200", true, true},
		{"drop_reply", Fault{Kind: FaultDropReply}, 0, "", "EOF", "none", true, true},
		{"drop_before", Fault{Kind: FaultDropBefore}, 0, "", "EOF", "", false, false},
		{"truncate", Fault{Kind: FaultTruncate}, 200, `{"ok":`, "unexpected EOF", "200 truncated", true, true},
		{"500", Fault{Kind: FaultStatus, Status: 500, Reason: "oops"}, 500, `{"ok":false,"reason":"oops"}`, "", "500 oops", false, true},
		{"503 HTML", Fault{Kind: FaultStatus, Status: 503, HTML: true}, 503, "<!DOCTYPE html><html><body><h1>503 </h1></body></html>", "", "503", false, true},
		{"429", Fault{Kind: FaultStatus, Status: 429, RetryAfter: "7"}, 429, `{"ok":false,"reason":""}`, "", "429", false, false},
		{"redirect", Fault{Kind: FaultRedirect}, 307, `{"ok":false,"reason":""}`, "", "307", false, true},
		{"dead", Fault{Kind: FaultDeadToken}, 410, `{"ok":false,"reason":"Unregistered"}`, "", "410 Unregistered", false, true},
		{"by path", Fault{Kind: FaultStatus, Status: 500, Address: "/in"}, 500, `{"ok":false,"reason":""}`, "", "500", false, true},
		{"of another path", Fault{Kind: FaultStatus, Status: 500, Address: "/out"}, 200, `{"ok":true,"reason":""}`, "", "200", true, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := start(t)
			tt.fault.Channel = "webhook"
			s.SetFaults([]Fault{tt.fault})
			got := hook(t, s, "/in", nil)
			if got.Status != tt.status || got.Body != tt.body || (got.Err == nil) != (tt.err == "") || got.Err != nil && !strings.Contains(got.Err.Error(), tt.err) {
				t.Errorf("got %+v", got)
			}
			if got.Header.Get("Retry-After") != tt.fault.RetryAfter {
				t.Errorf("Retry-After: got %q, want %q", got.Header.Get("Retry-After"), tt.fault.RetryAfter)
			}
			if tt.fault.Kind == FaultRedirect && got.Header.Get("Location") != "/redirected" {
				t.Errorf("Location: got %q", got.Header.Get("Location"))
			}
			if tt.answer == "" {
				if all := s.Effects(); len(all) != 0 {
					t.Errorf("got log lines %+v, want none", all)
				}
				return
			}
			if e := only(t, s); e.Answer != tt.answer || e.TookEffect != tt.took || e.MayTakeEffect != tt.may {
				t.Errorf("log: got %+v, want answer %q, took %v, may %v", e, tt.answer, tt.took, tt.may)
			}
		})
	}
}

func TestWebhook_RefusesWhatIsNotSigned(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		edit   func(*http.Request)
		status int
	}{
		"no signature":    {func(r *http.Request) { r.Header.Del("webhook-signature") }, 401},
		"other signature": {func(r *http.Request) { r.Header.Set("webhook-signature", "v1,AAAA") }, 401},
		"other id":        {func(r *http.Request) { r.Header.Set("webhook-id", "msg_2") }, 401},
		"old":             {func(r *http.Request) { r.Header.Set("webhook-timestamp", "1700000000") }, 401},
		"get":             {func(r *http.Request) { r.Method, r.Body, r.ContentLength = http.MethodGet, nil, 0 }, 405},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := start(t)
			if got := hook(t, s, "/", tt.edit); got.Status != tt.status {
				t.Errorf("got %+v, want %d", got, tt.status)
			}
			if e := only(t, s); e.TookEffect {
				t.Errorf("it took effect: %+v", e)
			}
		})
	}
}

func TestStart_LoopbackOnly(t *testing.T) {
	t.Parallel()
	for _, addr := range []string{"0.0.0.0:0", ":0", "192.0.2.1:0", "here"} {
		if s, err := Start(Config{Dir: t.TempDir(), HTTP: addr}); err == nil {
			t.Errorf("%q was listened on", addr)
			_ = s.Close()
		}
	}
}

func TestStart_PortTaken(t *testing.T) {
	t.Parallel()
	s := start(t)
	if other, err := Start(Config{Dir: t.TempDir(), SMTP: s.SMTPAddr()}); err == nil {
		t.Error("a port that is taken was listened on")
		_ = other.Close()
	} else if !strings.Contains(err.Error(), s.SMTPAddr()) {
		t.Errorf("got %v, want the address in it", err)
	}
}
