package main

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed-4b260dfd/notifier/channels/simulate"
)

// browserFile asks the simulated push service for a subscription, as a page
// would its browser, and keeps the answer as it is.
func browserFile(t *testing.T, sim *simulate.Server, name string) (file string, sub simulate.Subscription) {
	t.Helper()
	resp, err := http.Post(sim.HTTPURL()+"/_simulate/webpush/subscribe", "application/json",
		strings.NewReader(`{"name": "`+name+`", "applicationServerKey": "`+sim.Files().VAPIDPublicKey+`"}`))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(&sub); err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(sub)
	if err != nil {
		t.Fatal(err)
	}
	file = filepath.Join(t.TempDir(), "sub.json")
	if err := os.WriteFile(file, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return file, sub
}

// A subscription goes from the browser's own words through the command, the
// server and its ledger to the push service, which decrypts what it is sent;
// and nothing that is printed on the way holds its keys.
func TestServe_WebPush(t *testing.T) {
	t.Parallel()
	dir, sim := simulated(t)
	c := newCLI(t, nil)
	file, sub := browserFile(t, sim, "ann")
	s := c.serve(filepath.Join(dir, configName))
	// The first attempt is refused with "later": the second is read back from the ledger.
	sim.SetFaults([]simulate.Fault{{Channel: "webpush", Kind: simulate.FaultStatus, Status: 429, RetryAfter: "0", Times: 1}})
	out := c.ok(sendArgs(s.url, map[string]string{"-to": "webpush=@" + file})...)
	if !strings.Contains(out, `"state":"sent"`) || !strings.Contains(out, `"channel":"webpush","account":"site"`) {
		t.Errorf("send printed %s, want a webpush delivery that is sent", out)
	}
	again := c.ok(sendArgs(s.url, map[string]string{"-to": "webpush=@" + file})...)
	_, refused, _ := c.run(sendArgs(s.url, map[string]string{"-to": "webpush=" + sub.Endpoint, "-key": "bare"})...)
	if !strings.Contains(refused, "to.webpush[0].keys.p256dh") || strings.Contains(refused, sub.Endpoint) {
		t.Errorf("a bare endpoint: got %q, want the missing key named", refused)
	}
	_, logged := s.stop()
	for _, printed := range []string{out, again, refused, logged} {
		for _, secret := range []string{sub.Keys.P256dh, sub.Keys.Auth, sub.Endpoint, sim.Files().VAPIDPrivateKey} {
			if strings.Contains(printed, secret) {
				t.Errorf("%q is to be read from %s", secret, printed)
			}
		}
	}
	var answers []string
	for _, e := range sim.Effects() {
		answers = append(answers, e.Answer+" "+e.Title)
	}
	if got := strings.Join(answers, ", "); got != "429 Order 42 is on its way, 201 Order 42 is on its way" {
		t.Errorf("the push service answered %q, want one refusal and one message", got)
	}
	if inbox := sim.Inbox(); len(inbox) != 1 || inbox[0].Address != sub.Endpoint || inbox[0].CollapseID == "" {
		t.Errorf("the browser shows %+v, want one message", inbox)
	}
}
