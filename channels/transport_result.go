package channels

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/url"
	"strings"
	"unicode"

	"golang.org/x/net/http2"

	"github.com/seed-4b260dfd/notifier"
)

// TransportResult says what an attempt came to that has no answer: err is the
// error of the call, for libraries above SingleShot; the transport's own error,
// kept in g, goes before it.
//
// Not sent is only what is proved: the gate never passed and is closed now, no
// connection was had, or the peer said that it did not process the stream.
// That a write failed, or that the connection was an old one, proves nothing.
func TransportResult(err error, g *Guard) Result {
	if first := g.err(); first != nil {
		err = first
	}
	res := Result{ProviderStatus: shortError(err)}
	switch {
	case g.ProveUnsent():
		res.Outcome, res.Reason = notifier.OutcomeNotSent, notifier.ReasonUnreachable
		if g.refused.Load() {
			res.Reason = notifier.ReasonGate
		}
	case g.gotConn.Load() == 0:
		res.Outcome, res.Reason = notifier.OutcomeNotSent, notifier.ReasonUnreachable
	case g.firstByte.Load() > 0:
		res.Reason = lostReason(err)
	case refusedByPeer(err):
		res.Outcome, res.Reason = notifier.OutcomeNotSent, notifier.ReasonUnreachable
	case refusedCertificate(err):
		res.Outcome, res.Reason = notifier.OutcomeNotSent, notifier.ReasonBadCredentials
	default:
		res.Reason = lostReason(err)
	}
	return res
}

// lostReason tells a call that ran out of time from one whose connection broke.
func lostReason(err error) notifier.Reason {
	var ne net.Error
	if errors.Is(err, context.DeadlineExceeded) || (errors.As(err, &ne) && ne.Timeout()) {
		return notifier.ReasonTimeOut
	}
	return notifier.ReasonReplyLost
}

// refusedByPeer reports whether the HTTP/2 peer said that it did not process
// the stream: RST_STREAM with REFUSED_STREAM, or GOAWAY with a last stream id
// below ours (RFC 9113 sections 6.8 and 8.7). golang.org/x/net/http2 has no
// types for these, so its texts are compared; from the front, since text that
// the peer chose may follow.
func refusedByPeer(err error) bool {
	//lint:ignore SA1019 there is no other type for it
	var goAway http2.GoAwayError // our stream was not above its last
	if err == nil || errors.As(err, &goAway) {
		return false
	}
	s := withoutURL(err).Error()
	if inner, ok := strings.CutPrefix(s, "http2: Transport: cannot retry err ["); ok {
		s = inner
	}
	if strings.HasPrefix(s, "stream error: stream ID ") {
		return strings.Contains(s, "; REFUSED_STREAM; received from peer")
	}
	for _, p := range []string{
		"http2: Transport received Server's graceful shutdown GOAWAY",
		"http2: Transport received GOAWAY from server ErrCode:", // only ever the first stream, above the last
		"http2: client conn not usable",
		"http2: client conn could not be established",
	} {
		if strings.HasPrefix(s, p) {
			return true
		}
	}
	return false
}

// refusedCertificate reports whether the peer ended the TLS session over our
// certificate. In TLS 1.3 its alert comes after our first request was written
// (RFC 8446 section 4.4.2.4), but that request's handler never ran.
func refusedCertificate(err error) bool {
	var op *net.OpError
	var alert tls.AlertError
	if !errors.As(err, &op) || op.Op != "remote error" || errors.As(err, &alert) {
		return false
	}
	switch op.Err.Error() {
	case "tls: certificate required", "tls: bad certificate", "tls: unknown certificate authority",
		"tls: unsupported certificate", "tls: expired certificate", "tls: revoked certificate", "tls: unknown certificate":
		return true
	}
	return false
}

// withoutURL takes off the wrapping of http.Client, which quotes the address.
func withoutURL(err error) error {
	for {
		var u *url.Error
		if !errors.As(err, &u) {
			return err
		}
		err = u.Err
	}
}

// maxStatusBytes bounds a ProviderStatus made from an error or a provider's words.
const maxStatusBytes = 200

func shortError(err error) string {
	if err == nil {
		return ""
	}
	return ShortStatus(withoutURL(err).Error())
}

// ShortStatus returns s as a ProviderStatus: one line of at most 200 bytes,
// without what is not printable.
func ShortStatus(s string) string {
	s = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "?"))
	if len(s) > maxStatusBytes {
		s = strings.ToValidUTF8(s[:maxStatusBytes], "")
	}
	return strings.TrimSpace(s)
}
