// Package webpush sends to browsers through their push services: the Web Push
// protocol (RFC 8030), encrypted for the browser (RFC 8291), signed with the
// account's VAPID key (RFC 8292).
//
// Every attempt at a delivery carries the same plaintext, with the same id and
// tag in it, and the same Topic: a repeat replaces a first one that has not
// been delivered, and lets a service worker replace one that is shown. What is
// on the wire differs, since each attempt is encrypted anew: a salt must not be
// used twice. Push services do not recognise repeats. What a status means is in
// answers.go.
//
// The endpoint is somebody else's URL, so it is kept on the public internet as
// a webhook's is: https only, no redirect followed, and every connection's IP
// address is looked at unless the account says allow_private.
package webpush

import (
	"crypto/ecdh"
	"encoding/base64"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/seed-4b260dfd/notifier"
)

const (
	// sendTimeout is the time for one call.
	sendTimeout = 20 * time.Second
	maxURLBytes = 2048
	// The sizes of a subscription's keys (RFC 8291 sections 3.1 and 3.2).
	publicKeyBytes = 65
	authBytes      = 16
)

// Kind is the channel webpush, whatever the account.
type Kind struct{}

// Channel is the kind's name.
func (Kind) Channel() notifier.Channel { return notifier.ChannelWebPush }

// SendTimeout is the time that one call is given.
func (Kind) SendTimeout() time.Duration { return sendTimeout }

// CheckAddress takes a subscription: an https endpoint with the browser's keys.
// No message quotes any of them.
func (Kind) CheckAddress(a notifier.Address) error {
	if _, err := readEndpoint(a.Value); err != nil {
		return invalid("endpoint", err.Error())
	}
	if a.Secret != "" {
		return invalid("secret", "a subscription has no secret of that kind; leave it out")
	}
	key, err := decodeKey(a.Keys.P256dh)
	if err != nil || len(key) != publicKeyBytes {
		return invalid("keys.p256dh", missingOr(a.Keys.P256dh, "is not a public key: allowed are 65 bytes in base64url"))
	}
	// An uncompressed point begins with 4, and must lie on the curve.
	if _, err := ecdh.P256().NewPublicKey(key); err != nil {
		return invalid("keys.p256dh", "is not a point on the curve P-256 in uncompressed form")
	}
	if auth, err := decodeKey(a.Keys.Auth); err != nil || len(auth) != authBytes {
		return invalid("keys.auth", missingOr(a.Keys.Auth, "is not an authentication secret: allowed are 16 bytes in base64url"))
	}
	return nil
}

func missingOr(value, message string) string {
	if value == "" {
		return "is required: the browser gives it with the endpoint"
	}
	return message
}

func invalid(field, message string) error {
	return &notifier.Error{Code: notifier.CodeInvalid, Field: field, Message: message}
}

// decodeKey reads base64url, with or without padding.
func decodeKey(s string) ([]byte, error) {
	return base64.RawURLEncoding.Strict().DecodeString(strings.TrimRight(s, "="))
}

// readEndpoint reads an endpoint and puts its origin into the spelling that a
// token's audience has (RFC 6454 section 6.1): a lower-case host, and no port
// where it is the scheme's own.
func readEndpoint(s string) (*url.URL, error) {
	if s == "" {
		return nil, fmt.Errorf("an endpoint is required")
	}
	if len(s) > maxURLBytes {
		return nil, fmt.Errorf("the endpoint has %d bytes; at most %d are allowed", len(s), maxURLBytes)
	}
	if strings.TrimFunc(s, func(r rune) bool { return r > 0x20 && r < 0x7f }) != "" {
		return nil, fmt.Errorf("the endpoint has a character outside printable ASCII")
	}
	u, err := url.Parse(s)
	switch {
	case err != nil || u.Opaque != "" || u.Hostname() == "" || u.Scheme != "https":
		return nil, fmt.Errorf("not an https URL such as https://push.example.com/abc")
	case u.User != nil || u.Fragment != "":
		return nil, fmt.Errorf("the endpoint holds a user or a fragment; hand it on as the browser gave it")
	}
	if p := u.Port(); p != "" {
		if n, err := strconv.Atoi(p); err != nil || n < 1 || n > 65535 {
			return nil, fmt.Errorf("the endpoint's port is not one from 1 to 65535")
		}
	}
	u.Host = strings.TrimSuffix(strings.ToLower(u.Host), ":443")
	return u, nil
}
