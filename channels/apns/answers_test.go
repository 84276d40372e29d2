package apns

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
	now := time.Now()
	for i, row := range answers {
		body := []byte("<html>")
		words := fmt.Sprint(row.status)
		if row.name != "" {
			body = fmt.Appendf(nil, `{"reason":%q}`, row.name)
			words += " " + row.name
		}
		got, expired := read(&channels.Answer{Status: row.status, Header: http.Header{"Retry-After": {"3"}}, Body: body}, now)
		want := channels.Result{Outcome: row.outcome, Reason: row.reason, ProviderStatus: words, RetryAfter: 3 * time.Second,
			AccountWide: row.name == "TooManyProviderTokenUpdates"}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", words, diff)
		}
		if expired != (row.name == expiredToken) {
			t.Errorf("%s: expired %v", words, expired)
		}
		for _, earlier := range answers[:i] {
			if earlier.status == row.status && (earlier.name == row.name || earlier.name == "") {
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
		{200, "not JSON", notifier.OutcomeSent, notifier.ReasonNone},
		{201, "", notifier.OutcomeSent, notifier.ReasonNone},
		{307, "", notifier.OutcomeRejected, notifier.ReasonRefused},
		{400, `{"reason":`, notifier.OutcomeRejected, notifier.ReasonRefused},
		{400, `{"reason":"Unregistered"}`, notifier.OutcomeRejected, notifier.ReasonRefused},
		{400, `{"reason":7}`, notifier.OutcomeRejected, notifier.ReasonRefused},
		{403, "<html>", notifier.OutcomeRejected, notifier.ReasonRefused},
		{408, "<html>", notifier.OutcomeUnknown, notifier.ReasonProviderError},
		{410, "<html>", notifier.OutcomeInvalidAddress, notifier.ReasonInvalidAddress},
		{429, "<html>", notifier.OutcomeNotSent, notifier.ReasonThrottled},
		{500, `{"reason":"BadDeviceToken"}`, notifier.OutcomeUnknown, notifier.ReasonProviderError},
		{502, "<html>", notifier.OutcomeUnknown, notifier.ReasonProviderError},
		{503, "", notifier.OutcomeUnknown, notifier.ReasonProviderError},
		{599, "", notifier.OutcomeUnknown, notifier.ReasonProviderError},
	} {
		got, _ := read(&channels.Answer{Status: test.status, Body: []byte(test.body), Err: io.ErrUnexpectedEOF}, time.Now())
		if got.Outcome != test.outcome || got.Reason != test.reason {
			t.Errorf("%d %s: got %v, %s, want %v, %s", test.status, test.body, got.Outcome, got.Reason, test.outcome, test.reason)
		}
	}
	got, _ := read(&channels.Answer{Status: 410, Body: []byte(`{"reason":"Unregistered","timestamp":1764553976123}`)}, time.Now())
	if want := time.UnixMilli(1764553976123); !got.InvalidSince.Equal(want) {
		t.Errorf("invalid since %v, want %v", got.InvalidSince, want)
	}
}
