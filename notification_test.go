package notifier_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/seed-4b260dfd/notifier"
)

func TestRedact(t *testing.T) {
	t.Parallel()
	for s, want := range map[string]string{
		"":                 "…",
		"12345":            "…",
		"123456":           "1…6",
		"ä23456789012345ß": "ä234…345ß",
		"123456789012345":  "1…5",
		"740f000000000000000000000000000000000000000000000000000019e7": "740f…19e7",
	} {
		if got := notifier.Redact(s); got != want {
			t.Errorf("Redact(%q): got %q, want %q", s, got, want)
		}
	}
}

// However an address comes to be printed, it is not to be read from it.
func TestAddress_PrintsItselfRedacted(t *testing.T) {
	t.Parallel()
	a := notifier.Address{Value: "ada@example.com", Account: "shop", Name: "Ada Lovelace", Secret: "key-of-ada",
		Keys: notifier.PushKeys{P256dh: "p256dh-of-ada", Auth: "auth-of-ada"}, RegisteredAt: time.Unix(1, 0)}
	var out bytes.Buffer
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d", "%10s"} {
		fmt.Fprintf(&out, verb+"\n", a)
		fmt.Fprintf(&out, verb+"\n", &a)
		fmt.Fprintf(&out, verb+"\n", []notifier.Address{a})
		fmt.Fprintf(&out, verb+"\n", struct{ To notifier.Address }{a})
		fmt.Fprintf(&out, verb+"\n", a.Keys)
		fmt.Fprintf(&out, verb+"\n", &a.Keys)
	}
	slog.New(slog.NewTextHandler(&out, nil)).Info("sent", "to", a, "keys", a.Keys)
	slog.New(slog.NewJSONHandler(&out, nil)).Info("sent", "to", a, "keys", a.Keys)
	for _, secret := range []string{"ada@", "example.com", "Lovelace", "key-of-ada", "p256dh-of", "auth-of", fmt.Sprintf("%x", "ada@"), fmt.Sprintf("%x", "auth-of")} {
		if strings.Contains(out.String(), secret) {
			t.Errorf("%q is to be read from:\n%s", secret, out.String())
		}
	}
	if !strings.Contains(out.String(), "a…m") {
		t.Errorf("the address is not to be recognised from:\n%s", out.String())
	}
	// The ledger stores it whole.
	b, err := json.Marshal(a)
	if err != nil {
		t.Fatal(err)
	}
	var back notifier.Address
	if err := json.Unmarshal(b, &back); err != nil || !back.RegisteredAt.Equal(a.RegisteredAt) || back.Keys != a.Keys {
		t.Fatalf("%s: read as %v, %v", b, back.RegisteredAt, err)
	}
	back.RegisteredAt = a.RegisteredAt
	if back != a {
		t.Errorf("%s does not read back as it was", b)
	}
}

// The addresses of a channel share a unit; a repeat is another.
func TestCapUnit(t *testing.T) {
	t.Parallel()
	id := notifier.NewID(time.UnixMilli(1), 0, [8]byte{1})
	other := notifier.NewID(time.UnixMilli(2), 0, [8]byte{1})
	seen := map[string]bool{}
	for _, u := range []string{
		notifier.CapUnit(id, notifier.ChannelAPNs, 1),
		notifier.CapUnit(id, notifier.ChannelAPNs, 2),
		notifier.CapUnit(id, notifier.ChannelEmail, 1),
		notifier.CapUnit(other, notifier.ChannelAPNs, 1),
	} {
		if seen[u] {
			t.Errorf("unit %q stands for two attempts", u)
		}
		seen[u] = true
	}
	if !seen[id.String()+":apns:1"] {
		t.Errorf("units are spelled otherwise: %v", seen)
	}
}

func TestError_SaysFieldAndCause(t *testing.T) {
	t.Parallel()
	err := error(&notifier.Error{Code: notifier.CodeInvalid, Message: "too long", Field: "key", Err: io.EOF})
	if got, want := err.Error(), "key: too long: EOF"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if !errors.Is(err, io.EOF) {
		t.Error("the cause is not to be found")
	}
	if got := (&notifier.Error{Message: "too long"}).Error(); got != "too long" {
		t.Errorf("got %q, want too long", got)
	}
}

// What a ledger stored before there were keys is read as it was, and an address
// without keys is stored as it was.
func TestAddress_StoredBeforeKeys(t *testing.T) {
	t.Parallel()
	const stored = `{"value":"740f19e7","account":"shop"}`
	var a notifier.Address
	if err := json.Unmarshal([]byte(stored), &a); err != nil {
		t.Fatal(err)
	}
	if a != (notifier.Address{Value: "740f19e7", Account: "shop"}) {
		t.Error("got another address")
	}
	if b, err := json.Marshal(a); err != nil || string(b) != stored {
		t.Errorf("got %s, %v, want %s", b, err, stored)
	}
}
