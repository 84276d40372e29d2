package fcm

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"firebase.google.com/go/v4/messaging"

	"github.com/seed-4b260dfd/notifier"
	"github.com/seed-4b260dfd/notifier/channels"
)

func TestSender_Request(t *testing.T) {
	t.Parallel()
	g := serveGoogle(t, taken, nil)
	s := g.sender(t)
	d := newDelivery(t)
	got := send(t, s, d)
	if want := (channels.Result{Outcome: notifier.OutcomeSent, ProviderStatus: "200", ProviderID: "projects/demo-shop/messages/0:1"}); got != want {
		t.Fatalf("got %+v, want %+v", got, want)
	}
	r := g.requests[0]
	if r.Method != http.MethodPost || r.URL.Path != "/v1/projects/demo-shop/messages:send" || r.ProtoMajor != 2 {
		t.Errorf("got %s %s over HTTP/%d", r.Method, r.URL.Path, r.ProtoMajor)
	}
	for name, want := range map[string]string{"Authorization": "Bearer ya29.1", "X-Delivery": d.ID.String(), "X-Attempt": "3", "Content-Type": "application/json"} {
		if got := r.Header.Get(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	var body struct{ Message messaging.Message }
	if err := json.Unmarshal([]byte(g.bodies[0]), &body); err != nil {
		t.Fatal(err)
	}
	m := body.Message
	if m.Token != d.Address.Value || m.Notification.Title != "<&>" || m.Notification.Body != "語🎉\u2028" || m.Data[idField] != notifier.UUID(d.EffectKey) {
		t.Errorf("the body is %s", g.bodies[0])
	}
}

func TestSender_OwnIDsOnlyToAnEndpoint(t *testing.T) {
	t.Parallel()
	var none *provider
	s, err := New(Config{CredentialsFile: none.account(t, nil)})
	if err != nil {
		t.Fatal(err)
	}
	if s.named {
		t.Error("our ids would go to Google in headers")
	}
}

// The SDK sends again after each of these, up to four times. When a version of
// it finds a new way, this test is the one that says so.
func TestSender_SDKSendsOnce(t *testing.T) {
	t.Parallel()
	status := func(code int, header ...string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			for i := 0; i < len(header); i += 2 {
				w.Header().Set(header[i], header[i+1])
			}
			w.WriteHeader(code)
			io.WriteString(w, "<html>")
		}
	}
	for name, test := range map[string]struct {
		answer  http.HandlerFunc
		outcome notifier.Outcome
	}{
		"dropped": {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, unknown},
		"truncated": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "64")
			io.WriteString(w, `{"name":`)
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		}, sent},
		"503":          {status(503), unknown},
		"503 at once":  {status(503, "Retry-After", "0"), unknown},
		"500":          {status(500), unknown},
		"502":          {status(502), unknown},
		"429":          {status(429, "Retry-After", "0"), notSent},
		"408":          {status(408), unknown},
		"307":          {status(307, "Location", "/v1/projects/demo-shop/messages:send"), rejected},
		"302":          {status(302, "Location", "/v1/projects/demo-shop/messages:send"), rejected},
		"200 not JSON": {status(200), sent},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := serveGoogle(t, test.answer, nil)
			if got := send(t, g.sender(t), newDelivery(t)); got.Outcome != test.outcome {
				t.Errorf("got %+v, want %v", got, test.outcome)
			}
			if n := g.received(); n != 1 {
				t.Errorf("the server received %d requests, want 1", n)
			}
		})
	}
}

// Without our transport it does loop, which is what the test above is for: if
// it no longer did, the transport could go.
func TestSender_SDKWouldLoop(t *testing.T) {
	t.Parallel()
	g := serveGoogle(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(503) }, nil)
	s := g.sender(t)
	s.http.Transport = bare{s.http.Transport.(once)}
	gate := &channels.Guard{}
	ctx := channels.WithGuard(t.Context(), gate)
	_, _ = s.client.Send(withAttempt(ctx, &attempt{bearer: "x"}), mustMessage(t, newDelivery(t), time.Now()))
	if !gate.HiddenResend() {
		t.Error("the SDK did not try a second time after a 503")
	}
	if n := g.received(); n != 1 {
		t.Errorf("the server received %d requests, want 1: SingleShot is below", n)
	}
}

