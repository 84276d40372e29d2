package apns

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v4"
	"github.com/sideshow/apns2/token"

	"github.com/seed-4b260dfd/notifier"
	"github.com/seed-4b260dfd/notifier/channels"
)

func TestExpiration_NeverZero(t *testing.T) {
	t.Parallel()
	for _, zero := range []time.Time{{}, time.Unix(0, 0), time.Unix(-5, 0), time.Unix(0, 999)} {
		if got := expiration(zero); got.Unix() != 1 {
			t.Errorf("%v: got %v, want one second into 1970", zero, got)
		}
	}
	at := time.Unix(1764553976, 5)
	if got := expiration(at); !got.Equal(at) {
		t.Errorf("got %v, want %v", got, at)
	}
}

// apple is a loopback server that keeps what it was sent.
type apple struct {
	*httptest.Server
	mu       sync.Mutex
	requests []*http.Request
	bodies   []string
}

func serveApple(t *testing.T, answer http.HandlerFunc) *apple {
	t.Helper()
	a := &apple{}
	a.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		a.mu.Lock()
		a.requests, a.bodies = append(a.requests, r), append(a.bodies, string(body))
		a.mu.Unlock()
		answer(w, r)
	}))
	a.EnableHTTP2 = true
	a.StartTLS()
	t.Cleanup(a.Close)
	return a
}

func (a *apple) sender(t *testing.T) *Sender {
	t.Helper()
	cfg := goodConfig(t)
	cfg.AccountConfig = channels.AccountConfig{Endpoint: a.URL, AllowPrivate: true, CAFile: writePEM(t, "CERTIFICATE", a.Certificate().Raw)}
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func newDelivery(t *testing.T, fields map[string]any) *notifier.Delivery {
	t.Helper()
	content, err := Kind{}.Prepare(fields)
	if err != nil {
		t.Fatal(err)
	}
	token := strings.Repeat("ab", 32)
	return &notifier.Delivery{
		ID:         notifier.DeliveryID{Notification: notifier.NewID(time.Unix(1764553976, 0), 1, [8]byte{1}), Ordinal: 2},
		Address:    notifier.Address{Value: token},
		Content:    content,
		CollapseID: "order-42",
		EffectKey:  notifier.EffectKey("t", "k", notifier.ChannelAPNs, token),
		ExpiresAt:  time.Unix(1764557576, 0),
	}
}

func send(t *testing.T, s *Sender, d *notifier.Delivery, fence int64) channels.Result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	return s.Send(ctx, &channels.Call{Delivery: d, Fence: fence, Guard: &channels.Guard{}})
}

func TestSender_Request(t *testing.T) {
	t.Parallel()
	a := serveApple(t, func(w http.ResponseWriter, r *http.Request) { w.Header().Set("apns-id", r.Header.Get("apns-id")) })
	s := a.sender(t)
	d := newDelivery(t, map[string]any{"title": "<&>", "body": "語🎉\u2028"})
	got := send(t, s, d, 3)
	if want := (channels.Result{Outcome: notifier.OutcomeSent, ProviderStatus: "200", ProviderID: notifier.UUID(d.EffectKey)}); got != want {
		t.Fatalf("got %+v, want %+v", got, want)
	}
	if r := send(t, s, newDelivery(t, map[string]any{"data": map[string]any{"a": 1}}), 1); r.Outcome != notifier.OutcomeSent {
		t.Fatalf("background: got %+v", r)
	}
	if a.bodies[0] != string(payloadOf(t, d.Content)) || a.requests[0].ContentLength != int64(len(a.bodies[0])) {
		t.Errorf("the body is %q, want the stored payload %s", a.bodies[0], d.Content)
	}
	common := map[string]string{
		"Apns-Id": notifier.UUID(d.EffectKey), "Apns-Topic": "com.example.app", "Apns-Expiration": "1764557576",
		"X-Delivery": d.ID.String(), "Content-Type": "application/json; charset=utf-8",
	}
	for i, own := range []map[string]string{
		{"Apns-Push-Type": "alert", "Apns-Priority": "10", "Apns-Collapse-Id": "order-42", "X-Attempt": "3"},
		{"Apns-Push-Type": "background", "Apns-Priority": "5", "Apns-Collapse-Id": "", "X-Attempt": "1"},
	} {
		r := a.requests[i]
		for _, headers := range []map[string]string{common, own} {
			for name, want := range headers {
				if got := r.Header.Get(name); got != want {
					t.Errorf("request %d: %s is %q, want %q", i, name, got, want)
				}
			}
		}
		if r.URL.Path != "/3/device/"+d.Address.Value || r.Method != http.MethodPost || !strings.HasPrefix(r.Header.Get("Authorization"), "bearer ey") {
			t.Errorf("request %d: %s %s with %q", i, r.Method, r.URL.Path, r.Header.Get("Authorization"))
		}
	}
}

