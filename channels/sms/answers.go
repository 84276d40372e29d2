package sms

import (
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"github.com/seed-4b260dfd/notifier"
	"github.com/seed-4b260dfd/notifier/channels"
)

// answer is a row of the table: what a status with an error code means.
type answer struct {
	status int
	// code is Twilio's error code; 0: any other, and none.
	code    int
	outcome notifier.Outcome
	reason  notifier.Reason
}

const (
	unknown  = notifier.OutcomeUnknown
	sent     = notifier.OutcomeSent
	rejected = notifier.OutcomeRejected
	dead     = notifier.OutcomeInvalidAddress
	notSent  = notifier.OutcomeNotSent
)

// answers is what Twilio says, with our reading of it. Each code has its page:
// https://www.twilio.com/docs/api/errors/CODE. For the statuses:
// https://www.twilio.com/docs/usage/twilios-response
//
// A code that is not here is read by its status alone, and a status that is
// not here by its class: see byStatus.
var answers = [...]answer{
	// Created: queued or accepted. What becomes of it a receipt will say.
	// https://www.twilio.com/docs/messaging/api/message-resource
	{201, 0, sent, notifier.ReasonNone},

	// Not a number, or none that can get a message: the address is dead.
	{400, 21211, dead, notifier.ReasonInvalidAddress},
	{400, 21217, dead, notifier.ReasonInvalidAddress},
	{400, 21614, dead, notifier.ReasonInvalidAddress},
	// The person answered STOP to this sender.
	{400, 21610, dead, notifier.ReasonInvalidAddress},
	// The country is not switched on for the account. Other numbers are fine.
	{400, 21408, rejected, notifier.ReasonRefused},
	// The sender cannot be used for this number, or this number not be reached from it.
	{400, 21606, rejected, notifier.ReasonRefused},
	{400, 21612, rejected, notifier.ReasonRefused},
	{400, 21659, rejected, notifier.ReasonRefused},
	// No text, or one that is too long.
	{400, 21602, rejected, notifier.ReasonBadContent},
	{400, 21617, rejected, notifier.ReasonBadContent},
	{400, 21619, rejected, notifier.ReasonBadContent},
	// The sender's queue holds ten hours of messages; this one was not put in.
	{400, 21611, notSent, notifier.ReasonThrottled},
	// Any other mistake in the request is ours to mend, never to repeat.
	{400, 0, rejected, notifier.ReasonRefused},

	// SID and token are refused (20003), or the account may not do this, whoever
	// the message is for. They may be mended, so deliveries wait instead of ending.
	{401, 0, notSent, notifier.ReasonBadCredentials},
	{403, 0, notSent, notifier.ReasonBadCredentials},
	// 20404: the path names nothing but the account.
	{404, 0, notSent, notifier.ReasonBadCredentials},

	// 20429, and the limits that have codes of their own: not processed.
	{429, 0, notSent, notifier.ReasonThrottled},

	// No page promises that a message whose answer is a 5xx was not queued.
	{500, 0, unknown, notifier.ReasonProviderError},
	{502, 0, unknown, notifier.ReasonProviderError},
	{503, 0, unknown, notifier.ReasonProviderError},
	{504, 0, unknown, notifier.ReasonProviderError},
}

// byStatus reads a status that the table does not have: a success that Twilio
// does not use, or the word of something in between.
func byStatus(status int) (notifier.Outcome, notifier.Reason) {
	switch {
	case status >= 200 && status < 300:
		return sent, notifier.ReasonNone
	case status == http.StatusRequestTimeout:
		// Something in between gave up waiting; what it had passed on is not known.
		return unknown, notifier.ReasonProviderError
	case status >= 300 && status < 500:
		return rejected, notifier.ReasonRefused
	default:
		return unknown, notifier.ReasonProviderError
	}
}

func find(status, code int) (notifier.Outcome, notifier.Reason) {
	for _, a := range answers {
		if a.status == status && (a.code == code || a.code == 0) {
			return a.outcome, a.reason
		}
	}
	return byStatus(status)
}

// read reads an answer. The status goes first: a body that is cut, or is a
// proxy's page, only takes code and id away.
func read(a *channels.Answer, now time.Time) channels.Result {
	var body struct {
		Code int    `json:"code"` // of an error
		SID  string `json:"sid"`  // of a message
	}
	if json.Unmarshal(a.Body, &body) != nil {
		body.Code, body.SID = 0, ""
	}
	res := channels.Result{ProviderStatus: strconv.Itoa(a.Status)}
	res.Outcome, res.Reason = find(a.Status, body.Code)
	if body.Code != 0 {
		res.ProviderStatus += " " + strconv.Itoa(body.Code)
	}
	if res.Outcome == sent {
		res.ProviderID = channels.ShortStatus(body.SID)
	}
	res.RetryAfter, _ = channels.ParseRetryAfter(a.Header.Get("Retry-After"), now)
	// Both limits are the account's, or its sender's: whoever the next message is for.
	res.AccountWide = res.Reason == notifier.ReasonThrottled
	return res
}
