package fcm

import (
	"strings"
	"testing"

	"github.com/seed-4b260dfd/notifier/channels"
)

func TestConfig_Validate(t *testing.T) {
	t.Parallel()
	good := Config{CredentialsFile: "sa.json"}
	for name, test := range map[string]struct {
		change func(*Config)
		field  string
	}{
		"good":                {func(*Config) {}, ""},
		"with project":        {func(c *Config) { c.ProjectID = "my-shop-1a2b3" }, ""},
		"with old project":    {func(c *Config) { c.ProjectID = "example.com:my-shop" }, ""},
		"no file":             {func(c *Config) { c.CredentialsFile = "" }, "credentials_file"},
		"project in capitals": {func(c *Config) { c.ProjectID = "MyShop" }, "project_id"},
		"project with a path": {func(c *Config) { c.ProjectID = "my-shop/../other" }, "project_id"},
		"plain endpoint":      {func(c *Config) { c.Endpoint, c.AllowPrivate = "http://127.0.0.1:1", true }, "endpoint"},
		"endpoint of words":   {func(c *Config) { c.Endpoint = "here" }, "endpoint"},
	} {
		c := good
		test.change(&c)
		wrong := c.Validate()
		switch {
		case test.field == "" && len(wrong) > 0:
			t.Errorf("%s: %v", name, wrong[0])
		case test.field != "" && (len(wrong) != 1 || wrong[0].Field != test.field):
			t.Errorf("%s: got %v, want %s alone", name, wrong, test.field)
		}
	}
}

func TestNew_Credentials(t *testing.T) {
	t.Parallel()
	var none *provider
	const ec = "-----BEGIN PRIVATE KEY-----\nMIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgevZzL1gdAFr88hb2\nOF/2NxApJCzGCEDdfSp6VQO30hyhRANCAAQRWz+jn65BtOMvdyHKcvjBeBSDZH2r\n1RTwjmYSi9R/zpBnuQ4EiMnCqfMPWiZqB4QdbAd0E7oH50VpuZ1P087G\n-----END PRIVATE KEY-----\n"
	for name, test := range map[string]struct {
		change map[string]any
		want   string
	}{
		"good":           {nil, ""},
		"no token_uri":   {map[string]any{"token_uri": ""}, ""}, // Google's own
		"a user's":       {map[string]any{"type": "authorized_user"}, `its type is "authorized_user"; a service account's key file is needed`},
		"no email":       {map[string]any{"client_email": ""}, "it holds no client_email"},
		"no project":     {map[string]any{"project_id": ""}, "set project_id"},
		"no key":         {map[string]any{"private_key": ""}, "its private_key is not PEM"},
		"half a key":     {map[string]any{"private_key": "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"}, "its private_key is not a private key"},
		"another's key":  {map[string]any{"private_key": ec}, "Google signs with RSA"},
		"plain endpoint": {map[string]any{"token_uri": "http://oauth2.example.com/token"}, "its token_uri is without TLS"},
		"no endpoint":    {map[string]any{"token_uri": "here"}, "its token_uri is not a URL"},
		"wrong field":    {map[string]any{"private_key": 7}, "it cannot be read as a service account's key file"},
	} {
		s, err := New(Config{CredentialsFile: none.account(t, test.change)})
		switch {
		case test.want == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)):
			t.Errorf("%s: got %v, want %s", name, err, test.want)
		case err != nil && (strings.Contains(err.Error(), "BEGIN") || strings.Contains(err.Error(), "MIG")):
			t.Errorf("%s: the error quotes the key: %v", name, err)
		}
		if err == nil {
			s.Close()
		}
	}
	for name, c := range map[string]Config{
		"no file":     {CredentialsFile: "/nowhere/sa.json"},
		"not JSON":    {CredentialsFile: writeFile(t, []byte("-----BEGIN"))},
		"no CA":       {CredentialsFile: none.account(t, nil), AccountConfig: channels.AccountConfig{CAFile: "/nowhere/ca.pem"}},
		"not allowed": {},
	} {
		if _, err := New(c); err == nil {
			t.Errorf("%s: it was opened", name)
		}
	}
}
