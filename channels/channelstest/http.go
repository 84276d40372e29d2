package channelstest

import (
	"net/http"
	"time"

	"github.com/seed-4b260dfd/notifier"
	"github.com/seed-4b260dfd/notifier/channels"
	"github.com/seed-4b260dfd/notifier/channels/simulate"
)

// hangs is how long a call waits for a provider that does not answer: long
// enough for the request to get there on a busy machine.
const hangs = 2 * time.Second

// Results that several channels' tables have.
var (
	lost     = channels.Result{Outcome: notifier.OutcomeUnknown, Reason: notifier.ReasonReplyLost}
	timedOut = channels.Result{Outcome: notifier.OutcomeUnknown, Reason: notifier.ReasonTimeOut}
	failed   = channels.Result{Outcome: notifier.OutcomeUnknown, Reason: notifier.ReasonProviderError}
	refused  = channels.Result{Outcome: notifier.OutcomeRejected, Reason: notifier.ReasonRefused}
	sent     = channels.Result{Outcome: notifier.OutcomeSent}
	unsent   = channels.Result{Outcome: notifier.OutcomeNotSent, Reason: notifier.ReasonUnreachable}
)

func throttled(d time.Duration) channels.Result {
	return channels.Result{Outcome: notifier.OutcomeNotSent, Reason: notifier.ReasonThrottled, RetryAfter: d}
}

// HTTPCases are the faults that every channel over HTTP meets.
func HTTPCases() []Case {
	inAnHour := time.Now().Add(time.Hour).UTC().Format(http.TimeFormat)
	return []Case{
		{Name: "no_fault", Fault: simulate.Fault{Kind: simulate.FaultDelay, Delay: time.Millisecond}, Want: sent, Received: 1},
		{Name: "reply_dropped", Fault: simulate.Fault{Kind: simulate.FaultDropReply}, Want: lost, Received: 1},
		// Cut before the body was asked for, or after.
		{Name: "dropped_before", Fault: simulate.Fault{Kind: simulate.FaultDropBefore}, Want: lost, Also: &unsent},
		{Name: "truncated", Fault: simulate.Fault{Kind: simulate.FaultTruncate}, Want: sent, Received: 1},
		{Name: "500", Fault: simulate.Fault{Kind: simulate.FaultStatus, Status: 500, Reason: "InternalServerError"}, Want: failed, Received: 1},
		{Name: "503_html", Fault: simulate.Fault{Kind: simulate.FaultStatus, Status: 503, HTML: true}, Want: failed, Received: 1},
		{Name: "429_seconds", Fault: simulate.Fault{Kind: simulate.FaultStatus, Status: 429, Reason: "TooManyRequests", RetryAfter: "7"},
			Want: throttled(7 * time.Second), Received: 1},
		{Name: "429_date", Fault: simulate.Fault{Kind: simulate.FaultStatus, Status: 429, HTML: true, RetryAfter: inAnHour},
			Want: throttled(time.Hour), Received: 1},
		{Name: "429_without", Fault: simulate.Fault{Kind: simulate.FaultStatus, Status: 429}, Want: throttled(0), Received: 1},
		{Name: "418_html", Fault: simulate.Fault{Kind: simulate.FaultStatus, Status: 418, HTML: true}, Want: refused, Received: 1},
		{Name: "307", Fault: simulate.Fault{Kind: simulate.FaultRedirect}, Want: refused, Received: 1},
		{Name: "308", Fault: simulate.Fault{Kind: simulate.FaultStatus, Status: 308}, Want: refused, Received: 1},
		{Name: "hang", Fault: simulate.Fault{Kind: simulate.FaultHang}, Want: timedOut, Received: 1, Timeout: hangs},
		{Name: "dead", Fault: simulate.Fault{Kind: simulate.FaultDeadToken}, Received: 1,
			Want: channels.Result{Outcome: notifier.OutcomeInvalidAddress, Reason: notifier.ReasonInvalidAddress}},
	}
}

// HTTP2Cases are the faults that HTTP/2 adds: what a peer says about a single
// stream (RFC 9113 section 7) and about those that it will not look at (6.8).
func HTTP2Cases() []Case {
	cases := []Case{
		{Name: "goaway_processed", Fault: simulate.Fault{Kind: simulate.FaultGoAway, Code: simulate.GoAwayProcessed}, Want: lost, Received: 1},
		{Name: "goaway_unprocessed", Fault: simulate.Fault{Kind: simulate.FaultGoAway, Code: simulate.GoAwayUnprocessed}, Want: unsent, Received: 1},
		{Name: "goaway_error", Fault: simulate.Fault{Kind: simulate.FaultGoAway, Code: simulate.GoAwayError}, Want: unsent, Received: 1},
		{Name: "rst_REFUSED_STREAM", Fault: simulate.Fault{Kind: simulate.FaultRSTStream, Code: "REFUSED_STREAM"}, Want: unsent, Received: 1},
	}
	for _, code := range []string{"PROTOCOL_ERROR", "INTERNAL_ERROR", "CANCEL", "ENHANCE_YOUR_CALM", "NO_ERROR", "HTTP_1_1_REQUIRED"} {
		cases = append(cases, Case{Name: "rst_" + code, Fault: simulate.Fault{Kind: simulate.FaultRSTStream, Code: code}, Want: lost, Received: 1})
	}
	return cases
}
