package postgres

import (
	"strings"
	"testing"
	"time"

	"github.com/seed-4b260dfd/notifier"
)

func TestPack_GivesBackWhatWasPacked(t *testing.T) {
	t.Parallel()
	digest := strings.Repeat("0aF", 22)
	for _, s := range []string{"", "t", "x", "{", "0", "00", "0a", "0A", strings.ToLower(digest), digest, "token-of-k", "ü\x00\xff"} {
		got, err := unpack(pack(s))
		if err != nil || got != s {
			t.Errorf("%q: got %q, %v", s, got, err)
		}
		if a, err := unpackAddress(mustPack(t, notifier.Address{Value: s})); err != nil || a.Value != s {
			t.Errorf("address %q: got %q, %v", s, a.Value, err)
		}
	}
	if got := len(pack(strings.Repeat("ab", 32))); got != 33 {
		t.Errorf("a digest takes %d bytes, want 33", got)
	}
	for _, b := range [][]byte{nil, {}, []byte("?")} {
		if got, err := unpack(b); err == nil {
			t.Errorf("%q: got %q, want an error", b, got)
		}
	}
	full := notifier.Address{Value: "a@b.example", Name: "A", Account: "shop", RegisteredAt: time.Unix(7, 0).UTC()}
	if got, err := unpackAddress(mustPack(t, full)); err != nil || got != full {
		t.Errorf("got %+v, %v, want %+v", got, err, full)
	}
}

func TestPackCollapse_LeavesOutTheEffectKey(t *testing.T) {
	t.Parallel()
	for _, id := range []string{"", "0a0b", "order-42"} {
		b := packCollapse(id, "0a0b")
		if got, err := unpackCollapse(b, "0a0b"); err != nil || got != id || (b == nil) != (id == "0a0b") {
			t.Errorf("%q: got %q, %v, stored as %q", id, got, err, b)
		}
	}
}

func mustPack(t *testing.T, a notifier.Address) []byte {
	t.Helper()
	b, err := packAddress(a)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
