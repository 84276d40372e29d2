package webhook

import (
	"encoding/base64"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/seed-4b260dfd/notifier/channels"
)

const (
	// defaultSecret is the name of the secret for addresses that name none.
	defaultSecret = "default"
	secretPrefix  = "whsec_"
	// The lengths that Standard Webhooks allows for a symmetric secret.
	minSecretBytes, maxSecretBytes = 24, 64
)

// Config is one account: the secrets that it signs with.
type Config struct {
	channels.AccountConfig `yaml:",inline"`

	// Secrets are the secrets by name, each whsec_ and base64. Where there are
	// several under one name, for the time of a rotation, each signs.
	Secrets map[string][]string `yaml:"secrets"`

	// LookupURL is where a receiver can be asked whether it has a message; {id}
	// in it stands for the webhook-id. Empty: nobody can be asked.
	LookupURL string `yaml:"lookup_url"`
}

// LooksUp reports whether the receiver can be asked what it has.
func (c Config) LooksUp() bool { return c.LookupURL != "" }

// Validate returns everything that is wrong with the fields. No message holds
// a secret.
func (c Config) Validate() []*channels.FieldError {
	wrong := c.AccountConfig.Validate()
	if e := c.CheckEndpoint(true); e != nil {
		wrong = append(wrong, e)
	}
	if u, err := url.Parse(c.Endpoint); err == nil && strings.Trim(u.Path, "/") != "" {
		wrong = append(wrong, channels.Wrong("endpoint", "%q has a path; the path is the address's own", c.Endpoint))
	}
	if e := c.checkLookup(); e != nil {
		wrong = append(wrong, e)
	}
	if len(c.Secrets[defaultSecret]) == 0 {
		wrong = append(wrong, channels.Wrong("secrets.default", "is required: a list of secrets such as whsec_…, for addresses that name none"))
	}
	for _, name := range slices.Sorted(maps.Keys(c.Secrets)) {
		if len(c.Secrets[name]) == 0 && name != defaultSecret {
			wrong = append(wrong, channels.Wrong("secrets."+name, "holds no secret"))
		}
		for i, s := range c.Secrets[name] {
			if _, err := decodeSecret(s); err != nil {
				wrong = append(wrong, channels.Wrong(fmt.Sprintf("secrets.%s[%d]", name, i), "%v", err))
			}
		}
	}
	return wrong
}

// checkLookup returns what is wrong with LookupURL, or nil.
func (c Config) checkLookup() *channels.FieldError {
	if c.LookupURL == "" {
		return nil
	}
	u, err := url.Parse(strings.ReplaceAll(c.LookupURL, idPlace, "id"))
	switch {
	case err != nil || u.Hostname() == "" || (u.Scheme != "https" && u.Scheme != "http"):
		return channels.Wrong("lookup_url", "is not a URL; allowed is https://host/path/%s", idPlace)
	case !strings.Contains(c.LookupURL, idPlace):
		return channels.Wrong("lookup_url", "has no place for the id; allowed is https://host/path/%s", idPlace)
	case u.User != nil || u.Fragment != "":
		return channels.Wrong("lookup_url", "has a user or a fragment; leave them out")
	case u.Scheme == "http" && !c.AllowPrivate:
		return channels.Wrong("lookup_url", "is without TLS; that needs allow_private: true")
	}
	return nil
}

func decodeSecret(s string) ([]byte, error) {
	key, ok := strings.CutPrefix(s, secretPrefix)
	if !ok {
		return nil, fmt.Errorf("does not begin with %s", secretPrefix)
	}
	b, err := base64.StdEncoding.DecodeString(key)
	if err != nil {
		return nil, fmt.Errorf("is not base64 after %s", secretPrefix)
	}
	if len(b) < minSecretBytes || len(b) > maxSecretBytes {
		return nil, fmt.Errorf("has %d bytes; allowed are %d to %d", len(b), minSecretBytes, maxSecretBytes)
	}
	return b, nil
}

// keys returns the decoded secrets of a valid configuration.
func (c Config) keys() (map[string][][]byte, error) {
	keys := make(map[string][][]byte, len(c.Secrets))
	for name, secrets := range c.Secrets {
		for _, s := range secrets {
			key, err := decodeSecret(s)
			if err != nil {
				return nil, fmt.Errorf("read the secret %q: %w", name, err)
			}
			keys[name] = append(keys[name], key)
		}
	}
	return keys, nil
}