// bare is the transport without what hides a 503 from the SDK. After the
// second try it ends the loop with what the SDK does not repeat.
type bare struct{ once }

func (b bare) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := b.next.RoundTrip(req)
	if err != nil {
		return answered(req, 400, ""), nil
	}
	return resp, nil
}

func TestSender_BrokenContent(t *testing.T) {
	t.Parallel()
	g := serveGoogle(t, taken, nil)
	s := g.sender(t)
	for _, content := range []string{`{"push_type":"alert"}`, `not JSON`, `{"notification":{"title":"T","image":"i.png"}}`} {
		d := newDelivery(t)
		d.Content = notifier.Content(content)
		got := send(t, s, d)
		if got.Outcome != notifier.OutcomeRejected || got.Reason != notifier.ReasonBadContent || got.ProviderStatus == "" {
			t.Errorf("%s: got %+v, want rejected, bad_content", content, got)
		}
	}
	if n := g.received(); n != 0 {
		t.Errorf("%d requests were made", n)
	}
}

// A refused access token is replaced once: the calls that it failed try again
// with the new one.
func TestSender_RefusedToken(t *testing.T) {
	t.Parallel()
	g := serveGoogle(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") == "Bearer ya29.1" {
			w.WriteHeader(http.StatusUnauthorized)
			io.WriteString(w, `{"error":{"code":401,"status":"UNAUTHENTICATED"}}`)
			return
		}
		taken(w, r)
	}, nil)
	s := g.sender(t)
	d := newDelivery(t)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			r := send(t, s, d)
			for again := 0; r.Again && again < 3; again++ {
				if r.Outcome != notifier.OutcomeNotSent {
					t.Errorf("got %+v, want not_sent", r)
				}
				r = send(t, s, d)
			}
			if r.Outcome != notifier.OutcomeSent {
				t.Errorf("got %+v, want sent", r)
			}
		})
	}
	wg.Wait()
	if n := g.grants.Load(); n != 2 {
		t.Errorf("%d tokens were fetched, want 2", n)
	}
}

// Where the new token is refused too, the account is at fault: no storm of
// tokens follows, and deliveries wait.
func TestSender_EveryTokenRefused(t *testing.T) {
	t.Parallel()
	g := serveGoogle(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) }, nil)
	s := g.sender(t)
	d := newDelivery(t)
	if r := send(t, s, d); !r.Again || r.Outcome != notifier.OutcomeNotSent {
		t.Errorf("the first time: got %+v, want not_sent, again", r)
	}
	for range 5 {
		if r := send(t, s, d); r.Again || r.Outcome != notifier.OutcomeNotSent || r.Reason != notifier.ReasonBadCredentials {
			t.Errorf("after that: got %+v, want not_sent, bad_credentials", r)
		}
	}
	if n := g.grants.Load(); n != 2 {
		t.Errorf("%d tokens were fetched, want 2", n)
	}
}

