// Package fcm sends to Android devices, browsers and Apple devices through
// Firebase Cloud Messaging's HTTP v1 API, with the Firebase Admin SDK.
//
// The SDK sends a message again up to four times after a lost reply and after
// a 503. Here it is kept from that: its transport answers it with statuses that
// it does not repeat, and what an attempt came to is read from what the wire
// brought, not from the SDK's errors. See transport.go.
//
// Every attempt at a delivery carries the same id in its data, and the same
// tag, so that a repeat replaces the first on the device. FCM itself does not
// recognise repeats. What a status means is in answers.go.
package fcm

import (
	"fmt"
	"strings"
	"time"

	"github.com/seed-4b260dfd/notifier"
)

// sendTimeout is twice the 15 s that FCM may take for an answer of its own; a
// client that gives up sooner makes repeats.
// https://github.com/firebase/firebase-admin-node/issues/1947
const sendTimeout = 30 * time.Second

// Kind is the channel fcm, whatever the account.
type Kind struct{}

// Channel is the kind's name.
func (Kind) Channel() notifier.Channel { return notifier.ChannelFCM }

// SendTimeout is the time that one call is given.
func (Kind) SendTimeout() time.Duration { return sendTimeout }

// maxTokenBytes bounds a registration token. Google promises neither a length
// nor an alphabet; tokens of 140 to 200 bytes are handed out.
const maxTokenBytes = 4096

// CheckAddress takes a registration token: printable ASCII without spaces.
func (Kind) CheckAddress(a notifier.Address) error {
	switch {
	case a.Value == "":
		return invalid("token", "a registration token is required")
	case len(a.Value) > maxTokenBytes:
		return invalid("token", fmt.Sprintf("the registration token has %d bytes; at most %d are allowed", len(a.Value), maxTokenBytes))
	case strings.TrimFunc(a.Value, isVisible) != "":
		return invalid("token", "the registration token has a character outside printable ASCII, or a space")
	case a.Secret != "":
		return invalid("secret", "a device has no secret; leave it out")
	}
	return nil
}

func isVisible(r rune) bool { return r > 0x20 && r < 0x7f }

func invalid(field, message string) error {
	return &notifier.Error{Code: notifier.CodeInvalid, Field: field, Message: message}
}