func TestSender_OwnIDsOnlyToAnEndpoint(t *testing.T) {
	t.Parallel()
	s, err := New(goodConfig(t))
	if err != nil {
		t.Fatal(err)
	}
	p := s.parts(&channels.Call{Delivery: newDelivery(t, map[string]any{"title": "T"}), Fence: 1}, content{})
	if p.delivery != "" || p.attempt != "" {
		t.Errorf("%+v would go to Apple", p)
	}
}

func TestSender_BrokenContent(t *testing.T) {
	t.Parallel()
	a := serveApple(t, func(http.ResponseWriter, *http.Request) {})
	d := newDelivery(t, map[string]any{"title": "T"})
	d.Content = notifier.Content(`{"title":"T"}`)
	if got := send(t, a.sender(t), d, 1); got.Outcome != notifier.OutcomeRejected || got.Reason != notifier.ReasonBadContent || len(a.bodies) != 0 {
		t.Errorf("got %+v after %d requests, want rejected, bad_content after none", got, len(a.bodies))
	}
}

// A token that Apple calls expired is replaced once, by whichever call hears
// of it first; the others try again with the new one.
func TestSender_ExpiredToken(t *testing.T) {
	t.Parallel()
	valid := func(r *http.Request) bool {
		raw := strings.TrimPrefix(r.Header.Get("Authorization"), "bearer ")
		claims := jwt.MapClaims{}
		_, _, err := jwt.NewParser().ParseUnverified(raw, claims)
		iat, _ := claims["iat"].(float64)
		return err == nil && time.Since(time.Unix(int64(iat), 0)) < time.Hour
	}
	a := serveApple(t, func(w http.ResponseWriter, r *http.Request) {
		if !valid(r) {
			w.WriteHeader(http.StatusForbidden)
			io.WriteString(w, `{"reason":"ExpiredProviderToken"}`)
		}
	})
	s := a.sender(t)
	old := sign(t, s.client.Token, time.Now().Add(-2*time.Hour))
	// The process slept: by its own reckoning the token is half an hour old.
	s.client.Token.Bearer, s.client.Token.IssuedAt = old, time.Now().Add(-30*time.Minute).Unix()
	d := newDelivery(t, map[string]any{"title": "T"})
	const calls = 8
	var wg sync.WaitGroup
	for i := range calls {
		wg.Go(func() {
			r := send(t, s, d, int64(i))
			for again := 0; r.Again && again < 2; again++ {
				if r.Outcome != notifier.OutcomeNotSent {
					t.Errorf("call %d: got %+v, want not_sent", i, r)
				}
				r = send(t, s, d, int64(100+i))
			}
			if r.Outcome != notifier.OutcomeSent {
				t.Errorf("call %d: got %+v, want sent", i, r)
			}
		})
	}
	wg.Wait()
	a.mu.Lock()
	defer a.mu.Unlock()
	bearers := map[string]int{}
	for _, r := range a.requests {
		bearers[r.Header.Get("Authorization")]++
	}
	if len(bearers) != 2 || bearers["bearer "+old] == 0 {
		t.Errorf("%d tokens were used, want the old one and one new one", len(bearers))
	}
}

func sign(t *testing.T, key *token.Token, at time.Time) string {
	t.Helper()
	jwtToken := jwt.NewWithClaims(jwt.SigningMethodES256, jwt.MapClaims{"iss": key.TeamID, "iat": at.Unix()})
	jwtToken.Header["kid"] = key.KeyID
	s, err := jwtToken.SignedString(key.AuthKey)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestSender_Unreachable(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	cfg := goodConfig(t)
	cfg.Endpoint = "https://" + l.Addr().String()
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	got := send(t, s, newDelivery(t, map[string]any{"title": "T"}), 1)
	if got.Outcome != notifier.OutcomeNotSent || !strings.Contains(got.ProviderStatus, "not on the public internet") {
		t.Errorf("got %+v, want not_sent with the reason that loopback needs allow_private", got)
	}
	if strings.Contains(got.ProviderStatus, "abab") {
		t.Errorf("the status quotes the device token: %q", got.ProviderStatus)
	}
}
