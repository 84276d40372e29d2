package webpush

import (
	"crypto/ecdh"
	"encoding/base64"
	"errors"
	"net/mail"
	"net/url"
	"strings"

	"github.com/seed-4b260dfd/notifier/channels"
)

// Config is one account: the VAPID key that the page subscribes with.
type Config struct {
	channels.AccountConfig `yaml:",inline"`

	// VAPIDPrivateKey is the private key: 32 bytes in base64url.
	VAPIDPrivateKey string `yaml:"vapid_private_key"`
	// Subject is how a push service reaches whoever runs the account: a mailto:
	// or an https: URL (RFC 8292 section 2.1).
	Subject string `yaml:"subject"`
}

var errKey = errors.New("is not a VAPID private key; allowed are 32 bytes in base64url, as key generators print them")

// Validate returns everything that is wrong with the fields. No message holds
// the key.
func (c Config) Validate() []*channels.FieldError {
	wrong := c.AccountConfig.Validate()
	if e := c.CheckEndpoint(true); e != nil {
		wrong = append(wrong, e)
	}
	if u, err := url.Parse(c.Endpoint); err == nil && strings.Trim(u.Path, "/") != "" {
		wrong = append(wrong, channels.Wrong("endpoint", "%q has a path; the path is the subscription's own", c.Endpoint))
	}
	if c.VAPIDPrivateKey == "" {
		wrong = append(wrong, channels.Wrong("vapid_private_key", "is required: 32 bytes in base64url, such as file:vapid.key"))
	} else if _, err := c.key(); err != nil {
		wrong = append(wrong, channels.Wrong("vapid_private_key", "%v", err))
	}
	if !isSubject(c.Subject) {
		wrong = append(wrong, channels.Wrong("subject", "%q is neither mailto:ops@example.com nor https://example.com", c.Subject))
	}
	return wrong
}

// isSubject is as strict as the strictest service: Apple answers BadJwtToken
// to a name without a dot, such as localhost, and to spaces and angle brackets.
// https://developer.apple.com/documentation/usernotifications/sending-web-push-notifications-in-web-apps-and-browsers
func isSubject(s string) bool {
	if strings.ContainsFunc(s, func(r rune) bool { return r <= 0x20 || r >= 0x7f }) {
		return false
	}
	if box, ok := strings.CutPrefix(s, "mailto:"); ok {
		a, err := mail.ParseAddress(box)
		return err == nil && a.Address == box && isPublicName(box[strings.LastIndexByte(box, '@')+1:])
	}
	u, err := url.Parse(s)
	return err == nil && u.Scheme == "https" && u.User == nil && isPublicName(u.Hostname())
}

func isPublicName(host string) bool { return strings.Contains(strings.Trim(host, "."), ".") }

func (c Config) key() (*ecdh.PrivateKey, error) {
	raw, err := decodeKey(c.VAPIDPrivateKey)
	if err != nil {
		return nil, errKey
	}
	key, err := ecdh.P256().NewPrivateKey(raw)
	if err != nil {
		return nil, errKey
	}
	return key, nil
}

// PublicKey is the account's public key in base64url: what the page gives to
// pushManager.subscribe as applicationServerKey.
func (c Config) PublicKey() (string, error) {
	key, err := c.key()
	if err != nil {
		return "", err
	}
	return base64.RawURLEncoding.EncodeToString(key.PublicKey().Bytes()), nil
}
