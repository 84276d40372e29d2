package main

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"go.yaml.in/yaml/v3"
)

// What deploy/ hands out is what this binary takes.
func TestDeploy_ConfigurationAndComposeFit(t *testing.T) {
	t.Parallel()
	deploy := filepath.Join("..", "..", "deploy")
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
	env := map[string]string{"PGPASSWORD": "hunter2", "WEBHOOK_SECRET": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
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
	for _, node := range []string{"node1", "node2", "node3"} {
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
	if redis := compose.Services["redis"].Command; !slices.Contains(redis, "noeviction") || !slices.Contains(redis, "--appendonly") {
		t.Errorf("redis runs as %q", redis)
	}
}
