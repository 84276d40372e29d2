package delivery_test

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-4b260dfd/notifier"
)

func wantCode(t *testing.T, err error, code notifier.Code, field string) *notifier.Error {
	t.Helper()
	var e *notifier.Error
	if !errors.As(err, &e) || e.Code != code || e.Field != field {
		t.Fatalf("got the error %v, want %s at %q", err, code, field)
	}
	return e
}

func TestAccept_RepeatsMakeNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first := w.accept(request("nudge", "k"))
	for range 4 {
		if got := w.accept(request("nudge", "k")); got.ID != first.ID || !got.Replayed || len(got.Ignored) > 0 {
			t.Errorf("got %+v, want a replay of %s", got, first.ID)
		}
	}
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			got, err := w.engine.Accept(t.Context(), request("nudge", "at once"))
			if err != nil {
				t.Error(err)
			}
			w.settled(got.ID)
		})
	}
	wg.Wait()
	w.settled(first.ID)
	if got := w.provider.requests(); got != 2 {
		t.Errorf("got %d requests for two keys, want 2", got)
	}
	n, err := w.ledger.Notification(t.Context(), "default", first.ID)
	if err != nil || n.Repeats != 4 {
		t.Errorf("got %d repeats, %v, want 4", n.Repeats, err)
	}
}

func TestAccept_ReusedKeyDifferentRequest(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first := w.accept(request("nudge", "k"))
	other := request("alert", "k")
	other.Data["n"] = "something else"
	_, err := w.engine.Accept(t.Context(), other)
	e := wantCode(t, err, notifier.CodeKeyReused, "key")
	if d := cmp.Diff(map[string]any{"differs": []string{"data", "type"}, "id": first.ID.String()}, e.Details); d != "" {
		t.Errorf("details (-want +got):\n%s", d)
	}
}

