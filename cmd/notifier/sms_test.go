package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed-4b260dfd/notifier/channels/simulate"
)

// A text message goes from the command through the server and its ledger to
// the provider; the answers say how many segments it takes, the first and the
// one that is read back; and nothing that is printed holds number or token.
func TestServe_SMS(t *testing.T) {
	t.Parallel()
	const number = "+15555550123"
	dir, sim := simulated(t)
	c := newCLI(t, nil)
	s := c.serve(filepath.Join(dir, configName))
	sim.SetFaults([]simulate.Fault{{Channel: "sms", Kind: simulate.FaultStatus, Status: 429, RetryAfter: "1", Times: 1}})
	long := map[string]string{"-to": "sms=" + number, "-data": "tracking_url=https://example.com/" + strings.Repeat("é", 200) + "“"}
	args := append(sendArgs(s.url, long), "-data", "order_id=42")
	out := c.ok(args...)
	again := c.ok(args...)
	for what, printed := range map[string]string{"read back": out, "replayed": again} {
		if !strings.Contains(printed, `"state":"sent"`) || !strings.Contains(printed, `"channel":"sms","account":"main"`) || !strings.Contains(printed, `"segments":4`) {
			t.Errorf("%s: got %s, want a text message of 4 segments that is sent", what, printed)
		}
	}
	accepted := c.ok(append(sendArgs(s.url, map[string]string{"-to": "sms=" + number, "-key": "short", "-wait": ""}), "-to", "email=ann@example.com")...)
	if n := strings.Count(accepted, `"segments":`); n != 1 || !strings.Contains(accepted, `"segments":1`) {
		t.Errorf("got %s, want one segment, and no more of it on the mail", accepted)
	}
	_, refused, _ := c.run(sendArgs(s.url, map[string]string{"-to": "sms=" + number[1:], "-key": "bare"})...)
	if !strings.Contains(refused, "invalid (to.sms[0].number)") {
		t.Errorf("a number without +: got %q, want it refused by name", refused)
	}
	large := map[string]string{"-to": "sms=" + number, "-key": "large", "-data": "tracking_url=" + strings.Repeat("a", 1530)}
	_, tooLarge, _ := c.run(append(sendArgs(s.url, large), "-data", "order_id=42")...)
	if !strings.Contains(tooLarge, "payload_too_large") || !strings.Contains(tooLarge, "11 segments in GSM-7; at most 10") {
		t.Errorf("11 segments: got %q, want it to be too large", tooLarge)
	}
	_, logged := s.stop()
	for _, printed := range []string{out, again, accepted, refused, tooLarge, logged} {
		for _, secret := range []string{number[1:], sim.Files().TwilioAuthToken} {
			if strings.Contains(printed, secret) {
				t.Errorf("%q is to be read from %s", secret, printed)
			}
		}
	}
}

func TestCheckLive_SMS(t *testing.T) {
	t.Parallel()
	dir, sim := simulated(t)
	name := filepath.Join(dir, configName)
	if out := newCLI(t, nil).ok("check", "-config", name, "-live"); !strings.Contains(out, "sms.main: ok\n") {
		t.Errorf("got\n%s\nwant sms.main to be ok", out)
	}
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	token := sim.Files().TwilioAuthToken
	if err := os.WriteFile(name, bytes.ReplaceAll(b, []byte(token), []byte("not-the-token")), 0o600); err != nil {
		t.Fatal(err)
	}
	out, _, code := newCLI(t, nil).run("check", "-config", name, "-live")
	if code != 3 || !strings.Contains(out, "sms.main: bad_credentials: 401 20003") || strings.Contains(out, "not-the-token") {
		t.Errorf("got %d,\n%s\nwant 3 and the refusal", code, out)
	}
	for _, e := range sim.Effects() {
		if e.Channel == "sms" {
			t.Errorf("the check made %+v", e)
		}
	}
}
