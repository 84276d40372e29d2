package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed-4b260dfd/notifier"
	"github.com/seed-4b260dfd/notifier/channels/simulate"
)

// startProviders starts the simulated providers, in the test's own process:
// they live on when the server is killed.
func startProviders(t *testing.T) *simulate.Server {
	t.Helper()
	sim, err := simulate.Start(simulate.Config{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := sim.Close(); err != nil {
			t.Errorf("close the simulated providers: %v", err)
		}
	})
	return sim
}

// installation writes a folder that "notifier serve" runs from: every channel
// goes to the simulated providers, with at most inFlight calls an account (0:
// the default) and as many retries as there are reasons for, since what a test
// does to a server makes them; policies are YAML by type.
func installation(t testing.TB, sim *simulate.Server, inFlight int, policies map[string]string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	f := sim.Files()
	files := map[string]string{
		"notifier.yaml": fmt.Sprintf(`
listen: {http: "${%[1]s}"}
ledger: sqlite:notifier.db
channels:
  apns:
    shop: {key_file: %[3]q, key_id: %[4]q, team_id: %[5]q, topic: %[6]q, environment: production, endpoint: %[7]q, ca_file: %[8]q, allow_private: true, max_in_flight: %[2]d, retry_budget: 1}
  email:
    main: {smtp: "smtp://%[9]s:%[10]s@%[11]s", tls: starttls, ca_file: %[12]q, from: "Shop <no-reply@example.com>", allow_private: true, max_in_flight: %[2]d, retry_budget: 1}
  webhook:
    out: {secrets: {default: [%[13]q]}, allow_private: true, max_in_flight: %[2]d, retry_budget: 1}
`, listenVariable, inFlight, f.APNsKeyFile, f.APNsKeyID, f.APNsTeamID, f.APNsTopic, sim.APNsURL(), f.CAFile,
			f.SMTPUser, f.SMTPPassword, sim.SMTPAddr(), f.CAFile, f.WebhookSecret),
		"templates/note/push.yaml":    "title: Note\nbody: \"{{.text}}\"\n",
		"templates/note/email.yaml":   "subject: Note\ntext: \"{{.text}}\"\n",
		"templates/note/webhook.yaml": "body: {text: \"{{.text}}\"}\n",
	}
	for typ, policy := range policies {
		files["policies/"+typ+".yaml"] = policy
	}
	for name, text := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// quickPolicy is a policy over all three channels whose waits are short
// enough for a test. capped is the limit per recipient and hour; 0: none.
func quickPolicy(order notifier.Order, capped int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "order: %s\ndescription: For a test.\n", order)
	b.WriteString("channels:\n")
	for _, ch := range []string{"apns", "email", "webhook"} {
		fmt.Fprintf(&b, "  - {channel: %s, template: note, send_timeout: 5s}\n", ch)
	}
	b.WriteString("data: {text: {required: true}}\nlease: 2s\nexpires_after: 1h\n")
	// A storm lets leases lapse as often as it kills; none of that may end a delivery.
	b.WriteString("retry: {initial: 50ms, factor: 1, max: 50ms, max_attempts: 100, max_unknown: 100}\n")
	if capped > 0 {
		fmt.Fprintf(&b, "caps: [{name: hourly, per: [recipient], limit: %d, window: 1h}]\n", capped)
	}
	return b.String()
}

// to is the part "to" of a message that reaches recipient number n on one channel.
func to(sim *simulate.Server, channel string, n int) map[string][]map[string]string {
	field, value := "", ""
	switch channel {
	case "apns":
		field, value = "token", fmt.Sprintf("d%063x", n) // all zeros is nobody's
	case "email":
		field, value = "address", fmt.Sprintf("r%d@example.com", n)
	case "webhook":
		field, value = "url", fmt.Sprintf("%s/hooks/%d", sim.HTTPURL(), n)
	}
	return map[string][]map[string]string{channel: {{field: value}}}
}