func TestAccept_WhereAndWhenAreTheFirstCopys(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first := w.accept(request("nudge", "k"))
	again := request("nudge", "k")
	again.To = map[notifier.Channel][]notifier.Address{notifier.ChannelAPNs: {{Value: "another"}}}
	again.SendAt = time.Now().Add(time.Hour)
	got := w.accept(again)
	if want := (notifier.Accepted{ID: first.ID, Replayed: true, Ignored: []string{"send_at", "to"}}); !cmp.Equal(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestAccept_ARepeatIsSuccessWhateverHasChangedSince(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	req := request("nudge", "k")
	req.ExpiresAt = time.Now().Add(300 * time.Millisecond)
	first := w.accept(req)
	w.settled(first.ID)
	until(t, "the expiry", func() bool { return time.Now().After(req.ExpiresAt) })
	if got := w.accept(req); got.ID != first.ID || !got.Replayed {
		t.Errorf("after the expiry: got %+v, want a replay", got)
	}
	w.stop()
	// The type now wants a datum more: new requests must have it, repeats need not.
	w = openWorld(t, w.path, withPolicy("nudge", defaultPolicies["nudge"][:len(defaultPolicies["nudge"])-len("data: {n: {required: true}}\nretry: {initial: 10ms, factor: 1, max: 10ms}\n")]+
		"data: {n: {required: true}, more: {required: true}}\n"))
	if got := w.accept(req); got.ID != first.ID || !got.Replayed {
		t.Errorf("under a stricter policy: got %+v, want a replay", got)
	}
	_, err := w.engine.Accept(t.Context(), request("nudge", "new"))
	wantCode(t, err, notifier.CodeDataMissing, "data.more")
	req.Data["n"] = "changed"
	_, err = w.engine.Accept(t.Context(), req)
	wantCode(t, err, notifier.CodeKeyReused, "key")
}

func TestAccept_Refused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, tc := range []struct {
		name   string
		change func(*notifier.Request)
		code   notifier.Code
		field  string
	}{
		{"no key", func(r *notifier.Request) { r.Key = "" }, notifier.CodeKeyRequired, "key"},
		{"bad key", func(r *notifier.Request) { r.Key = "a\nb" }, notifier.CodeInvalid, "key"},
		{"unknown type", func(r *notifier.Request) { r.Type = "nope" }, notifier.CodeUnknownType, "type"},
		{"no recipient", func(r *notifier.Request) { r.Recipient = "" }, notifier.CodeInvalid, "recipient"},
		{"no datum", func(r *notifier.Request) { r.Data = nil }, notifier.CodeDataMissing, "data.n"},
		{"undeclared datum", func(r *notifier.Request) { r.Data["x"] = 1 }, notifier.CodeUnknownField, "data.x"},
		{"no address", func(r *notifier.Request) { r.To = nil }, notifier.CodeNoAddress, "to"},
		{"only an unused channel", func(r *notifier.Request) {
			r.To = map[notifier.Channel][]notifier.Address{notifier.ChannelEmail: {{Value: "a@example.com"}}}
		}, notifier.CodeNoAddress, "to"},
		{"no such account", func(r *notifier.Request) { r.To[notifier.ChannelAPNs][0].Account = "x" }, notifier.CodeInvalid, "to.apns[0].account"},
		{"too far ahead", func(r *notifier.Request) { r.SendAt = time.Now().Add(85 * time.Hour) }, notifier.CodeInvalid, "send_at"},
		{"expired", func(r *notifier.Request) { r.ExpiresAt = time.Now().Add(-time.Second) }, notifier.CodeInvalid, "expires_at"},
	} {
		req := request("nudge", "refused")
		tc.change(&req)
		_, err := w.engine.Accept(t.Context(), req)
		t.Run(tc.name, func(t *testing.T) { wantCode(t, err, tc.code, tc.field) })
	}
	if got := w.accept(request("nudge", "refused")); got.Replayed {
		t.Error("the key of a refused request is not free")
	}
}

func TestAccept_SendAtAndUnusedChannels(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	req := request("nudge", "k")
	req.To[notifier.ChannelWebhook] = []notifier.Address{{Value: "https://example.com"}}
	req.To[notifier.ChannelAPNs] = append(req.To[notifier.ChannelAPNs], req.To[notifier.ChannelAPNs][0])
	req.SendAt = time.Now().Add(400 * time.Millisecond)
	got := w.accept(req)
	if d := cmp.Diff([]string{"to.webhook"}, got.Ignored); d != "" {
		t.Errorf("ignored (-want +got):\n%s", d)
	}
	if d := w.read(got.ID); d.State != notifier.StatePending || d.Reason != notifier.ReasonScheduled {
		t.Errorf("got %s %s, want pending scheduled", d.State, d.Reason)
	}
	w.settled(got.ID)
	if time.Now().Before(req.SendAt) {
		t.Error("sent before send_at")
	}
}

func TestAccept_FreshIsWhatAReaderWouldFind(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	req := request("nudge", "k")
	req.SendAt = time.Now().Add(time.Hour).Round(time.Microsecond)
	req.ExpiresAt = req.SendAt.Add(time.Hour)
	req.To[notifier.ChannelAPNs] = append(req.To[notifier.ChannelAPNs], notifier.Address{Value: "a second phone of the same person"})
	got := w.accept(req)
	read, err := w.ledger.Notification(t.Context(), "default", got.ID)
	if err != nil {
		t.Fatal(err)
	}
	sameInstant := cmp.Comparer(func(a, b time.Time) bool { return a.Sub(b).Abs() < time.Millisecond })
	if d := cmp.Diff(read, got.Fresh, sameInstant); d != "" {
		t.Errorf("fresh (-read +fresh):\n%s", d)
	}
}

// An expiry beyond the policy's does not count, and the answer says so.
func TestAccept_ExpiryBeyondThePolicys(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for name, c := range map[string]struct {
		ahead time.Duration
		want  time.Duration
		says  []string
	}{
		"sooner": {30 * time.Minute, 30 * time.Minute, nil},
		"later":  {90 * time.Minute, time.Hour, []string{"expires_at"}}, // expires_after: 1h
	} {
		req := request("alert", name)
		req.SendAt = time.Now().Add(10 * time.Minute)
		req.ExpiresAt = req.SendAt.Add(c.ahead)
		got := w.accept(req)
		if !cmp.Equal(got.Ignored, c.says) {
			t.Errorf("%s: got ignored %q, want %q", name, got.Ignored, c.says)
		}
		n, err := w.ledger.Notification(t.Context(), "default", got.ID)
		if err != nil {
			t.Fatal(err)
		}
		if off := n.ExpiresAt.Sub(req.SendAt) - c.want; off.Abs() > time.Second {
			t.Errorf("%s: it expires %v after send_at, want %v", name, n.ExpiresAt.Sub(req.SendAt), c.want)
		}
	}
}

func TestAccept_BlankRecipient(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, who := range []string{"", " ", "\u00a0\u2003"} {
		req := request("alert", "k")
		req.Recipient = who
		_, err := w.engine.Accept(t.Context(), req)
		wantCode(t, err, notifier.CodeInvalid, "recipient")
	}
}
