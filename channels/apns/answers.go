package apns

import (
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"github.com/seed-4b260dfd/notifier"
	"github.com/seed-4b260dfd/notifier/channels"
)

// answer is a row of the table: what a status with a reason means.
type answer struct {
	status int
	// name is Apple's reason; empty: any other.
	name    string
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

const (
	expiredToken  = "ExpiredProviderToken"
	tooManyTokens = "TooManyProviderTokenUpdates"
)

// answers is Apple's table with our reading of it.
// https://developer.apple.com/documentation/usernotifications/handling-notification-responses-from-apns
//
// A reason that is not in it is read by its status alone, and a status that is
// not in it by its class: see byStatus.
var answers = [...]answer{
	// Accepted. Whether the device shows it is not said.
	{200, "", sent, notifier.ReasonNone},

	// The token is not one of this environment, or is none at all. The two
	// cannot be told apart, so the address is not given up for other accounts.
	{400, "BadDeviceToken", rejected, notifier.ReasonInvalidAddress},
	// The token belongs to another app. Apple asks not to try again. One such
	// token in a request must not stop the account, so this is the address's fault.
	{400, "DeviceTokenNotForTopic", rejected, notifier.ReasonInvalidAddress},
	// The account's topic is wrong for every device alike.
	{400, "TopicDisallowed", notSent, notifier.ReasonBadCredentials},
	{400, "BadTopic", notSent, notifier.ReasonBadCredentials},
	{400, "MissingTopic", notSent, notifier.ReasonBadCredentials},
	// The request was malformed: ours to mend, never to repeat.
	{400, "BadCollapseId", rejected, notifier.ReasonRefused},
	{400, "BadExpirationDate", rejected, notifier.ReasonRefused},
	{400, "BadMessageId", rejected, notifier.ReasonRefused},
	{400, "BadPriority", rejected, notifier.ReasonRefused},
	{400, "DuplicateHeaders", rejected, notifier.ReasonRefused},
	{400, "InvalidPushType", rejected, notifier.ReasonRefused},
	{400, "MissingDeviceToken", rejected, notifier.ReasonRefused},
	{400, "PayloadEmpty", rejected, notifier.ReasonBadContent},
	// The connection was given up before the request was whole.
	{400, "IdleTimeout", notSent, notifier.ReasonUnreachable},

	// The token was issued more than an hour ago: a new one, once.
	{403, expiredToken, notSent, notifier.ReasonNone},
	// The key, the team or the certificate is refused for every device alike.
	// The key may be mended, so deliveries wait instead of ending.
	{403, "InvalidProviderToken", notSent, notifier.ReasonBadCredentials},
	{403, "MissingProviderToken", notSent, notifier.ReasonBadCredentials},
	{403, "BadCertificate", notSent, notifier.ReasonBadCredentials},
	{403, "BadCertificateEnvironment", notSent, notifier.ReasonBadCredentials},
	{403, "Forbidden", notSent, notifier.ReasonBadCredentials},
	{403, "UnrelatedKeyIdInToken", notSent, notifier.ReasonBadCredentials},
	{403, "BadEnvironmentKeyIdInToken", notSent, notifier.ReasonBadCredentials},
	// The spelling that Firebase passes on from APNs.
	{403, "BadEnvironmentKeyInToken", notSent, notifier.ReasonBadCredentials},

	{404, "BadPath", rejected, notifier.ReasonRefused},
	{405, "MethodNotAllowed", rejected, notifier.ReasonRefused},

	// The app was removed, or the token replaced; with the time of it.
	{410, "Unregistered", dead, notifier.ReasonInvalidAddress},
	{410, "ExpiredToken", dead, notifier.ReasonInvalidAddress},
	{410, "", dead, notifier.ReasonInvalidAddress},

	{413, "", rejected, notifier.ReasonBadContent},

	// Too many for one device, and a token that changes too often.
	{429, "TooManyRequests", notSent, notifier.ReasonThrottled},
	{429, tooManyTokens, notSent, notifier.ReasonThrottled},
	{429, "", notSent, notifier.ReasonThrottled},

	// An internal error may come after the push was taken on.
	{500, "", unknown, notifier.ReasonProviderError},
	// By their names these refuse, but no page of Apple's promises that a
	// request answered so was not taken on.
	{503, "ServiceUnavailable", unknown, notifier.ReasonProviderError},
	{503, "Shutdown", unknown, notifier.ReasonProviderError},
	{503, "", unknown, notifier.ReasonProviderError},
}

// byStatus reads a status that the table does not have: a success that Apple
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

func find(status int, name string) (notifier.Outcome, notifier.Reason) {
	for _, a := range answers {
		if a.status == status && (a.name == name || a.name == "") {
			return a.outcome, a.reason
		}
	}
	return byStatus(status)
}

// read reads an answer, and reports whether it says that our token has
// expired. The status goes first: a body that is cut, or is a proxy's page,
// only takes the reason away.
func read(a *channels.Answer, now time.Time) (res channels.Result, expired bool) {
	var body struct {
		Reason    string `json:"reason"`
		Timestamp int64  `json:"timestamp"` // milliseconds; with 410 only
	}
	if len(a.Body) > 0 && json.Unmarshal(a.Body, &body) != nil {
		body.Reason, body.Timestamp = "", 0
	}
	res.Outcome, res.Reason = find(a.Status, body.Reason)
	res.ProviderStatus = channels.ShortStatus(strconv.Itoa(a.Status) + " " + body.Reason)
	res.ProviderID = channels.ShortStatus(a.Header.Get("Apns-Id"))
	res.RetryAfter, _ = channels.ParseRetryAfter(a.Header.Get("Retry-After"), now)
	// TooManyRequests is about one device, this about the connection.
	res.AccountWide = a.Status == http.StatusTooManyRequests && body.Reason == tooManyTokens
	if res.Outcome == dead && body.Timestamp > 0 {
		res.InvalidSince = time.UnixMilli(body.Timestamp)
	}
	return res, a.Status == http.StatusForbidden && body.Reason == expiredToken
}
