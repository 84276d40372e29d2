// Package webhook posts JSON to the receiver's own URL, signed as Standard
// Webhooks asks (https://www.standardwebhooks.com, version 1).
//
// Every attempt at a delivery carries the same body, the same webhook-id and
// the same Idempotency-Key, by which the receiver can tell a repeat; timestamp
// and signature are the attempt's. What a status means is in answers.go.
//
// The URL is somebody else's, so it is kept on the public internet: https
// only, on any port, without user and password, no redirect followed, and
// every connection's IP address is looked at. An account with allow_private
// may also use http and any address.
package webhook

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/seed-4b260dfd/notifier"
)

const (
	// sendTimeout is the longer end of what Standard Webhooks advises. A
	// shorter one makes unknown outcomes of slow receivers.
	sendTimeout = 30 * time.Second
	maxURLBytes = 2048
	// maxBodyBytes is three times what Standard Webhooks advises to stay below.
	maxBodyBytes = 64 << 10
)

// Kind is the channel webhook, whatever the account.
type Kind struct{}

// Channel is the kind's name.
func (Kind) Channel() notifier.Channel { return notifier.ChannelWebhook }

// SendTimeout is the time that one call is given.
func (Kind) SendTimeout() time.Duration { return sendTimeout }

// CheckAddress takes an absolute http or https URL. Whether http will do is
// the account's affair.
func (Kind) CheckAddress(a notifier.Address) error {
	if a.Value == "" {
		return invalid("a URL is required")
	}
	if len(a.Value) > maxURLBytes {
		return invalid(fmt.Sprintf("the URL has %d bytes; at most %d are allowed", len(a.Value), maxURLBytes))
	}
	if strings.TrimFunc(a.Value, func(r rune) bool { return r > 0x20 && r < 0x7f }) != "" {
		return invalid("the URL has a character outside printable ASCII; encode it")
	}
	u, err := url.Parse(a.Value)
	switch {
	case err != nil || u.Opaque != "" || u.Hostname() == "" || (u.Scheme != "https" && u.Scheme != "http"):
		return invalid("not a URL such as https://example.com/hook")
	case u.User != nil:
		return invalid("the URL holds a user or a password; leave them out")
	case u.Fragment != "":
		return invalid("the URL holds a fragment; leave it out")
	}
	if p := u.Port(); p != "" {
		if n, err := strconv.Atoi(p); err != nil || n < 1 || n > 65535 {
			return invalid(fmt.Sprintf("the URL's port %q is not one from 1 to 65535", p))
		}
	}
	return nil
}

func invalid(message string) error {
	return &notifier.Error{Code: notifier.CodeInvalid, Field: "url", Message: message}
}

// Prepare takes the one field, body: the content is its JSON, byte for byte
// what is posted and signed.
func (Kind) Prepare(fields map[string]any) (notifier.Content, error) {
	for name := range fields {
		if name != "body" {
			return nil, failed(name, "is not a field of a webhook; allowed is body", nil)
		}
	}
	body, ok := fields["body"]
	if !ok || body == nil {
		return nil, failed("body", "a webhook needs a body", nil)
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(body); err != nil {
		return nil, failed("body", "cannot be written as JSON", err)
	}
	content := bytes.TrimSuffix(b.Bytes(), []byte("\n"))
	if len(content) > maxBodyBytes {
		return nil, &notifier.Error{
			Code:    notifier.CodePayloadTooLarge,
			Message: fmt.Sprintf("the webhook's body has %d bytes; at most %d are allowed", len(content), maxBodyBytes),
			Details: map[string]any{"channel": string(notifier.ChannelWebhook), "size": len(content), "limit": maxBodyBytes},
		}
	}
	return content, nil
}

func failed(field, message string, err error) error {
	return &notifier.Error{Code: notifier.CodeTemplateFailed, Field: field, Message: message, Err: err}
}
