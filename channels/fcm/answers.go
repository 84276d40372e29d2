package fcm

import (
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/seed-4b260dfd/notifier"
	"github.com/seed-4b260dfd/notifier/channels"
)

// answer is a row of the table: what a status with a code means.
type answer struct {
	status int
	// code is FCM's own, from a detail of the type FcmError; empty: any other, or none.
	code    string
	outcome notifier.Outcome
	reason  notifier.Reason
	// wait is the shortest Retry-After that is believed, or without one the
	// time to stay away.
	wait time.Duration
}

// What "refused for good", "later" and the like are in our words.
const (
	unknown  = notifier.OutcomeUnknown
	sent     = notifier.OutcomeSent
	rejected = notifier.OutcomeRejected
	dead     = notifier.OutcomeInvalidAddress
	notSent  = notifier.OutcomeNotSent
)

// badToken is the code of a row that FCM has no code for: INVALID_ARGUMENT that
// is about the registration token.
const badToken = "INVALID_ARGUMENT token"

const (
	// quotaWait is what Google asks for where a 429 names no time.
	quotaWait = time.Minute
	// troubleWait is the least that Google asks for after a 500 or a 503.
	troubleWait = 10 * time.Second
)

// answers is Google's table with our reading of it.
// https://firebase.google.com/docs/reference/fcm/rest/v1/ErrorCode
// The waits are those of
// https://firebase.google.com/docs/cloud-messaging/scale-fcm#handling-retries
//
// A code that is not in it is read by its status alone, and a status that is
// not in it by its class: see byStatus.
var answers = [...]answer{
	// Accepted. Whether the device shows it is not said.
	{200, "", sent, notifier.ReasonNone, 0},

	// Too big, a reserved key, a wrong ttl: ours to mend, never to repeat.
	{400, "INVALID_ARGUMENT", rejected, notifier.ReasonRefused, 0},
	// The same code, and the token is what it is about: nobody has such a token.
	{400, badToken, dead, notifier.ReasonInvalidAddress, 0},

	// The APNs key or Web Push certificate that the project holds is refused,
	// for every device of that kind. It can be mended, so deliveries wait.
	{401, "THIRD_PARTY_AUTH_ERROR", notSent, notifier.ReasonBadCredentials, 0},
	// Our access token is not good any more: a new one, once (see read).
	{401, "", notSent, notifier.ReasonBadCredentials, 0},

	// The token belongs to another project: this one will never reach it.
	{403, "SENDER_ID_MISMATCH", dead, notifier.ReasonInvalidAddress, 0},
	// The service account may not send, or the API is off: for every device alike.
	{403, "", notSent, notifier.ReasonBadCredentials, 0},

	// The app was removed, or the token replaced.
	{404, "UNREGISTERED", dead, notifier.ReasonInvalidAddress, 0},
	// Without the code it is the address of the API that is wrong, which is no
	// reason to give up a device.
	{404, "", rejected, notifier.ReasonRefused, 0},

	// A quota: of the project, or of one device.
	{429, "QUOTA_EXCEEDED", notSent, notifier.ReasonThrottled, 0},
	{429, "", notSent, notifier.ReasonThrottled, 0},

	// An internal error may come after the message was taken on.
	{500, "", unknown, notifier.ReasonProviderError, troubleWait},
	// Messages answered so have been delivered.
	// https://github.com/firebase/firebase-admin-node/issues/1248
	{503, "", unknown, notifier.ReasonProviderError, troubleWait},
}

// byStatus reads a status that the table does not have: the word of something
// in between, for the most part.
func byStatus(status int) answer {
	a := answer{status: status, outcome: unknown, reason: notifier.ReasonProviderError}
	switch {
	case status >= 200 && status < 300:
		a.outcome, a.reason = sent, notifier.ReasonNone
	case status == http.StatusRequestTimeout:
		// Something in between gave up waiting; what it had passed on is not known.
	case status >= 300 && status < 500:
		a.outcome, a.reason = rejected, notifier.ReasonRefused
	default:
		a.wait = troubleWait
	}
	return a
}

func find(status int, code string) answer {
	for _, a := range answers {
		if a.status == status && (a.code == code || a.code == "") {
			return a
		}
	}
	return byStatus(status)
}

// reply is the body of an answer, as far as it is of use.
type reply struct {
	Name  string `json:"name"`
	Error struct {
		Message string `json:"message"`
		Status  string `json:"status"`
		Details []struct {
			Type       string `json:"@type"`
			ErrorCode  string `json:"errorCode"`
			Violations []struct {
				Field string `json:"field"`
			} `json:"fieldViolations"`
			// Exceeded are those of a google.rpc.QuotaFailure.
			Exceeded []struct {
				Subject     string `json:"subject"`
				Description string `json:"description"`
			} `json:"violations"`
		} `json:"details"`
	} `json:"error"`
}

// code is FCM's own code, if the answer has one.
func (r *reply) code() string {
	code, aboutToken := "", strings.HasPrefix(r.Error.Message, "The registration token is not a valid FCM registration token")
	for _, d := range r.Error.Details {
		switch strings.TrimPrefix(d.Type, "type.googleapis.com/") {
		case "google.firebase.fcm.v1.FcmError":
			code = d.ErrorCode
		case "google.rpc.BadRequest":
			for _, v := range d.Violations {
				aboutToken = aboutToken || v.Field == "message.token"
			}
		}
	}
	if code == "INVALID_ARGUMENT" && aboutToken {
		return badToken
	}
	return code
}

// oneTarget reports whether the quota that was exceeded is that of a device or a
// topic. All others, and one that is not named, are the project's.
// https://firebase.google.com/docs/cloud-messaging/throttling-and-quotas
func (r *reply) oneTarget() bool {
	for _, d := range r.Error.Details {
		for _, v := range d.Exceeded {
			if said := strings.ToLower(v.Subject + " " + v.Description); strings.Contains(said, "device") || strings.Contains(said, "topic") {
				return true
			}
		}
	}
	return false
}

// read reads an answer, and reports whether it says that our access token is
// not good any more. The status goes first: a body that is cut, or is a proxy's
// page, only takes the code away.
func read(a *channels.Answer, now time.Time) (res channels.Result, unauthenticated bool) {
	var body reply
	if len(a.Body) > 0 && json.Unmarshal(a.Body, &body) != nil {
		body = reply{}
	}
	code := body.code()
	row := find(a.Status, code)
	res.Outcome, res.Reason = row.outcome, row.reason
	words := []string{strconv.Itoa(a.Status), code, body.Error.Status}
	if code != "" {
		words = words[:2]
	}
	res.ProviderStatus = channels.ShortStatus(strings.Join(slices.DeleteFunc(words, func(s string) bool { return s == "" }), " "))
	res.ProviderID = channels.ShortStatus(body.Name)
	asked, ok := channels.ParseRetryAfter(a.Header.Get("Retry-After"), now)
	res.RetryAfter = max(asked, row.wait)
	if !ok && a.Status == http.StatusTooManyRequests {
		res.RetryAfter = quotaWait
	}
	res.AccountWide = a.Status == http.StatusTooManyRequests && !body.oneTarget()
	return res, a.Status == http.StatusUnauthorized && row.code == ""
}
