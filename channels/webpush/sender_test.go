package webpush_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	push "github.com/SherClockHolmes/webpush-go"

	"github.com/seed-4b260dfd/notifier"
	"github.com/seed-4b260dfd/notifier/channels"
	"github.com/seed-4b260dfd/notifier/channels/simulate"
	"github.com/seed-4b260dfd/notifier/channels/webpush"
)

func start(t *testing.T) *simulate.Server {
	t.Helper()
	s, err := simulate.Start(simulate.Config{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func newDelivery(t *testing.T, a notifier.Address, fields map[string]any) *notifier.Delivery {
	t.Helper()
	content, err := webpush.Kind{}.Prepare(fields)
	if err != nil {
		t.Fatal(err)
	}
	return &notifier.Delivery{
		ID:      notifier.DeliveryID{Notification: notifier.NewID(time.Unix(1764553976, 0), 1, [8]byte{1}), Ordinal: 2},
		Lane:    notifier.Lane{Channel: notifier.ChannelWebPush, Priority: notifier.PriorityHigh},
		Address: a, Content: content, CollapseID: "order-42",
		EffectKey: notifier.EffectKey("t", "k", notifier.ChannelWebPush, a.Value),
		ExpiresAt: time.Now().Add(time.Hour),
	}
}

func send(t *testing.T, s *webpush.Sender, d *notifier.Delivery, fence int64) channels.Result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	return s.Send(ctx, &channels.Call{Delivery: d, Fence: fence, Guard: &channels.Guard{}})
}

// recorded is a request as it was on the wire.
type recorded struct {
	*http.Request
	body []byte
}

// record passes requests on to the simulator and keeps them.
func record(t *testing.T, s *simulate.Server) (url string, got func() []recorded) {
	t.Helper()
	var mu sync.Mutex
	var all []recorded
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		mu.Lock()
		all = append(all, recorded{r, body})
		mu.Unlock()
		on, err := http.NewRequestWithContext(r.Context(), r.Method, s.HTTPURL()+r.URL.RequestURI(), bytes.NewReader(body))
		if err != nil {
			return
		}
		on.Host, on.Header = r.Host, r.Header
		resp, err := http.DefaultTransport.RoundTrip(on)
		if err != nil {
			return
		}
		defer resp.Body.Close()
		w.Header().Set("Location", resp.Header.Get("Location"))
		w.WriteHeader(resp.StatusCode)
		_, _ = io.Copy(w, resp.Body)
	}))
	t.Cleanup(proxy.Close)
	return proxy.URL, func() []recorded { mu.Lock(); defer mu.Unlock(); return all }
}

func TestSender_Request(t *testing.T) {
	t.Parallel()
	sim := start(t)
	cfg := config(sim)
	var got func() []recorded
	cfg.Endpoint, got = record(t, sim)
	s := openWith(t, cfg)
	d := newDelivery(t, address(sim, 1), fields())
	for fence := range int64(2) {
		r := send(t, s, d, fence+1)
		if r.Outcome != notifier.OutcomeSent || r.ProviderStatus != "201" || !strings.Contains(r.ProviderID, "/m/") {
			t.Fatalf("got %+v, want sent with the message's URL", r)
		}
	}
	first, second := got()[0], got()[1]
	h := first.Header
	for name, want := range map[string]string{
		"Content-Encoding": "aes128gcm", "Content-Type": "application/octet-stream", "Urgency": "high", "User-Agent": "notifier",
		"Topic": "O_ixV8Qjju_lrkpm7Kgca4h9Tc7bWN1n", "X-Delivery": d.ID.String(), "X-Attempt": "1",
	} {
		if h.Get(name) != want {
			t.Errorf("%s is %q, want %q", name, h.Get(name), want)
		}
	}
	if ttl, err := strconv.Atoi(h.Get("TTL")); err != nil || ttl < 3500 || ttl > 3600 {
		t.Errorf("TTL is %q, want the hour that is left", h.Get("TTL"))
	}
	if want := "https://" + first.Host + first.URL.Path; want != d.Address.Value {
		t.Errorf("the request went to %s, want %s", want, d.Address.Value)
	}
	// No padding: header, text with id and tag, tag of the cipher, delimiter.
	if text := len(d.Content) + len(`,"id":"","tag":""`) + 36 + 32; len(first.body) != text+103 {
		t.Errorf("the message has %d bytes for a text of %d, want 103 more", len(first.body), text)
	}
	// Encrypted anew, with the same text: a salt is never used twice.
	if bytes.Equal(first.body[:16], second.body[:16]) || bytes.Equal(first.body[21:86], second.body[21:86]) {
		t.Error("two attempts share a salt or a key")
	}
	if first.Header.Get("Topic") != second.Header.Get("Topic") {
		t.Error("two attempts differ in their Topic")
	}
	effects := sim.Effects()
	if len(effects) != 2 || effects[0].BodyHash != effects[1].BodyHash || effects[0].EffectKey != notifier.UUID(d.EffectKey) ||
		effects[0].EffectKey != effects[1].EffectKey || effects[0].Account != "mailto:ops@example.com" {
		t.Errorf("got %+v, want two effects of one text and id", effects)
	}
	// The browser had fetched neither: the second replaced the first.
	if inbox := sim.Inbox(); len(inbox) != 1 || inbox[0].Alerts != 2 || inbox[0].Title != "Your order <42> is on its way" {
		t.Errorf("got %+v, want one message", inbox)
	}
}

