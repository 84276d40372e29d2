package sms

import (
	"crypto/hmac"
	"crypto/sha1" // what Twilio signs with
	"crypto/subtle"
	"encoding/base64"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/seed-4b260dfd/notifier"
	"github.com/seed-4b260dfd/notifier/channels"
)

// deliveryParameter is the query parameter of the status callback's URL that
// names the delivery.
const deliveryParameter = "delivery"

// Receipts reads a status callback. Its address is the one that the message
// was sent with, so that each says which delivery it is about, and that Twilio
// had taken it.
// https://www.twilio.com/docs/messaging/guides/track-outbound-message-status
func (s *Sender) Receipts(callback string, header http.Header, body []byte) ([]channels.Receipt, error) {
	params, err := url.ParseQuery(string(body))
	if err != nil {
		// Unsigned or not cannot be told of what cannot be read.
		return nil, &notifier.Error{Code: notifier.CodeInvalid, Message: "the body is not a form"}
	}
	if !s.signed(callback, params, header.Get("X-Twilio-Signature")) {
		return nil, &notifier.Error{Code: notifier.CodeUnauthenticated,
			Message: "X-Twilio-Signature is not that of this account for this URL and body"}
	}
	u, err := url.Parse(callback)
	if err != nil {
		return nil, invalid(deliveryParameter, "the URL cannot be read")
	}
	id, err := notifier.ParseDeliveryID(u.Query().Get(deliveryParameter))
	if err != nil {
		return nil, invalid(deliveryParameter, "the URL names no delivery; allowed is the URL that the message was sent with")
	}
	status := params.Get("MessageStatus")
	if status == "" {
		return nil, invalid("MessageStatus", "is required")
	}
	code, _ := strconv.Atoi(params.Get("ErrorCode")) // none: 0
	state, reason := stateOf(status, code)
	if state == "" {
		return nil, nil
	}
	r := channels.Receipt{Delivery: id, State: state, Reason: reason,
		ProviderStatus: channels.ShortStatus(statusWith(status, code)), ProviderID: channels.ShortStatus(params.Get("MessageSid"))}
	return []channels.Receipt{r}, nil
}

// stateOf reads a message's status; empty: it says nothing of our messages.
// https://www.twilio.com/docs/messaging/api/message-resource#message-status-values
func stateOf(status string, code int) (notifier.State, notifier.Reason) {
	switch status {
	case "accepted", "scheduled", "queued", "sending", "sent":
		return notifier.StateSent, notifier.ReasonNone
	case "delivered", "read", "partially_delivered":
		return notifier.StateDelivered, notifier.ReasonNone
	case "undelivered", "failed":
		if deadLater(code) {
			return notifier.StateRejected, notifier.ReasonInvalidAddress
		}
		return notifier.StateRejected, notifier.ReasonRefused
	case "canceled":
		return notifier.StateRejected, notifier.ReasonRefused
	default:
		return "", notifier.ReasonNone
	}
}

// deadLater reports whether an error code of a message that was taken means
// that the number is dead: an unknown handset (30005), a landline (30006), and
// what an answer would have said at once. A handset that is switched off (30003), a
// filter (30007) and a failure that nobody explains (30008) mean no such thing.
// https://www.twilio.com/docs/api/errors
func deadLater(code int) bool {
	if code == 30005 || code == 30006 {
		return true
	}
	outcome, _ := find(http.StatusBadRequest, code)
	return outcome == dead
}

// statusWith is a status with its error code, as in "undelivered 30005".
func statusWith(status string, code int) string {
	if code == 0 {
		return status
	}
	return status + " " + strconv.Itoa(code)
}

// signed checks the signature of a call to one of our URLs. Twilio leaves a
// port out, or puts the scheme's own in, as it likes, so both are tried.
// https://www.twilio.com/docs/usage/security#validating-requests
func (s *Sender) signed(callback string, params url.Values, signature string) bool {
	given, err := base64.StdEncoding.DecodeString(signature)
	if err != nil || len(given) != sha1.Size {
		return false
	}
	ok := 0
	for _, u := range []string{callback, otherPort(callback)} {
		ok |= subtle.ConstantTimeCompare(given, sign(s.cfg.AuthToken, u, params))
	}
	return ok == 1
}

// sign is HMAC-SHA1 over the URL and each parameter's name and value, sorted.
func sign(token, callback string, params url.Values) []byte {
	mac := hmac.New(sha1.New, []byte(token))
	mac.Write([]byte(callback))
	names := make([]string, 0, len(params))
	for name := range params {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		values := slices.Clone(params[name])
		slices.Sort(values)
		for _, v := range slices.Compact(values) {
			mac.Write([]byte(name + v))
		}
	}
	return mac.Sum(nil)
}

// otherPort is the URL with its port left out, or with the scheme's put in.
func otherPort(callback string) string {
	scheme, rest, _ := strings.Cut(callback, "://")
	end := strings.IndexAny(rest, "/?#")
	if end < 0 {
		end = len(rest)
	}
	host, tail := rest[:end], rest[end:]
	if i := strings.LastIndexByte(host, ':'); i > strings.LastIndexByte(host, ']') {
		return scheme + "://" + host[:i] + tail
	}
	port := ":443"
	if scheme == "http" {
		port = ":80"
	}
	return scheme + "://" + host + port + tail
}
