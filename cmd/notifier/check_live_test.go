package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed-4b260dfd/notifier"
)

// Every account is tried, nobody is sent anything, and what is wrong is named.
func TestCheckLive(t *testing.T) {
	t.Parallel()
	sim := startProviders(t)
	dir := installation(t, sim, 1, map[string]string{"note": quickPolicy(notifier.OrderClaimFirst, 0)})
	name := filepath.Join(dir, "notifier.yaml")
	good, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	f := sim.Files()
	for what, tc := range map[string]struct {
		from, to string
		code     int
		want     []string
	}{
		"all is well":          {"", "", 0, []string{"apns.shop: ok", "email.main: ok", "webhook.out: ok: there is nobody to ask"}},
		"another key id":       {f.APNsKeyID, "OTHERKEY01", 3, []string{"apns.shop: bad_credentials: 403 InvalidProviderToken", "email.main: ok"}},
		"another password":     {f.SMTPPassword, "wrong", 3, []string{"email.main: bad_credentials: 535", "apns.shop: ok"}},
		"nobody at the socket": {sim.SMTPAddr(), freeAddress(t), 3, []string{"email.main: unreachable: "}},
	} {
		t.Run(what, func(t *testing.T) {
			c := newCLI(t, map[string]string{listenVariable: "127.0.0.1:0"})
			text := string(good)
			if tc.from != "" {
				text = strings.ReplaceAll(text, tc.from, tc.to)
			}
			if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			stdout, stderr, code := c.run("check", "-config", name, "-live")
			if code != tc.code {
				t.Errorf("got exit code %d, want %d: %s %s", code, tc.code, stdout, stderr)
			}
			for _, want := range tc.want {
				if !strings.Contains(stdout, want) {
					t.Errorf("%q is not in:\n%s", want, stdout)
				}
			}
		})
	}
	for _, e := range sim.Effects() {
		if e.TookEffect {
			t.Errorf("a check took effect: %+v", e)
		}
	}
}
