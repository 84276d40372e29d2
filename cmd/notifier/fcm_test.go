package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed-4b260dfd/notifier/channels/simulate"
)

// A registration token goes through the command, the server and its ledger to
// the simulated FCM, with an access token from its token endpoint; a lost reply
// makes a second request and still one notification on the device; nothing that
// is printed on the way holds the token or the key.
func TestServe_FCM(t *testing.T) {
	t.Parallel()
	dir, sim := simulated(t)
	quick := "retry: {initial: 50ms, factor: 1, max: 50ms}\n"
	if err := os.WriteFile(filepath.Join(dir, "policies", "_defaults.yaml"), []byte(quick), 0o600); err != nil {
		t.Fatal(err)
	}
	c := newCLI(t, nil)
	device := "fGh-12345678:APA91b" + strings.Repeat("Zx9_", 30)
	s := c.serve(filepath.Join(dir, configName))
	sim.SetFaults([]simulate.Fault{{Channel: "fcm", Kind: simulate.FaultDropReply, Times: 1}})
	out := c.ok(sendArgs(s.url, map[string]string{"-to": "fcm=" + device})...)
	if !strings.Contains(out, `"state":"sent"`) || !strings.Contains(out, `"channel":"fcm","account":"shop"`) {
		t.Errorf("send printed %s, want an fcm delivery that is sent", out)
	}
	_, refused, _ := c.run(sendArgs(s.url, map[string]string{"-to": "fcm=" + device + " x", "-key": "spoilt"})...)
	if !strings.Contains(refused, "to.fcm[0].token") {
		t.Errorf("a token with a space: got %q, want the field named", refused)
	}
	_, logged := s.stop()
	account, err := os.ReadFile(sim.Files().FCMCredentialsFile)
	if err != nil {
		t.Fatal(err)
	}
	for _, printed := range []string{out, refused, logged} {
		for _, secret := range []string{device, "PRIVATE KEY", "ya29.", string(account)} {
			if strings.Contains(printed, secret) {
				t.Errorf("%q is to be read from %s", secret, printed)
			}
		}
	}
	entries := sim.Effects()
	if len(entries) != 2 || !entries[0].TookEffect || !entries[1].TookEffect || entries[0].EffectKey != entries[1].EffectKey ||
		entries[0].BodyHash != entries[1].BodyHash || entries[0].CollapseID != "order-42" {
		t.Errorf("FCM received %+v, want the same message twice", entries)
	}
	if inbox := sim.Inbox(); len(inbox) != 1 || inbox[0].Alerts != 2 || inbox[0].Title != "Order 42 is on its way" {
		t.Errorf("the device shows %+v, want one notification that rang twice", inbox)
	}
}
