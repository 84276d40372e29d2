package api

import (
	"encoding/json"
	"strings"
	"testing"
)

// Whatever is refused names the field at fault and says what is allowed there.
func TestRefusals_NameTheFieldAndWhatIsAllowed(t *testing.T) {
	t.Parallel()
	s := newService(withKeys)
	post := func(body string, headers ...string) []string {
		return append([]string{"POST", "/v1/notifications", body}, append(append(bearer("all"), keyHeader, "k"), headers...)...)
	}
	to := func(address string) string { return `{"type":"t","recipient":"r","to":{` + address + `}}` }
	for _, tc := range []struct {
		name    string
		request []string
		status  int
		field   string
		says    string
	}{
		{"empty body", post("", "Content-Type", "application/json"), 400, "body", "send a JSON object"},
		{"null", post("null"), 400, "body", "must be a JSON object"},
		{"array", post("[]"), 400, "body", "must be a JSON object"},
		{"cut off", post(`{"type":`), 400, "body", "send a whole JSON object"},
		{"control character", post(`{"type":"t","recipient":"a\u0001b"}`), 400, "recipient", "U+0001 at byte 1"},
		{"control character in the type", post(`{"type":"a\u007fb","recipient":"r"}`), 400, "type", "U+007F at byte 1"},
		{"control character in the key", post(`{"type":"t","recipient":"r","key":"a\u0001b"}`), 400, "key", "printable ASCII"},
		{"another field", post(`{"type":"t","recipient":"r","x":1}`), 400, "x", "allowed are type, recipient"},
		{"field of an address on apns", post(to(`"apns":[{"token":"a","x":1}]`)), 400, "to.apns[0].x", "allowed are token, registered_at, account"},
		{"on fcm", post(to(`"fcm":[{"token":"a","x":1}]`)), 400, "to.fcm[0].x", "allowed are token"},
		{"on webpush", post(to(`"webpush":[{"x":1}]`)), 400, "to.webpush[0].x", "allowed are endpoint, keys"},
		{"on email", post(to(`"email":[{"x":1}]`)), 400, "to.email[0].x", "allowed are address, name"},
		{"on sms", post(to(`"sms":[{"x":1}]`)), 400, "to.sms[0].x", "allowed are number"},
		{"on webhook", post(to(`"webhook":[{"url":"https://a","x":1}]`)), 400, "to.webhook[0].x", "allowed are url, secret"},
		{"query", []string{"GET", "/v1/notifications?key=%zz", ""}, 401, "Authorization", "Bearer <API key>"},
		{"query with a key", append([]string{"GET", "/v1/notifications?key=%zz", ""}, bearer("read")...), 400, "key", "name=value"},
		{"query without a name", append([]string{"GET", "/v1/notifications?%zz=1", ""}, bearer("read")...), 400, "query", "name=value"},
		{"semicolon", append([]string{"GET", "/v1/notifications?a=1;b=2", ""}, bearer("read")...), 400, "a", "name=value"},
		{"another parameter", append([]string{"GET", "/v1/notifications?x=1", ""}, bearer("read")...), 400, "x", "allowed: key"},
		{"another key", append([]string{"GET", "/v1/notifications?key=k", ""}, "Authorization", "Bearer x"), 401, "Authorization", "not known"},
		{"another scope", append([]string{"GET", "/v1/pauses", ""}, bearer("read")...), 403, "Authorization", "scope operate; this one has read"},
		{"another path", append([]string{"GET", "/v2", ""}, bearer("read")...), 404, "path", "/v1/notifications"},
		{"another id", append([]string{"GET", "/v1/notifications/42", ""}, bearer("read")...), 404, "id", "no notification"},
		{"another method", append([]string{"PATCH", "/v1/notifications", ""}, bearer("read")...), 405, "method", "GET, HEAD, POST"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			if tc.name == "another scope" {
				s, _ := newPauseService(withKeys)
				wantProblemSays(t, s, tc.request, tc.status, tc.field, tc.says)
				return
			}
			wantProblemSays(t, s, tc.request, tc.status, tc.field, tc.says)
		})
	}
}

func wantProblemSays(t *testing.T, s *service, request []string, status int, field, says string) {
	t.Helper()
	w := s.do(request[0], request[1], request[2], request[3:]...)
	var p problem
	if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil {
		t.Fatal(err)
	}
	if w.Code != status || p.Field != field || !strings.Contains(p.Detail, says) {
		t.Errorf("got %d, field %q, %q; want %d, %q and %q", w.Code, p.Field, p.Detail, status, field, says)
	}
}
