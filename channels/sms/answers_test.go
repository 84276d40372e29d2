package sms

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

func TestRead_EveryRow(t *testing.T) {
	t.Parallel()
	for i, row := range answers {
		body := []byte("<html>")
		words := fmt.Sprint(row.status)
		if row.code != 0 {
			body = fmt.Appendf(nil, `{"code":%d,"message":"m","status":%d}`, row.code, row.status)
			words += fmt.Sprint(" ", row.code)
		}
		got := read(&channels.Answer{Status: row.status, Header: http.Header{"Retry-After": {"3"}}, Body: body}, time.Now())
		want := channels.Result{Outcome: row.outcome, Reason: row.reason, ProviderStatus: words, RetryAfter: 3 * time.Second,
			AccountWide: row.status == 429 || row.code == 21611}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", words, diff)
		}
		for _, earlier := range answers[:i] {
			if earlier.status == row.status && (earlier.code == row.code || earlier.code == 0) {
				t.Errorf("%s: an earlier row hides this one", words)
			}
		}
	}
}

func TestRead_StatusFirst(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		status  int
		body    string
		outcome notifier.Outcome
		reason  notifier.Reason
	}{
		{200, "not JSON", sent, notifier.ReasonNone},
		{201, `{"sid":`, sent, notifier.ReasonNone},
		{201, `{"code":21211}`, sent, notifier.ReasonNone},
		{307, "", rejected, notifier.ReasonRefused},
		{400, "<html>", rejected, notifier.ReasonRefused},
		{400, `{"code":"21211"}`, rejected, notifier.ReasonRefused},
		{400, `{"code":99999}`, rejected, notifier.ReasonRefused},
		{401, `{"code":20003}`, notSent, notifier.ReasonBadCredentials},
		{403, "<html>", notSent, notifier.ReasonBadCredentials},
		{404, `{"code":20404}`, notSent, notifier.ReasonBadCredentials},
		{408, "", unknown, notifier.ReasonProviderError},
		{410, `{"code":21211}`, rejected, notifier.ReasonRefused},
		{429, `{"code":20429}`, notSent, notifier.ReasonThrottled},
		{429, "<html>", notSent, notifier.ReasonThrottled},
		{500, `{"code":21211}`, unknown, notifier.ReasonProviderError},
		{503, `{"code":20503}`, unknown, notifier.ReasonProviderError},
		{507, "", unknown, notifier.ReasonProviderError},
		{599, "", unknown, notifier.ReasonProviderError},
	} {
		got := read(&channels.Answer{Status: test.status, Body: []byte(test.body), Err: io.ErrUnexpectedEOF}, time.Now())
		if got.Outcome != test.outcome || got.Reason != test.reason {
			t.Errorf("%d %s: got %v, %s, want %v, %s", test.status, test.body, got.Outcome, got.Reason, test.outcome, test.reason)
		}
	}
	if got := read(&channels.Answer{Status: 201, Body: []byte(`{"sid":"SM1","status":"queued"}`)}, time.Now()); got.ProviderID != "SM1" {
		t.Errorf("got the id %q, want SM1", got.ProviderID)
	}
}
