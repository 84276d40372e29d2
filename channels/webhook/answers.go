package webhook

import (
	"net/http"
	"strconv"
	"time"

	"github.com/seed-4b260dfd/notifier"
	"github.com/seed-4b260dfd/notifier/channels"
)

// answer is a row of the table: what a status means.
type answer struct {
	status  int
	outcome notifier.Outcome
	reason  notifier.Reason
}

// answers are the statuses that mean something of their own.
// https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md
// and RFC 9110 section 15. All others are read by their class: see byStatus.
var answers = [...]answer{
	// The receiver gave up waiting for the request, or for something behind
	// it: it may have acted.
	{http.StatusRequestTimeout, notifier.OutcomeUnknown, notifier.ReasonProviderError},
	// What a receiver that knows idempotency keys says while the first copy is
	// still under way: it may be acting.
	{http.StatusConflict, notifier.OutcomeUnknown, notifier.ReasonProviderError},
	// Asks to disable the endpoint.
	{http.StatusGone, notifier.OutcomeInvalidAddress, notifier.ReasonInvalidAddress},
	{http.StatusRequestEntityTooLarge, notifier.OutcomeRejected, notifier.ReasonBadContent},
	// Too early: not processed, by definition (RFC 8470 section 5.2).
	{http.StatusTooEarly, notifier.OutcomeNotSent, notifier.ReasonThrottled},
	// Too many requests: this one was not processed (RFC 6585 section 4).
	{http.StatusTooManyRequests, notifier.OutcomeNotSent, notifier.ReasonThrottled},
}

// byStatus reads a status by its class. Only 2xx is success. A redirect is not
// followed: the receiver's address has changed, and its owner has to say so.
// After a 5xx nobody knows what was done, whatever the code: a gateway says 502
// and 504 of requests that its backend has carried out.
func byStatus(status int) (notifier.Outcome, notifier.Reason) {
	switch {
	case status >= 200 && status < 300:
		return notifier.OutcomeSent, notifier.ReasonNone
	case status >= 300 && status < 500:
		return notifier.OutcomeRejected, notifier.ReasonRefused
	default:
		return notifier.OutcomeUnknown, notifier.ReasonProviderError
	}
}

// read reads an answer. Of its body nothing is needed, so one that was cut
// changes nothing.
func read(a *channels.Answer, now time.Time) channels.Result {
	res := channels.Result{ProviderStatus: strconv.Itoa(a.Status)}
	res.Outcome, res.Reason = byStatus(a.Status)
	for _, row := range answers {
		if row.status == a.Status {
			res.Outcome, res.Reason = row.outcome, row.reason
		}
	}
	res.RetryAfter, _ = channels.ParseRetryAfter(a.Header.Get("Retry-After"), now)
	return res
}
