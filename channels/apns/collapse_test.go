package apns

import (
	"bytes"
	"crypto/rand"
	"math/big"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/seed-4b260dfd/notifier"
)

func TestCollapseID(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 65)
	for in, want := range map[string]string{
		"order-42":              "order-42",
		"two words":             "two words",
		strings.Repeat("x", 64): strings.Repeat("x", 64),
		"":                      "effect",
	} {
		if got := collapseID(&notifier.Delivery{CollapseID: in, EffectKey: "effect"}); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
	seen := map[string]string{}
	for _, in := range []string{long, long + "y", " order-42", "order-42 ", "commande-é", "a\r\nb", "a\x00", "\x7f", "語", "\xff", " "} {
		got := collapseID(&notifier.Delivery{CollapseID: in})
		if other, taken := seen[got]; taken || got == strings.TrimSpace(in) {
			t.Errorf("%q: got %q, which is %q's too", in, got, other)
		}
		seen[got] = in
	}
}

// Any collapse id gives a header that HTTP carries as it is, and always the same.
func FuzzCollapseID(f *testing.F) {
	for _, s := range []string{"", "order-42", "語", "a\r\nb", " x", strings.Repeat("é", 40), "\xff\xfe", strings.Repeat("x", 65)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		d := &notifier.Delivery{CollapseID: s, EffectKey: strings.Repeat("0", 64)}
		got := collapseID(d)
		if len(got) == 0 || len(got) > maxCollapseBytes || strings.TrimSpace(got) != got {
			t.Fatalf("%q: %q has %d bytes", s, got, len(got))
		}
		for i := range len(got) {
			if got[i] < 0x20 || got[i] > 0x7e {
				t.Fatalf("%q: %q is not a legal header", s, got)
			}
		}
		if again := collapseID(d); again != got {
			t.Fatalf("%q: %q, then %q", s, got, again)
		}
	})
}

// The same over many random texts in every run of the tests.
func TestCollapseID_AnyText(t *testing.T) {
	t.Parallel()
	for range 2000 {
		n, err := rand.Int(rand.Reader, big.NewInt(80))
		if err != nil {
			t.Fatal(err)
		}
		raw := make([]byte, n.Int64())
		_, _ = rand.Read(raw)
		s := strings.ToValidUTF8(string(raw), "語")
		r := httptest.NewRecorder()
		r.Header().Set("apns-collapse-id", collapseID(&notifier.Delivery{CollapseID: s, EffectKey: "k"}))
		var wire bytes.Buffer
		if err := r.Header().Write(&wire); err != nil {
			t.Fatal(err)
		}
		back := strings.TrimSuffix(strings.TrimPrefix(wire.String(), "Apns-Collapse-Id: "), "\r\n")
		if back != collapseID(&notifier.Delivery{CollapseID: s, EffectKey: "k"}) || len(back) > maxCollapseBytes || back == "" {
			t.Fatalf("%q: %q arrived as %q", s, r.Header().Get("apns-collapse-id"), back)
		}
	}
}
