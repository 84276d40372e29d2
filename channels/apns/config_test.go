package apns

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-4b260dfd/notifier/channels"
)

// keyFile writes an authentication key.
func keyFile(t *testing.T, curve elliptic.Curve) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(curve, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return writePEM(t, "PRIVATE KEY", der)
}

func writePEM(t *testing.T, kind string, der []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file.pem")
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func goodConfig(t *testing.T) Config {
	t.Helper()
	return Config{KeyFile: keyFile(t, elliptic.P256()), KeyID: "ABCDE12345", TeamID: "FGHIJ67890", Topic: "com.example.app", Environment: "sandbox"}
}

func TestConfig_Validate(t *testing.T) {
	t.Parallel()
	if wrong := goodConfig(t).Validate(); len(wrong) > 0 {
		t.Errorf("a good configuration: %v", wrong)
	}
	bad := Config{AccountConfig: channels.AccountConfig{Endpoint: "http://127.0.0.1:1", AllowPrivate: true, Breaker: channels.BreakerConfig{After: new(0)}}, KeyID: "short", Topic: "a b"}
	var fields []string
	for _, e := range bad.Validate() {
		fields = append(fields, e.Field)
	}
	if diff := cmp.Diff([]string{"breaker.after", "endpoint", "key_file", "key_id", "team_id", "topic", "environment"}, fields); diff != "" {
		t.Errorf("fields (-want +got):\n%s", diff)
	}
	if _, err := New(bad); err == nil {
		t.Error("a sender was made of a bad configuration")
	}
	for name, path := range map[string]string{"missing": "/nonexistent.p8", "wrong curve": keyFile(t, elliptic.P384()), "no key": writePEM(t, "PRIVATE KEY", []byte("x"))} {
		cfg := goodConfig(t)
		cfg.KeyFile = path
		if _, err := New(cfg); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: got %v, want an error that names the file", name, err)
		}
	}
}

func TestConfig_Host(t *testing.T) {
	t.Parallel()
	for want, cfg := range map[string]Config{
		"https://api.push.apple.com":         {Environment: "production"},
		"https://api.sandbox.push.apple.com": {Environment: "sandbox"},
		"https://127.0.0.1:2197":             {Environment: "production", AccountConfig: channels.AccountConfig{Endpoint: "https://127.0.0.1:2197/"}},
	} {
		if got := cfg.host(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
