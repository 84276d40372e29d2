package webpush

import (
	"cmp"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/seed-4b260dfd/notifier"
	"github.com/seed-4b260dfd/notifier/channels"
)

// answer is a row of the table: what a status means, with the number that
// Mozilla gives in the body, or with words in it.
type answer struct {
	status int
	// errno is Mozilla's; zero: any.
	errno int
	// words stand somewhere in the body, in lower case; empty: any body.
	words   string
	outcome notifier.Outcome
	reason  notifier.Reason
}

// What "refused for good", "later" and the like are in our words.
const (
	unknown  = notifier.OutcomeUnknown
	sent     = notifier.OutcomeSent
	rejected = notifier.OutcomeRejected
	dead     = notifier.OutcomeInvalidAddress
	notSent  = notifier.OutcomeNotSent
)

// answers is what the push services say, with our reading. RFC 8030 and RFC
// 8292 have the statuses; the services add to them:
//
// Mozilla: https://mozilla-services.github.io/autopush-rs/errors.html
// Apple: https://developer.apple.com/documentation/usernotifications/sending-web-push-notifications-in-web-apps-and-browsers
// Microsoft: https://learn.microsoft.com/en-us/windows/apps/design/shell/tiles-and-notifications/push-request-response-headers
// Google documents none of its own: what it says is what its users report.
//
// The first row that fits is taken. A status that is in none is read by its
// class: see byStatus.
var answers = [...]answer{
	// Accepted, and accepted with a receipt to come (RFC 8030 sections 5 and 5.1).
	// Whether the browser shows it is not said.
	{201, 0, "", sent, notifier.ReasonNone},
	{202, 0, "", sent, notifier.ReasonNone},

	// Mozilla: the encryption's parts are missing or wrong; a required header
	// is missing; TTL; Topic; the URL names no kind of service. Ours to mend,
	// never to repeat.
	{400, 101, "", rejected, notifier.ReasonBadContent},
	{400, 110, "", rejected, notifier.ReasonBadContent},
	{400, 111, "", rejected, notifier.ReasonRefused},
	{400, 112, "", rejected, notifier.ReasonRefused},
	{400, 113, "", rejected, notifier.ReasonRefused},
	{400, 108, "", rejected, notifier.ReasonInvalidAddress},
	// Apple's VapidPkHashMismatch and BadVapidPublicKey, and what Google says of
	// a token that it cannot read: UnauthorizedRegistration, or words on the JWT.
	{400, 0, "vapid", notSent, notifier.ReasonBadCredentials},
	{400, 0, "jwt", notSent, notifier.ReasonBadCredentials},
	{400, 0, "unauthorized", notSent, notifier.ReasonBadCredentials},
	// Any other is about the message (RFC 8030 sections 5.2 to 5.4).
	{400, 0, "", rejected, notifier.ReasonRefused},

	// The token is missing or does not hold, or the subscription was made with
	// another key (RFC 8292 sections 2 and 4.2). The two cannot always be told
	// apart, and a wrong key in the configuration must not end the backlog, so
	// deliveries wait until somebody has looked, or until they expire.
	{401, 0, "", notSent, notifier.ReasonBadCredentials},
	{403, 0, "", notSent, notifier.ReasonBadCredentials},

	// The subscription has expired, or never was (RFC 8030 section 7.3).
	{404, 0, "", dead, notifier.ReasonInvalidAddress},
	{410, 0, "", dead, notifier.ReasonInvalidAddress},

	// Microsoft's word for too many.
	{406, 0, "", notSent, notifier.ReasonThrottled},
	{413, 0, "", rejected, notifier.ReasonBadContent},
	// Not processed; Retry-After says when to come back (RFC 8030 section 8.4).
	{429, 0, "", notSent, notifier.ReasonThrottled},

	// An internal error may come after the message was taken on, and a gateway
	// says 502 of what its bridge has carried out (Mozilla's errno 903).
	{500, 0, "", unknown, notifier.ReasonProviderError},
	{502, 0, "", unknown, notifier.ReasonProviderError},
	// Mozilla asks for the same message again: later, or at once.
	{503, 201, "", notSent, notifier.ReasonThrottled},
	{503, 202, "", notSent, notifier.ReasonThrottled},
	{503, 0, "", unknown, notifier.ReasonProviderError},
}

// byStatus reads a status that the table does not have. A redirect is not
// followed: the subscription has moved, and the page has to subscribe again.
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

// find judges a status with its body.
func find(status, errno int, body string) (notifier.Outcome, notifier.Reason) {
	body = strings.ToLower(body)
	for _, a := range answers {
		if a.status == status && (a.errno == 0 || a.errno == errno) && strings.Contains(body, a.words) {
			return a.outcome, a.reason
		}
	}
	return byStatus(status)
}

// read reads an answer. The status goes first: a body that is cut, or is a
// proxy's page, only takes the particulars away.
func read(a *channels.Answer, now time.Time) channels.Result {
	// Mozilla's body has a number and a message, Apple's a reason.
	var body struct {
		Errno   int    `json:"errno"`
		Message string `json:"message"`
		Reason  string `json:"reason"`
	}
	if json.Unmarshal(a.Body, &body) != nil {
		body.Errno, body.Message, body.Reason = 0, "", ""
	}
	var res channels.Result
	res.Outcome, res.Reason = find(a.Status, body.Errno, string(a.Body))
	res.ProviderStatus = strconv.Itoa(a.Status)
	if body.Errno != 0 {
		res.ProviderStatus += " errno " + strconv.Itoa(body.Errno)
	}
	res.ProviderStatus = channels.ShortStatus(res.ProviderStatus + " " + cmp.Or(body.Reason, body.Message))
	// The message's own resource (RFC 8030 section 5).
	res.ProviderID = channels.ShortStatus(a.Header.Get("Location"))
	res.RetryAfter, _ = channels.ParseRetryAfter(a.Header.Get("Retry-After"), now)
	return res
}
