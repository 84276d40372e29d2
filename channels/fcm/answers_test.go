package fcm

import (
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-4b260dfd/notifier"
	"github.com/seed-4b260dfd/notifier/channels"
)

func errorBody(status, code, message string) string {
	return fmt.Sprintf(`{"error":{"code":400,"message":%q,"status":%q,"details":[`+
		`{"@type":"type.googleapis.com/google.firebase.fcm.v1.FcmError","errorCode":%q}]}}`, message, status, code)
}

const tokenMessage = "The registration token is not a valid FCM registration token"

func TestRead_EveryRow(t *testing.T) {
	t.Parallel()
	for i, row := range answers {
		words, body := fmt.Sprint(row.status), "<html>"
		switch row.code {
		case "":
		case badToken:
			words += " " + row.code
			body = errorBody("INVALID_ARGUMENT", "INVALID_ARGUMENT", tokenMessage)
		default:
			words += " " + row.code
			body = errorBody("X", row.code, "no")
		}
		got, unauthenticated := read(&channels.Answer{Status: row.status, Header: http.Header{"Retry-After": {"33"}}, Body: []byte(body)}, time.Now())
		want := channels.Result{Outcome: row.outcome, Reason: row.reason, ProviderStatus: words, RetryAfter: 33 * time.Second,
			AccountWide: row.status == 429}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", words, diff)
		}
		if unauthenticated != (row.status == 401 && row.code == "") {
			t.Errorf("%s: unauthenticated %v", words, unauthenticated)
		}
		for _, earlier := range answers[:i] {
			if earlier.status == row.status && (earlier.code == row.code || earlier.code == "") {
				t.Errorf("%s: an earlier row hides this one", words)
			}
		}
	}
}

func TestRead_StatusFirst(t *testing.T) {
	t.Parallel()
	violation := `{"error":{"status":"INVALID_ARGUMENT","details":[{"@type":"type.googleapis.com/google.firebase.fcm.v1.FcmError","errorCode":"INVALID_ARGUMENT"},` +
		`{"@type":"type.googleapis.com/google.rpc.BadRequest","fieldViolations":[{"field":%q}]}]}}`
	for _, test := range []struct {
		status  int
		body    string
		outcome notifier.Outcome
		reason  notifier.Reason
	}{
		{200, "not JSON", sent, notifier.ReasonNone},
		{202, "", sent, notifier.ReasonNone},
		{307, "", rejected, notifier.ReasonRefused},
		{400, `{"error":`, rejected, notifier.ReasonRefused},
		{400, "<html>" + tokenMessage, rejected, notifier.ReasonRefused},
		{400, errorBody("", "UNREGISTERED", ""), rejected, notifier.ReasonRefused},
		// FCM's own code is needed, and that the token is what it is about.
		{400, `{"error":{"message":"` + tokenMessage + `"}}`, rejected, notifier.ReasonRefused},
		{400, errorBody("", "INVALID_ARGUMENT", "Android message is too big"), rejected, notifier.ReasonRefused},
		{400, errorBody("", "INVALID_ARGUMENT", tokenMessage), dead, notifier.ReasonInvalidAddress},
		{400, fmt.Sprintf(violation, "message.token"), dead, notifier.ReasonInvalidAddress},
		{400, fmt.Sprintf(violation, "message.android.ttl"), rejected, notifier.ReasonRefused},
		{401, "<html>", notSent, notifier.ReasonBadCredentials},
		{403, "<html>", notSent, notifier.ReasonBadCredentials},
		{404, "<html>", rejected, notifier.ReasonRefused},
		{404, `{"error":{"status":"NOT_FOUND"}}`, rejected, notifier.ReasonRefused},
		{408, "<html>", unknown, notifier.ReasonProviderError},
		{418, errorBody("", "UNREGISTERED", ""), rejected, notifier.ReasonRefused},
		{429, "<html>", notSent, notifier.ReasonThrottled},
		{500, errorBody("", "UNREGISTERED", tokenMessage), unknown, notifier.ReasonProviderError},
		{502, "<html>", unknown, notifier.ReasonProviderError},
		{503, errorBody("", "QUOTA_EXCEEDED", ""), unknown, notifier.ReasonProviderError},
		{598, "", unknown, notifier.ReasonProviderError},
		{100, "", unknown, notifier.ReasonProviderError},
	} {
		got, _ := read(&channels.Answer{Status: test.status, Body: []byte(test.body), Err: io.ErrUnexpectedEOF}, time.Now())
		if got.Outcome != test.outcome || got.Reason != test.reason {
			t.Errorf("%d %s: got %v, %s, want %v, %s", test.status, test.body, got.Outcome, got.Reason, test.outcome, test.reason)
		}
	}
}

func TestRead_RetryAfter(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		status int
		header string
		want   time.Duration
	}{
		{429, "", time.Minute}, {429, "7", 7 * time.Second}, {429, "soon", time.Minute},
		{500, "", 10 * time.Second}, {503, "2", 10 * time.Second}, {503, "45", 45 * time.Second}, {502, "", 10 * time.Second},
		{400, "", 0}, {200, "", 0},
	} {
		h := http.Header{}
		if test.header != "" {
			h.Set("Retry-After", test.header)
		}
		if got, _ := read(&channels.Answer{Status: test.status, Header: h}, time.Now()); got.RetryAfter != test.want {
			t.Errorf("%d with %q: got %v, want %v", test.status, test.header, got.RetryAfter, test.want)
		}
	}
}

// A quota of one device is no reason for the others to wait.
func TestRead_WhoseQuota(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		violation string
		want      bool
	}{
		{`{"subject":"project:shop","description":"Message rate exceeded"}`, true},
		{`{"subject":"device","description":"Device message rate exceeded"}`, false},
		{`{"description":"Topics message rate exceeded"}`, false},
		{``, true},
	} {
		body := `{"error":{"details":[{"@type":"type.googleapis.com/google.rpc.QuotaFailure","violations":[` + test.violation + `]}]}}`
		got, _ := read(&channels.Answer{Status: 429, Header: http.Header{}, Body: []byte(body)}, time.Now())
		if got.AccountWide != test.want || got.Reason != notifier.ReasonThrottled {
			t.Errorf("%s: got %+v, want account-wide %v", test.violation, got, test.want)
		}
	}
}
