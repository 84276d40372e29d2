package fcm

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
)

// Statuses that the SDK is shown in place of what it would send again for.
const (
	// statusLost stands for an error: the SDK repeats after any.
	statusLost = 599
	// statusUnavailable stands for 503, the one status that it repeats after.
	statusUnavailable = 598
)

// attempt is what an attempt's one request carries that the SDK has no room for.
type attempt struct {
	bearer string
	// delivery and fence go to what stands in for Google, for its log; empty: to nobody.
	delivery, fence string
	// tried says that the SDK got as far as a request.
	tried bool
}

type attemptKey struct{}

var errNoAttempt = errors.New("the request carries no attempt")

// once is the SDK's transport. The SDK repeats after every error, after a body
// that it cannot read, and after 503, and nothing in it switches that off. So it
// is shown none of them: an error becomes a status, the body has been read, and
// 503 is shown as another. What the wire really brought is in the attempt's
// Guard, which channels.SingleShot below fills.
type once struct{ next http.RoundTripper }

func (o once) RoundTrip(req *http.Request) (*http.Response, error) {
	a, _ := req.Context().Value(attemptKey{}).(*attempt)
	if a == nil {
		return answered(req, statusLost, errNoAttempt.Error()), nil
	}
	a.tried = true
	r := req.WithContext(req.Context())
	r.Header = req.Header.Clone()
	r.Header.Set("Authorization", "Bearer "+a.bearer)
	if a.delivery != "" {
		r.Header.Set("X-Delivery", a.delivery)
		r.Header.Set("X-Attempt", a.fence)
	}
	resp, err := o.next.RoundTrip(r)
	if err != nil {
		return answered(req, statusLost, ""), nil
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return answered(req, statusLost, ""), nil
	}
	if resp.StatusCode == http.StatusServiceUnavailable {
		return answered(req, statusUnavailable, ""), nil
	}
	resp.Body = io.NopCloser(bytes.NewReader(body))
	return resp, nil
}

// answered is an answer of our own making.
func answered(req *http.Request, status int, body string) *http.Response {
	return &http.Response{StatusCode: status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: http.Header{},
		Body: io.NopCloser(strings.NewReader(body)), ContentLength: int64(len(body)), Request: req}
}

func (o once) CloseIdleConnections() {
	if c, ok := o.next.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

func withAttempt(ctx context.Context, a *attempt) context.Context {
	return context.WithValue(ctx, attemptKey{}, a)
}