func TestSender_TTLAndUrgency(t *testing.T) {
	t.Parallel()
	sim := start(t)
	cfg := config(sim)
	var got func() []recorded
	cfg.Endpoint, got = record(t, sim)
	s := openWith(t, cfg)
	for i, test := range []struct {
		left      time.Duration
		priority  notifier.Priority
		ttl, asks string
	}{
		{-time.Second, notifier.PriorityNormal, "0", "normal"},
		{500 * time.Millisecond, notifier.PriorityBulk, "0", "low"},
		{365 * 24 * time.Hour, notifier.PriorityHigh, "2419200", "high"},
	} {
		d := newDelivery(t, address(sim, i), fields())
		d.ExpiresAt, d.Lane.Priority = time.Now().Add(test.left), test.priority
		if r := send(t, s, d, 1); r.Outcome != notifier.OutcomeSent {
			t.Fatalf("got %+v, want sent", r)
		}
		h := got()[i].Header
		if h.Get("TTL") != test.ttl || h.Get("Urgency") != test.asks {
			t.Errorf("%v left, %s: got TTL %q, Urgency %q, want %q, %q", test.left, test.priority, h.Get("TTL"), h.Get("Urgency"), test.ttl, test.asks)
		}
	}
}

// The longest message is 4096 bytes on the wire, whatever its letters are, and
// a push service takes it.
func TestSender_LongestMessage(t *testing.T) {
	t.Parallel()
	sim := start(t)
	cfg := config(sim)
	var got func() []recorded
	cfg.Endpoint, got = record(t, sim)
	s := openWith(t, cfg)
	const room = 4096 - 103 - len(`{"title":"","id":"","tag":""}`) - 36 - 32
	for i, letter := range []string{"x", "語", "🎉"} {
		title := strings.Repeat(letter, room/len(letter)) + strings.Repeat("x", room%len(letter))
		d := newDelivery(t, address(sim, i), map[string]any{"title": title})
		if r := send(t, s, d, 1); r.Outcome != notifier.OutcomeSent {
			t.Fatalf("%s: got %+v, want sent", letter, r)
		}
		if n := len(got()[i].body); n != 4096 {
			t.Errorf("%s: the message has %d bytes, want 4096", letter, n)
		}
		if e := sim.Effects()[i]; e.Title != title {
			t.Errorf("%s: the browser read %d bytes, want %d", letter, len(e.Title), len(title))
		}
		if _, err := (webpush.Kind{}).Prepare(map[string]any{"title": title + "x"}); err == nil {
			t.Errorf("%s: one byte more was taken", letter)
		}
	}
}

