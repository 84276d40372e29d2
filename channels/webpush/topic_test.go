package webpush

import (
	"encoding/base64"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/seed-4b260dfd/notifier"
)

func topicOf(collapse string) string {
	return topic(&notifier.Delivery{CollapseID: collapse, EffectKey: notifier.Child("effect")})
}

// legal is what RFC 8030 section 5.4 takes, and Apple: base64url that decodes.
func legal(topic string) bool {
	raw, err := base64.RawURLEncoding.Strict().DecodeString(topic)
	return err == nil && len(topic) == topicBytes && len(raw) == 24
}

func TestTopic(t *testing.T) {
	t.Parallel()
	seen := map[string]string{}
	for _, in := range []string{"", "order-42", "order-42 ", " order-42", "order-43", "語", "語 ", "🎉", "a\r\nb", "a\x00", "\u2028", "\xff",
		strings.Repeat("x", 32), strings.Repeat("x", 33), strings.Repeat("é", 400), topicOf("order-42")} {
		got := topicOf(in)
		if other, taken := seen[got]; taken || !legal(got) || topicOf(in) != got {
			t.Errorf("%q: got %q, which is illegal, changes, or is %q's too", in, got, other)
		}
		seen[got] = in
	}
	// Pinned: deliveries that are under way while a release is rolled keep their topic.
	if got := topicOf("order-42"); got != "O_ixV8Qjju_lrkpm7Kgca4h9Tc7bWN1n" {
		t.Errorf("got %q, want the first 192 bits of its SHA-256", got)
	}
	alone := topic(&notifier.Delivery{EffectKey: "effect"})
	if same := topic(&notifier.Delivery{CollapseID: "effect", EffectKey: "other"}); alone != same {
		t.Errorf("without a collapse id: got %q, want the effect key's %q", alone, same)
	}
}

// Over many random texts in every run: legal, stable, and none met twice, also
// of texts that differ in one character.
func TestTopic_AnyText(t *testing.T) {
	t.Parallel()
	seen := map[string]string{}
	for i := range 5_000 {
		s := randomText(rand.New(rand.NewPCG(uint64(i), 42)))
		for _, in := range []string{s, s + "x", strings.ToUpper(s)} {
			got := topicOf(in)
			if !legal(got) || topicOf(in) != got {
				t.Fatalf("%q: got %q", in, got)
			}
			if other, taken := seen[got]; taken && other != in {
				t.Fatalf("%q and %q share %q", in, other, got)
			}
			seen[got] = in
		}
	}
}

// randomText is up to 60 characters from anywhere in Unicode.
func randomText(r *rand.Rand) string {
	var b strings.Builder
	for range r.IntN(60) {
		c := rune(r.IntN(utf8.MaxRune + 1))
		if r.IntN(2) == 0 {
			c = rune(r.IntN(0x80))
		}
		b.WriteRune(c)
	}
	return b.String()
}

func FuzzTopic(f *testing.F) {
	for _, s := range []string{"", "order-42", "語", "a\r\nb", strings.Repeat("é", 40), "\xff\xfe"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if got := topicOf(s); !legal(got) || got != topicOf(s) {
			t.Errorf("%q: got %q", s, got)
		}
	})
}
