// Package apns sends to Apple devices through the APNs provider API, with
// token authentication.
//
// Every attempt at a delivery carries the same apns-id and the same
// apns-collapse-id, so that a repeat replaces the first on the device. APNs
// itself does not recognise repeats. What a status means is in answers.go.
package apns

import (
	"encoding/hex"
	"fmt"
	"time"

	"github.com/seed-4b260dfd/notifier"
)

// sendTimeout is the time for one call, the wait for a stream included.
const sendTimeout = 20 * time.Second

// Kind is the channel apns, whatever the account.
type Kind struct{}

// Channel is the kind's name.
func (Kind) Channel() notifier.Channel { return notifier.ChannelAPNs }

// SendTimeout is the time that one call is given.
func (Kind) SendTimeout() time.Duration { return sendTimeout }

// maxTokenBytes bounds a device token. Apple promises no length; tokens of 32
// and of 80 bytes are known.
const maxTokenBytes = 256

// CheckAddress takes a device token: hexadecimal digits, two to a byte.
func (Kind) CheckAddress(a notifier.Address) error {
	switch b, err := hex.DecodeString(a.Value); {
	case a.Value == "":
		return invalid("token", "a device token is required")
	case err != nil:
		return invalid("token", "the device token is not hexadecimal, two digits to a byte")
	case len(b) > maxTokenBytes:
		return invalid("token", fmt.Sprintf("the device token has %d bytes; at most %d are allowed", len(b), maxTokenBytes))
	case a.Secret != "":
		return invalid("secret", "a device has no secret; leave it out")
	}
	return nil
}

func invalid(field, message string) error {
	return &notifier.Error{Code: notifier.CodeInvalid, Field: field, Message: message}
}
