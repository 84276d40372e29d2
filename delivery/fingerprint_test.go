package delivery

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-4b260dfd/notifier"
)

// described is a request with every field set, as a body in JSON would set them.
func described(t *testing.T, data string) notifier.Request {
	t.Helper()
	req := notifier.Request{
		Type: "order_shipped", Recipient: "u_42", Entity: "order-42", Version: 3, Locale: "en", TimeZone: "Europe/Paris",
		To:     map[notifier.Channel][]notifier.Address{notifier.ChannelAPNs: {{Value: "abc"}}},
		SendAt: time.Date(2026, 12, 1, 9, 0, 0, 0, time.UTC), ExpiresAt: time.Date(2026, 12, 2, 9, 0, 0, 0, time.UTC),
	}
	if err := json.Unmarshal([]byte(data), &req.Data); err != nil {
		t.Fatal(err)
	}
	return req
}

func mustFingerprint(t *testing.T, req notifier.Request) ([32]byte, map[string]string) {
	t.Helper()
	f, parts, err := fingerprint(&req)
	if err != nil {
		t.Fatal(err)
	}
	return f, parts
}

func TestFingerprint_SpellingDoesNotMatter(t *testing.T) {
	t.Parallel()
	first, _ := mustFingerprint(t, described(t, `{"a": 1.50, "b": {"x": [1, "é"], "y": null}}`))
	for _, same := range []string{
		`{"b":{"y":null,"x":[1,"\u00e9"]},"a":1.5}`,
		`{"a":15e-1,"b":{"x":[1,"é"],"y":null}}`,
	} {
		if got, _ := mustFingerprint(t, described(t, same)); got != first {
			t.Errorf("%s has another fingerprint", same)
		}
	}
}

func TestFingerprint_WhatIsSaidToWhom(t *testing.T) {
	t.Parallel()
	base := described(t, `{"a": 1}`)
	first, firstParts := mustFingerprint(t, base)
	for _, tc := range []struct {
		name   string
		change func(*notifier.Request)
	}{
		{"type", func(r *notifier.Request) { r.Type = "x" }},
		{"recipient", func(r *notifier.Request) { r.Recipient = "x" }},
		{"data", func(r *notifier.Request) { r.Data = map[string]any{"a": "1"} }},
		{"entity", func(r *notifier.Request) { r.Entity = "x" }},
		{"version", func(r *notifier.Request) { r.Version = 4 }},
		{"to", func(r *notifier.Request) { r.To = map[notifier.Channel][]notifier.Address{"email": {{Value: "x"}}} }},
		{"locale", func(r *notifier.Request) { r.Locale = "fr" }},
		{"time_zone", func(r *notifier.Request) { r.TimeZone = "UTC" }},
		{"send_at", func(r *notifier.Request) { r.SendAt = r.SendAt.Add(time.Nanosecond) }},
		{"expires_at", func(r *notifier.Request) { r.ExpiresAt = r.ExpiresAt.Add(time.Nanosecond) }},
	} {
		req := base
		tc.change(&req)
		got, parts := mustFingerprint(t, req)
		isCovered := slices.Contains(covered[:], tc.name)
		if (got != first) != isCovered {
			t.Errorf("%s: the fingerprint changed %v, want %v", tc.name, got != first, isCovered)
		}
		differs, ignored := compare(parts, firstParts)
		want := []string{tc.name}
		if isCovered && !cmp.Equal(differs, want) || !isCovered && !cmp.Equal(ignored, want) {
			t.Errorf("%s: got differs %v, ignored %v", tc.name, differs, ignored)
		}
	}
}

func TestFingerprint_FieldsDoNotRunIntoEachOther(t *testing.T) {
	t.Parallel()
	a, b := notifier.Request{Type: "ab", Recipient: "c"}, notifier.Request{Type: "a", Recipient: "bc"}
	fa, _ := mustFingerprint(t, a)
	fb, _ := mustFingerprint(t, b)
	if fa == fb {
		t.Error("two requests have one fingerprint")
	}
}

func TestFingerprint_LargeIntegersStayApart(t *testing.T) {
	t.Parallel()
	// As float64 the two are equal.
	fa, _ := mustFingerprint(t, notifier.Request{Type: "t", Data: map[string]any{"n": json.Number("9007199254740993")}})
	fb, _ := mustFingerprint(t, notifier.Request{Type: "t", Data: map[string]any{"n": json.Number("9007199254740992")}})
	if fa == fb {
		t.Error("two large integers have one fingerprint")
	}
}
