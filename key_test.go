package notifier_test

import (
	"errors"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"

	"github.com/seed-4b260dfd/notifier"
)

// Keys that were given out stay the same for ever: these were computed by hand,
//
//	printf '\0\0\0\0\0\0\0\1a\0\0\0\0\0\0\0\3b/c' | sha256sum
func TestChild_Golden(t *testing.T) {
	t.Parallel()
	for want, parts := range map[string][]string{
		"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855": nil,
		"af5570f5a1810b7af78caf4bc70a660f0df51e42baf91d4de5b2328de0e83dfc": {""},
		"c69aae3497ceb45c4ea90257e678332ae00e4068f6118d3df434daf2b409119a": {"a", "b/c"},
		"9ecf086ec2488029bbf3dc6bbdc72bf30434c2e157e7f18bc1273180b215257c": {"a/b", "c"},
	} {
		if got := notifier.Child(parts...); got != want {
			t.Errorf("Child(%q): got %s, want %s", parts, got, want)
		}
	}
}

// Different parts never give the same key, however they are cut.
func TestChild_CutsNeverMeet(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	seen := map[string]string{}
	for range 5000 {
		parts := make([]string, random.IntN(5))
		for i := range parts {
			parts[i] = strings.Repeat("/", random.IntN(3)) + strings.Repeat("a", random.IntN(3))
		}
		key, cut := notifier.Child(parts...), strings.Join(parts, "\x00")
		if len(parts) == 0 {
			cut = "none"
		}
		if other, ok := seen[key]; ok && other != cut {
			t.Fatalf("%q and %q have the same key", other, cut)
		}
		seen[key] = cut
	}
	if len(seen) < 100 {
		t.Fatalf("only %d different parts were tried", len(seen))
	}
}

func TestEffectKey_DependsOnEachPart(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, k := range []string{
		notifier.EffectKey("shop", "order-42", notifier.ChannelAPNs, "740f"),
		notifier.EffectKey("other", "order-42", notifier.ChannelAPNs, "740f"),
		notifier.EffectKey("shop", "order-43", notifier.ChannelAPNs, "740f"),
		notifier.EffectKey("shop", "order-42", notifier.ChannelFCM, "740f"),
		notifier.EffectKey("shop", "order-42", notifier.ChannelAPNs, "19e7"),
		notifier.EffectKey("shoporder", "-42", notifier.ChannelAPNs, "740f"),
	} {
		if seen[k] || len(k) != 64 {
			t.Errorf("effect key %q: a repeat, or not 64 hex digits", k)
		}
		seen[k] = true
	}
}

func TestCheckKey(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		key  string
		want notifier.Code // empty: allowed
	}{
		{"a", ""},
		{"order 42/shipped~", ""},
		{strings.Repeat("k", notifier.MaxKeyBytes), ""},
		{"", notifier.CodeKeyRequired},
		{strings.Repeat("k", notifier.MaxKeyBytes+1), notifier.CodeInvalid},
		{"a\x1f", notifier.CodeInvalid},
		{"a\x7f", notifier.CodeInvalid},
		{"a\n", notifier.CodeInvalid},
		{"a\x00b", notifier.CodeInvalid},
		{"ä", notifier.CodeInvalid},
		{"\xff", notifier.CodeInvalid},
	} {
		var got notifier.Code
		var e *notifier.Error
		if err := notifier.CheckKey(c.key); errors.As(err, &e) {
			got = e.Code
		} else if err != nil {
			t.Errorf("CheckKey(%q): got %v, want an *Error", c.key, err)
		}
		if got != c.want {
			t.Errorf("CheckKey(%q): got code %q, want %q", c.key, got, c.want)
		}
		if e != nil && e.Field != "key" {
			t.Errorf("CheckKey(%q): got field %q, want key", c.key, e.Field)
		}
	}
}

func FuzzCheckKey(f *testing.F) {
	for _, s := range []string{"", "order-42/shipped", "a\x7f", "ä", strings.Repeat("k", 256)} {
		f.Add(s)
	}
	allowed := regexp.MustCompile(`\A[\x20-\x7e]{1,255}\z`)
	f.Fuzz(func(t *testing.T, key string) {
		err := notifier.CheckKey(key)
		if (err == nil) != allowed.MatchString(key) {
			t.Fatalf("CheckKey(%q): got %v", key, err)
		}
		var e *notifier.Error
		if err != nil && (!errors.As(err, &e) || e.Message == "") {
			t.Fatalf("CheckKey(%q): got %#v, want an *Error with a message", key, err)
		}
	})
}