func TestSender_NoToken(t *testing.T) {
	t.Parallel()
	oauth := func(status int, body string, header ...string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			for i := 0; i < len(header); i += 2 {
				w.Header().Set(header[i], header[i+1])
			}
			w.WriteHeader(status)
			io.WriteString(w, body)
		}
	}
	for name, test := range map[string]struct {
		grant  http.HandlerFunc
		reason notifier.Reason
		after  time.Duration
		words  string
	}{
		"key refused":  {oauth(400, `{"error":"invalid_grant","error_description":"Invalid JWT Signature."}`), notifier.ReasonBadCredentials, 0, "no access token: 400 invalid_grant"},
		"disabled":     {oauth(401, `{"error":"disabled_client"}`), notifier.ReasonBadCredentials, 0, "no access token: 401 disabled_client"},
		"an HTML page": {oauth(403, `<html>`), notifier.ReasonBadCredentials, 0, "no access token: 403"},
		"throttled":    {oauth(429, ``, "Retry-After", "30"), notifier.ReasonThrottled, 30 * time.Second, "no access token: 429"},
		"down":         {oauth(503, `<html>`), notifier.ReasonUnreachable, 0, "no access token: 503"},
		"no JSON":      {oauth(200, `<html>`), notifier.ReasonUnreachable, 0, "no access token: oauth2: cannot fetch token"},
		"empty":        {oauth(200, `{}`), notifier.ReasonUnreachable, 0, "no access token: the answer holds no access token"},
		"moved":        {oauth(307, ``, "Location", "/"), notifier.ReasonUnreachable, 0, "no access token: 307"},
		"dropped":      {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, notifier.ReasonUnreachable, 0, "no access token: oauth2: cannot fetch token"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := serveGoogle(t, taken, test.grant)
			got := send(t, g.sender(t), newDelivery(t))
			if got.Outcome != notifier.OutcomeNotSent || got.Reason != test.reason || got.RetryAfter != test.after || !strings.HasPrefix(got.ProviderStatus, test.words) {
				t.Errorf("got %+v, want not_sent, %s after %v: %s", got, test.reason, test.after, test.words)
			}
			if n := g.received(); n != 0 {
				t.Errorf("%d requests were made without a token", n)
			}
		})
	}
}

// A call does not wait for a token longer than it may, and the token that it
// left is there for the next.
func TestSender_TokenTooLate(t *testing.T) {
	t.Parallel()
	asked, release := make(chan struct{}, 1), make(chan struct{})
	var g *provider
	g = serveGoogle(t, taken, func(w http.ResponseWriter, _ *http.Request) {
		asked <- struct{}{}
		<-release
		g.give(w)
	})
	s := g.sender(t)
	d := newDelivery(t)
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-asked; cancel() }()
	got := s.Send(ctx, &channels.Call{Delivery: d, Fence: 1, Guard: &channels.Guard{}})
	if got.Outcome != notifier.OutcomeNotSent || got.Reason != notifier.ReasonUnreachable {
		t.Errorf("got %+v, want not_sent, unreachable", got)
	}
	close(release)
	if got := send(t, s, d); got.Outcome != notifier.OutcomeSent {
		t.Errorf("got %+v, want sent", got)
	}
	if n := g.grants.Load(); n != 1 {
		t.Errorf("%d tokens were fetched, want 1", n)
	}
}

func TestSender_Check(t *testing.T) {
	t.Parallel()
	answer := func(status int, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status); io.WriteString(w, body) }
	}
	for name, test := range map[string]struct {
		answer http.HandlerFunc
		want   string // of the error; empty: none
	}{
		"bad token":    {answer(400, errorBody("INVALID_ARGUMENT", "INVALID_ARGUMENT", tokenMessage)), ""},
		"other words":  {answer(400, errorBody("INVALID_ARGUMENT", "INVALID_ARGUMENT", "Request contains an invalid argument.")), ""},
		"unregistered": {answer(404, errorBody("NOT_FOUND", "UNREGISTERED", "")), ""},
		"no right":     {answer(403, `{"error":{"status":"PERMISSION_DENIED"}}`), "bad_credentials: 403 PERMISSION_DENIED"},
		"no account":   {answer(401, `{"error":{"status":"UNAUTHENTICATED"}}`), "bad_credentials: 401 UNAUTHENTICATED"},
		"wrong place":  {answer(404, "<html>"), "refused: 404"},
		"down":         {answer(503, ""), "provider_error: 503"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := serveGoogle(t, test.answer, nil)
			err := g.sender(t).Check(t.Context())
			if (err == nil) != (test.want == "") || err != nil && err.Error() != test.want {
				t.Errorf("got %v, want %q", err, test.want)
			}
			for _, body := range g.bodies {
				if !strings.Contains(body, `"validate_only":true`) || !strings.Contains(body, `"token":"`+nobody+`"`) {
					t.Errorf("a message that might reach somebody was sent: %s", body)
				}
			}
		})
	}
}
