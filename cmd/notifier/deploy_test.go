package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/seed-4b260dfd/notifier"
	"github.com/seed-4b260dfd/notifier/ledger/postgres"
	"github.com/seed-4b260dfd/notifier/redisaudit"
	"github.com/seed-4b260dfd/notifier/servertest"
)

// deploy is the folder of what an installation needs beside the binary.
var deploy = filepath.Join("..", "..", "deploy")

// What deploy/ hands out is what this binary takes.
func TestDeploy_ConfigurationAndComposeFit(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for from, to := range map[string]string{
		filepath.Join(deploy, "notifier.yaml"):                                     "notifier.yaml",
		filepath.Join("..", "..", "examples/policies/payment_event.yaml"):          "policies/payment_event.yaml",
		filepath.Join("..", "..", "examples/templates/payment_event/webhook.yaml"): "templates/payment_event/webhook.yaml",
	} {
		text, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Join(dir, filepath.FromSlash(to))
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	env := map[string]string{"PGUSER": "node", "PGPASSWORD": "hunter2", "WEBHOOK_SECRET": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
		"NOTIFIER_KEY_SHA256": "8254c329a92850f6d539dd376f4816ee2764517da5e0235514af433164480d7a"}
	cfg, problems, err := loadConfig(filepath.Join(dir, "notifier.yaml"), true, func(name string) string { return env[name] })
	if err != nil || len(problems) > 0 {
		t.Fatalf("deploy/notifier.yaml: %v, %v", problems, err)
	}
	if cfg.ledger != "" || cfg.recordsKept != recordsByDefault {
		t.Errorf("it keeps records for %s in the file %q; want the default, in Postgres", cfg.recordsKept, cfg.ledger)
	}
	text, err := os.ReadFile(filepath.Join(deploy, "compose.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var compose struct {
		Services map[string]struct {
			Command     []string          `yaml:"command"`
			Environment map[string]string `yaml:"environment"`
		} `yaml:"services"`
	}
	if err := yaml.Unmarshal(text, &compose); err != nil {
		t.Fatal(err)
	}
	for _, node := range []string{"migrate", "node1", "node2", "node3"} {
		s := compose.Services[node]
		if len(s.Command) == 0 || !slices.ContainsFunc(commands(), func(c command) bool { return c.name == s.Command[0] }) {
			t.Errorf("%s runs %q, which is no command", node, s.Command)
		}
		for name := range env {
			if _, ok := s.Environment[name]; !ok {
				t.Errorf("%s is not given %s, which the configuration asks for", node, name)
			}
		}
	}
	if owner := compose.Services["migrate"].Environment["PGUSER"]; owner == compose.Services["node1"].Environment["PGUSER"] {
		t.Errorf("the nodes run as %s, the ledger's owner", owner)
	}
}

// settingsIn reads a file of settings: a name, perhaps a sign, and a value.
func settingsIn(t *testing.T, name string) (names, values []string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(deploy, name))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		line, _, _ = strings.Cut(line, "#")
		name, value, ok := strings.Cut(strings.TrimSpace(line), " ")
		if ok {
			names, values = append(names, name), append(values, strings.Trim(value, `= "`))
		}
	}
	if len(names) < 4 {
		t.Fatalf("%s has only %v", name, names)
	}
	return names, values
}

// A Postgres that is set as deploy/ says takes nothing from the promise.
func TestDeploy_PostgresSettings(t *testing.T) {
	t.Parallel()
	var set []string
	names, values := settingsIn(t, "postgresql.conf")
	for i, name := range names {
		set = append(set, name+"="+values[i])
	}
	url := servertest.NewPostgres(t, set...).URL()
	if _, err := postgres.Migrate(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	l, err := postgres.Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if weak, err := l.Audit(t.Context()); err != nil || len(weak) > 0 {
		t.Errorf("got %v, %v; want nothing to be weak", weak, err)
	}
}

// And neither does a Redis. Its defaults do, or this would show nothing.
func TestDeploy_RedisSettings(t *testing.T) {
	t.Parallel()
	set := []string{"--appendonly", "no"}
	audit := func(set []string) []string {
		faults, err := redisaudit.New(servertest.NewRedis(t, set...).Client(), "a-ledger").Audit(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return faults
	}
	if len(audit(set)) == 0 {
		t.Error("a Redis that keeps nothing on disk: want a fault")
	}
	names, values := settingsIn(t, "redis.conf")
	for i, name := range names {
		set = append(set, "--"+name, values[i])
	}
	if faults := audit(set); len(faults) > 0 {
		t.Errorf("got %v, want none", faults)
	}
}

// A node runs as the role that deploy/ makes for it, and delivers under either
// order.
func TestDeploy_ANodeRunsUnderItsRole(t *testing.T) {
	t.Parallel()
	bin, owner := buildBinary(t), sharedFolder(t)
	if _, stderr, code := ended(bin, owner, "migrate"); code != 0 {
		t.Fatalf("migrate: got exit code %d, %s", code, stderr)
	}
	config, err := os.ReadFile(filepath.Join(owner, configName))
	if err != nil {
		t.Fatal(err)
	}
	ledger := regexp.MustCompile(`postgres://(\w+)@\S+`).FindSubmatch(config)
	cmd := exec.Command("psql", string(ledger[0]), "-v", "ON_ERROR_STOP=1", "-f", filepath.Join(deploy, "roles.sql"), "-f", filepath.Join(deploy, "node.sql"))
	cmd.Env = append(cmd.Environ(), "NODE_PASSWORD=it's")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("make the roles (with Debian's postgresql-client): %v\n%s", err, out)
	}
	config = bytes.Replace(config, slices.Concat(ledger[1], []byte("@")), []byte("node@"), 1)
	if err := os.WriteFile(filepath.Join(owner, configName), config, 0o600); err != nil {
		t.Fatal(err)
	}
	s := newServer(t, bin, owner)
	s.start()
	var ids []string
	for i, typ := range []string{"note", "digest"} {
		id, err := s.send(message{Key: typ, Type: typ, Recipient: "u", To: to(nil, "apns", i), Data: map[string]string{"text": "hello"}})
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, id)
	}
	for _, n := range s.settled(ids) {
		if n.State != notifier.StateSent {
			t.Errorf("%s: got %s, want sent", n.Type, n.State)
		}
	}
	if _, stderr, code := ended(bin, owner, "migrate"); code != 0 {
		t.Errorf("migrate as a node where there is nothing to do: got exit code %d, %s", code, stderr)
	}
	older := exec.Command("psql", string(ledger[0]), "-v", "ON_ERROR_STOP=1", "-c", "DELETE FROM schema_version WHERE version = (SELECT max(version) FROM schema_version)")
	if out, err := older.CombinedOutput(); err != nil {
		t.Fatalf("take the schema back: %v\n%s", err, out)
	}
	if _, stderr, code := ended(bin, owner, "migrate"); code != 1 || !strings.Contains(stderr, "42501") {
		t.Errorf("migrate as a node: got exit code %d, %s; want it refused for want of a right", code, stderr)
	}
}
