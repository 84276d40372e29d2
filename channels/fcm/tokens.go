package fcm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"time"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/jwt"

	"github.com/seed-4b260dfd/notifier"
	"github.com/seed-4b260dfd/notifier/channels"
)

const (
	// fetchTimeout bounds one request for a token. Calls that wait for it have
	// deadlines of their own.
	fetchTimeout = 15 * time.Second
	// spare is how long before its end a token is not used any more.
	spare = 30 * time.Second
	// fetchPause is the least between two requests for a token ahead of time,
	// where the endpoint does not answer and the old one still holds.
	fetchPause = 10 * time.Second
	// keepRefused is how long a token that took the place of a refused one is
	// kept, refused itself: another would be no better.
	keepRefused = time.Minute
)

// bearer is an access token.
type bearer struct {
	token             string
	fetched, goodTill time.Time
	// replacement says that the one before it was refused, and that this one
	// has not been taken yet.
	replacement bool
}

// renewAt is when another is fetched, while this one still holds.
func (b *bearer) renewAt() time.Time {
	return b.fetched.Add(b.goodTill.Sub(b.fetched) * 9 / 10)
}

// tokens gives out an account's access token. It fetches at most one at a
// time, for everybody who waits for it, and outside of their calls: a call that
// ends leaves the token to the others.
type tokens struct {
	fetch func() (*oauth2.Token, error)

	mu      sync.Mutex
	current *bearer
	flight  *flight
	tried   time.Time // the last request for a token
	refused bool      // the last token was refused
}

// flight is a request for a token that is under way.
type flight struct {
	done chan struct{}
	err  error
}

// newTokens returns the tokens of a service account. They come over hc.
func newTokens(c *jwt.Config, hc *http.Client) *tokens {
	ctx := context.WithValue(context.Background(), oauth2.HTTPClient, hc)
	// A source keeps its token until the end of it, refused or not; so each
	// request is made by a source of its own.
	return &tokens{fetch: func() (*oauth2.Token, error) { return c.TokenSource(ctx).Token() }}
}

// newTokenClient returns the client that fetches tokens. To ask twice for one
// does no harm, so it is a plain client.
func newTokenClient(cfg channels.AccountConfig) (*http.Client, error) {
	t, err := cfg.TLS()
	if err != nil {
		return nil, err
	}
	return &http.Client{
		Timeout: fetchTimeout,
		Transport: &http.Transport{DialContext: channels.Dialer(cfg.AllowPrivate), TLSClientConfig: t,
			TLSHandshakeTimeout: fetchTimeout, ForceAttemptHTTP2: true, IdleConnTimeout: time.Minute},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}, nil
}

// get returns a token that holds, and waits for one within ctx if need be.
func (t *tokens) get(ctx context.Context) (string, error) {
	for {
		t.mu.Lock()
		now := time.Now()
		b := t.current
		holds := b != nil && now.Before(b.goodTill.Add(-spare))
		if t.flight == nil && (!holds || now.After(b.renewAt()) && now.Sub(t.tried) > fetchPause) {
			t.flight = &flight{done: make(chan struct{})}
			t.tried = now
			go t.fly(t.flight)
		}
		f := t.flight
		t.mu.Unlock()
		if holds {
			return b.token, nil
		}
		select {
		case <-f.done:
			if f.err != nil {
				return "", f.err
			}
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}
}

// fly fetches a token. An assertion that is good for an hour gives a token that
// is good for as long; a shorter one is used all the same, until it is refused.
func (t *tokens) fly(f *flight) {
	got, err := t.fetch()
	if err == nil && got.AccessToken == "" {
		err = errors.New("the answer holds no access token")
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	defer close(f.done)
	t.flight = nil
	if f.err = err; err != nil {
		return
	}
	now := time.Now()
	b := &bearer{token: got.AccessToken, fetched: now, goodTill: got.Expiry, replacement: t.refused}
	if got.Expiry.Sub(now) < 2*spare { // unsaid, or next to nothing
		b.goodTill = now.Add(4 * spare)
	}
	t.current, t.refused = b, false
}

// reject is told that Google refused a token, and reports whether another
// attempt can do better: it has or will have another token. That is so once: a
// token that took the place of a refused one and is refused too says that the
// account is at fault.
func (t *tokens) reject(used string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	b := t.current
	if b == nil || b.token != used {
		return true // another call was told so before
	}
	if !b.replacement || time.Since(b.fetched) > keepRefused {
		t.current, t.refused = nil, true
	}
	return !b.replacement
}

// accept is told that Google took a token.
func (t *tokens) accept(used string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.current != nil && t.current.token == used {
		t.current.replacement = false
	}
}

// withoutToken is the result of an attempt for which there was no token:
// nothing was sent. Where the endpoint refuses our key, somebody has to look at
// it; all else is trouble on the way.
// https://developers.google.com/identity/protocols/oauth2/service-account#error-codes
func withoutToken(err error, now time.Time) channels.Result {
	res := channels.Result{Outcome: notifier.OutcomeNotSent, Reason: notifier.ReasonUnreachable,
		ProviderStatus: channels.ShortStatus("no access token: " + err.Error())}
	var refused *oauth2.RetrieveError
	if !errors.As(err, &refused) {
		return res
	}
	status := refused.Response.StatusCode
	res.ProviderStatus = channels.ShortStatus(fmt.Sprintf("no access token: %d %s", status, oauthCode(refused.Body)))
	switch {
	case status == http.StatusTooManyRequests:
		res.Reason = notifier.ReasonThrottled
	case status >= 400 && status < 500 && status != http.StatusRequestTimeout:
		res.Reason = notifier.ReasonBadCredentials
	}
	res.RetryAfter, _ = channels.ParseRetryAfter(refused.Response.Header.Get("Retry-After"), now)
	return res
}

// oauthCode is the error of RFC 6749 section 5.2, if the body holds one.
func oauthCode(body []byte) string {
	var e struct {
		Error string `json:"error"`
	}
	if json.Unmarshal(body, &e) != nil || len(e.Error) > 40 {
		return ""
	}
	if s, err := strconv.Unquote(strconv.QuoteToASCII(e.Error)); err != nil || s != e.Error {
		return ""
	}
	return e.Error
}
