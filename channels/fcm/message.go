package fcm

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"time"

	"firebase.google.com/go/v4/messaging"

	"github.com/seed-4b260dfd/notifier"
)

// maxTTL is the longest that FCM keeps a message for a device that is away.
// https://firebase.google.com/docs/cloud-messaging/customize-messages/setting-message-lifespan
const maxTTL = 28 * 24 * time.Hour

var errNotPush = errors.New("the stored content is not a push")

// attemptMessage lays an attempt's token, ids and expiry over the stored payload.
func attemptMessage(d *notifier.Delivery, now time.Time) (*messaging.Message, error) {
	m := &messaging.Message{}
	if err := json.Unmarshal(d.Content, m); err != nil {
		return nil, errNotPush
	}
	if m.Notification == nil && len(m.Data) == 0 {
		return nil, errNotPush
	}
	m.Token = d.Address.Value
	if m.Data == nil {
		m.Data = map[string]string{}
	}
	m.Data[idField] = notifier.UUID(d.EffectKey)
	ttl := min(max(d.ExpiresAt.Sub(now).Truncate(time.Second), 0), maxTTL)
	forAndroid(m, d, ttl)
	forApple(m, d)
	forBrowsers(m, d, ttl)
	return m, nil
}

// forAndroid sets what FCM does with the message while the device is away, and
// the tag, by which a device that shows it replaces the earlier one.
//
// The collapse key is the message type and not the collapse id: FCM keeps
// messages of four keys for a device, and with more it does not say which of
// them survive. A message with something to show is always collapsible; without
// a key of its own it would have the app's name, and any type would push out
// any other. Data messages are not collapsible and get none: FCM keeps each.
// https://firebase.google.com/docs/cloud-messaging/customize-messages/collapsible-message-types
func forAndroid(m *messaging.Message, d *notifier.Delivery, ttl time.Duration) {
	if m.Android == nil {
		m.Android = &messaging.AndroidConfig{}
	}
	m.Android.TTL, m.Android.Priority = &ttl, "normal"
	if m.Notification == nil {
		return // high priority is for what a person sees
	}
	if d.Lane.Priority != notifier.PriorityBulk {
		m.Android.Priority = "high"
	}
	m.Android.CollapseKey = d.Type
	if m.Android.Notification == nil {
		m.Android.Notification = &messaging.AndroidNotification{}
	}
	m.Android.Notification.Tag = tag(d)
}

// forApple sets what FCM hands on to APNs.
// https://developer.apple.com/documentation/usernotifications/sending-notification-requests-to-apns
func forApple(m *messaging.Message, d *notifier.Delivery) {
	if m.APNS == nil {
		m.APNS = &messaging.APNSConfig{}
	}
	h := map[string]string{"apns-expiration": strconv.FormatInt(max(d.ExpiresAt.Unix(), 0), 10), "apns-push-type": "alert", "apns-priority": "10"}
	if m.Notification == nil {
		h["apns-push-type"], h["apns-priority"] = "background", "5"
	} else {
		h["apns-collapse-id"] = tag(d)
	}
	m.APNS.Headers = h
}

// forBrowsers sets what FCM hands on to Web Push (RFC 8030 section 5).
func forBrowsers(m *messaging.Message, d *notifier.Delivery, ttl time.Duration) {
	if m.Webpush == nil {
		m.Webpush = &messaging.WebpushConfig{}
	}
	h := map[string]string{"TTL": strconv.FormatInt(int64(ttl/time.Second), 10), "Urgency": "normal"}
	switch {
	case m.Notification == nil, d.Lane.Priority == notifier.PriorityBulk:
		h["Urgency"] = "low"
	case d.Lane.Priority == notifier.PriorityHigh:
		h["Urgency"] = "high"
	}
	if m.Notification != nil {
		h["Topic"] = topic(d)
	}
	m.Webpush.Headers = h
}

const (
	// maxTagBytes is the length of an apns-collapse-id; the tag, which may be
	// any text, is held to it too, and is the same on every kind of device.
	maxTagBytes = 64
	// maxTopicBytes is the length of a Topic (RFC 8030 section 5.4).
	maxTopicBytes = 32
)

// collapseID is what a newer message has in common with the one that it replaces.
func collapseID(d *notifier.Delivery) string {
	if d.CollapseID != "" {
		return d.CollapseID
	}
	return d.EffectKey
}

// tag is the delivery's collapse id where that is shorter than 64 bytes and
// printable ASCII, and otherwise its SHA-256, whose hex form has 64: one is
// never taken for the other.
func tag(d *notifier.Delivery) string {
	id := collapseID(d)
	outside := func(r rune) bool { return r < 0x20 || r > 0x7e }
	// A space at either end would be lost in a header.
	if id != "" && len(id) < maxTagBytes && strings.IndexFunc(id, outside) < 0 && strings.TrimSpace(id) == id {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	return hex.EncodeToString(sum[:])
}

// topic is the same in the 64 characters of URL-safe base64, at most 32 of
// them: a hash always has 32.
func topic(d *notifier.Delivery) string {
	id := collapseID(d)
	outside := func(r rune) bool {
		return (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z') && r != '-' && r != '_'
	}
	if id != "" && len(id) < maxTopicBytes && strings.IndexFunc(id, outside) < 0 {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	return base64.RawURLEncoding.EncodeToString(sum[:])[:maxTopicBytes]
}
