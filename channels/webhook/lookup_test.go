package webhook

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/seed-4b260dfd/notifier"
	"github.com/seed-4b260dfd/notifier/channels"
	"github.com/seed-4b260dfd/notifier/channels/simulate"
)

// A receiver that took a webhook and whose answer was lost says so when asked.
func TestLookup_AfterALostReply(t *testing.T) {
	t.Parallel()
	sim, err := simulate.Start(simulate.Config{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sim.Close() })
	s, err := New(Config{Secrets: map[string][]string{"default": {sim.Files().WebhookSecret}},
		AccountConfig: channels.AccountConfig{AllowPrivate: true}, LookupURL: sim.HTTPURL() + "/_simulate/webhooks/{id}"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	d := &notifier.Delivery{Address: notifier.Address{Value: sim.HTTPURL() + "/hook"}, Content: notifier.Content(`{"a":1}`),
		EffectKey: notifier.EffectKey("default", "k", notifier.ChannelWebhook, "hook")}
	if f, err := s.Lookup(t.Context(), d, time.Now()); err != nil || f.Sent {
		t.Errorf("before: got %+v, %v; want none", f, err)
	}
	sim.SetFaults([]simulate.Fault{{Channel: "webhook", Kind: simulate.FaultDropReply, Times: 1}})
	if res := s.Send(t.Context(), &channels.Call{Delivery: d, Guard: &channels.Guard{}}); res.Outcome != notifier.OutcomeUnknown {
		t.Fatalf("got %+v, want an unknown outcome", res)
	}
	f, err := s.Lookup(t.Context(), d, time.Now())
	if err != nil || !f.Sent || f.ProviderID != messageID(d.EffectKey) {
		t.Errorf("after: got %+v, %v; want it found", f, err)
	}
}

func TestLookup_NoAnswer(t *testing.T) {
	t.Parallel()
	d := &notifier.Delivery{EffectKey: "e"}
	for status, want := range map[int]string{500: "answered 500", 302: "answered 302", 401: "answered 401"} {
		receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Location", "/elsewhere")
			w.WriteHeader(status)
		}))
		t.Cleanup(receiver.Close)
		s, err := New(Config{Secrets: map[string][]string{"default": {secret(1)}},
			AccountConfig: channels.AccountConfig{AllowPrivate: true}, LookupURL: receiver.URL + "/{id}"})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		if f, err := s.Lookup(t.Context(), d, time.Now()); err == nil || f.Sent || !strings.Contains(err.Error(), want) {
			t.Errorf("%d: got %+v, %v; want %q", status, f, err, want)
		}
	}
	s, err := New(Config{Secrets: map[string][]string{"default": {secret(1)}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	if _, err := s.Lookup(t.Context(), d, time.Now()); !errors.Is(err, channels.ErrNoLookup) {
		t.Errorf("got %v, want %v", err, channels.ErrNoLookup)
	}
}

func TestConfig_LookupURL(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]string{
		"https://example.com/effects/{id}": "", "https://example.com/?id={id}": "",
		"https://example.com/effects": "no place", "example.com/{id}": "not a URL", "http://example.com/{id}": "without TLS",
		"https://u:p@example.com/{id}": "a user", "ftp://example.com/{id}": "not a URL",
	} {
		wrong := Config{Secrets: map[string][]string{"default": {secret(1)}}, LookupURL: url}.Validate()
		switch {
		case want == "" && len(wrong) == 0:
		case len(wrong) == 1 && want != "" && wrong[0].Field == "lookup_url" && strings.Contains(wrong[0].Message, want):
		default:
			t.Errorf("%s: got %v, want %q", url, wrong, want)
		}
	}
}