// What an account on the public internet does not connect to has received nothing.
func TestSender_ForbiddenAddress(t *testing.T) {
	t.Parallel()
	server := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("a request arrived") }))
	t.Cleanup(server.Close)
	port := server.URL[strings.LastIndex(server.URL, ":"):]
	sim := start(t)
	cfg := config(sim)
	cfg.Endpoint, cfg.AllowPrivate = "", false
	s := openWith(t, cfg)
	for _, url := range []string{"https://127.0.0.1" + port, "https://localhost" + port + "/wpush", "https://[::1]" + port, "https://[::ffff:127.0.0.1]" + port,
		"https://10.0.0.1", "https://169.254.169.254/latest"} {
		d := newDelivery(t, notifier.Address{Value: url, Keys: address(sim, 1).Keys}, fields())
		got := send(t, s, d, 1)
		if got.Outcome != notifier.OutcomeRejected || got.Reason != notifier.ReasonForbiddenAddress || got.ProviderStatus == "" {
			t.Errorf("%s: got %+v, want rejected, forbidden_address", url, got)
		}
	}
}

func TestSender_CannotBeMade(t *testing.T) {
	t.Parallel()
	sim := start(t)
	s := openWith(t, config(sim))
	d := newDelivery(t, address(sim, 1), fields())
	d.Content = notifier.Content(`[]`)
	if got := send(t, s, d, 1); got.Outcome != notifier.OutcomeRejected || got.Reason != notifier.ReasonBadContent {
		t.Errorf("got %+v, want rejected, bad_content", got)
	}
	d = newDelivery(t, address(sim, 1), fields())
	d.Address.Keys.Auth = "hunter2"
	if got := send(t, s, d, 1); got.Outcome != notifier.OutcomeRejected || got.Reason != notifier.ReasonInvalidAddress || strings.Contains(got.ProviderStatus, "hunter2") {
		t.Errorf("got %+v, want rejected, invalid_address", got)
	}
	if n := len(sim.Effects()); n != 0 {
		t.Errorf("%d requests arrived", n)
	}
}

// A subscription that was made with another key, one that is gone and one that
// never was, as the push service says it.
func TestSender_Subscriptions(t *testing.T) {
	t.Parallel()
	sim := start(t)
	cfg := config(sim)
	good := newDelivery(t, address(sim, 1), fields())
	private, _, err := push.GenerateVAPIDKeys()
	if err != nil {
		t.Fatal(err)
	}
	cfg.VAPIDPrivateKey = private
	got := send(t, openWith(t, cfg), good, 1)
	if got.Outcome != notifier.OutcomeNotSent || got.Reason != notifier.ReasonBadCredentials || got.ProviderStatus != "401 errno 109 VAPID public key mismatch" {
		t.Errorf("another key: got %+v, want not_sent, bad_credentials", got)
	}
	s := openWith(t, config(sim))
	never := newDelivery(t, address(sim, 1), fields())
	never.Address.Value += "AAAA"
	if got := send(t, s, never, 1); got.Outcome != notifier.OutcomeInvalidAddress || got.ProviderStatus != "404 errno 102 Invalid token" {
		t.Errorf("an unknown one: got %+v, want invalid_address", got)
	}
	token := good.Address.Value[strings.LastIndex(good.Address.Value, "/")+1:]
	req, err := http.NewRequestWithContext(t.Context(), http.MethodDelete, sim.HTTPURL()+"/_simulate/webpush/subscriptions/"+token, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil || resp.StatusCode != http.StatusNoContent {
		t.Fatalf("unsubscribe: %v, %v", resp, err)
	}
	resp.Body.Close()
	if got := send(t, s, good, 2); got.Outcome != notifier.OutcomeInvalidAddress || got.ProviderStatus != "410 errno 106 No such subscription" {
		t.Errorf("a dead one: got %+v, want invalid_address", got)
	}
	if other := send(t, s, newDelivery(t, address(sim, 2), fields()), 1); other.Outcome != notifier.OutcomeSent {
		t.Errorf("its neighbour: got %+v, want sent", other)
	}
}
