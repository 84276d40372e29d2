package webpush_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"testing"

	push "github.com/SherClockHolmes/webpush-go"

	"github.com/seed-4b260dfd/notifier/channels/simulate"
)

// subscribe asks the simulator as a page would ask its browser.
func subscribe(t *testing.T, s *simulate.Server, body string) push.Subscription {
	t.Helper()
	resp, err := http.Post(s.HTTPURL()+"/_simulate/webpush/subscribe", "application/json", bytes.NewReader([]byte(body)))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var sub push.Subscription
	if err := json.NewDecoder(resp.Body).Decode(&sub); err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("subscribe: %s, %v", resp.Status, err)
	}
	return sub
}

// A library with default settings, its padding included, gets its message
// through to a browser, and is refused for what browsers would not forgive.
func TestSimulator_LibraryOfDefaultSettings(t *testing.T) {
	t.Parallel()
	sim := start(t)
	private, public, err := push.GenerateVAPIDKeys()
	if err != nil {
		t.Fatal(err)
	}
	options := push.Options{Subscriber: "ops@example.com", VAPIDPrivateKey: private, VAPIDPublicKey: public, TTL: 60, Topic: "order-42"}
	sub := subscribe(t, sim, `{"name": "ann", "direct": true, "applicationServerKey": "`+public+`"}`)
	for name, test := range map[string]struct {
		edit   func(*push.Options, *push.Subscription)
		status int
	}{
		"good": {func(*push.Options, *push.Subscription) {}, 201},
		"other key": {func(o *push.Options, _ *push.Subscription) {
			o.VAPIDPrivateKey, o.VAPIDPublicKey, _ = push.GenerateVAPIDKeys()
		}, 401},
		"halves differ":  {func(o *push.Options, _ *push.Subscription) { o.VAPIDPrivateKey, _, _ = push.GenerateVAPIDKeys() }, 401},
		"topic":          {func(o *push.Options, _ *push.Subscription) { o.Topic = "order 42" }, 400},
		"topic too long": {func(o *push.Options, _ *push.Subscription) { o.Topic = "order-42-order-42-order-42-order-42" }, 400},
		"too large":      {func(o *push.Options, _ *push.Subscription) { o.RecordSize = 4097 }, 413},
		"other browser": {func(_ *push.Options, s *push.Subscription) {
			s.Keys = subscribe(t, sim, `{"name": "bob"}`).Keys
		}, 400},
		"unknown": {func(_ *push.Options, s *push.Subscription) { s.Endpoint += "x" }, 404},
	} {
		o, to := options, sub
		test.edit(&o, &to)
		resp, err := push.SendNotificationWithContext(t.Context(), []byte(`{"title":"From `+name+`"}`), &to, &o)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		resp.Body.Close()
		if resp.StatusCode != test.status {
			t.Errorf("%s: got %s, want %d", name, resp.Status, test.status)
		}
	}
	took := 0
	for _, e := range sim.Effects() {
		if e.TookEffect {
			took++
			if e.Title != "From good" || e.Account != "mailto:ops@example.com" || e.CollapseID != "order-42" {
				t.Errorf("got %+v", e)
			}
		}
	}
	if took != 1 {
		t.Errorf("%d messages took effect, want 1", took)
	}
}
