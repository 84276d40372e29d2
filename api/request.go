package api

import (
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed-4b260dfd/notifier"
)

// The longest values of a request, in bytes. What a channel can take is the
// channel's to say; these keep what is stored, logged and indexed in bounds.
const (
	maxType      = 128
	maxRecipient = 255
	maxLocale    = 35
	maxToken     = 512
	// maxRegistration is for FCM's tokens, of which Google promises no length.
	maxRegistration = 4096
	maxMailbox      = 320
	maxURL          = 2048
	maxPhone        = 32
	maxLabel        = 128
	maxTime         = 64
)

const allowedFields = "type, recipient, to, data, locale, send_at, expires_at, key"

// parsed is a request as the body has it: without tenant, and with the key
// only if the body has one.
type parsed struct {
	req   notifier.Request
	keyed bool
}

// parseRequest reads the body of POST /v1/notifications.
func parseRequest(body []byte) (parsed, error) {
	var p parsed
	d := newDecoder(body)
	if err := d.members(func(name string) error { return p.member(d, name) }); err != nil {
		return p, err
	}
	if err := d.end(); err != nil {
		return p, err
	}
	for _, must := range []struct{ field, value string }{{"type", p.req.Type}, {"recipient", p.req.Recipient}} {
		if must.value == "" {
			return p, &notifier.Error{Code: notifier.CodeInvalid, Field: must.field, Message: must.field + " is required"}
		}
	}
	return p, nil
}

func (p *parsed) member(d *decoder, name string) error {
	switch name {
	case "key":
		return p.key(d)
	case "type":
		return d.text(&p.req.Type, maxType)
	case "recipient":
		return d.text(&p.req.Recipient, maxRecipient)
	case "to":
		return p.to(d)
	case "data":
		return p.data(d)
	case "locale":
		return p.locale(d)
	case "send_at":
		return d.time(&p.req.SendAt)
	case "expires_at":
		return d.time(&p.req.ExpiresAt)
	case "entity", "version", "time_zone":
		if d.null() {
			return nil
		}
		return d.fault(notifier.CodeUnsupportedField, "%s is not supported yet; leave it out", name)
	default:
		return d.fault(notifier.CodeUnknownField, "there is no such field; allowed are %s", allowedFields)
	}
}

func (p *parsed) key(d *decoder) error {
	if d.null() {
		return nil
	}
	tok, err := d.token()
	if err != nil {
		return err
	}
	if tok.Kind() != jsontext.KindString {
		return d.invalid("must be a string")
	}
	p.req.Key = tok.String()
	if p.keyed = p.req.Key != ""; !p.keyed {
		return nil
	}
	return notifier.CheckKey(p.req.Key)
}

func (p *parsed) data(d *decoder) (err error) {
	if d.null() {
		return nil
	}
	p.req.Data, err = d.object()
	return err
}

// locale is held to letters, digits and hyphens because it names a folder.
func (p *parsed) locale(d *decoder) error {
	if err := d.text(&p.req.Locale, maxLocale); err != nil {
		return err
	}
	for _, c := range []byte(p.req.Locale) {
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '-' {
			return d.invalid("a locale has letters, digits and hyphens, as in fr-CA")
		}
	}
	return nil
}

// time reads an RFC 3339 time, or a null. Years that a count of nanoseconds
// has no room for are refused.
func (d *decoder) time(into *time.Time) error {
	if d.null() {
		return nil
	}
	var s string
	if err := d.text(&s, maxTime); err != nil {
		return err
	}
	var t time.Time
	if err := t.UnmarshalText([]byte(s)); err != nil {
		return d.invalid("must be an RFC 3339 time, as in 2026-12-01T09:00:00Z")
	}
	if t = t.UTC(); t.Year() < 2000 || t.Year() > 2199 {
		return d.invalid("must lie in the years 2000 to 2199")
	}
	*into = t
	return nil
}

func (p *parsed) to(d *decoder) error {
	if d.null() {
		return nil
	}
	p.req.To = map[notifier.Channel][]notifier.Address{}
	return d.members(func(name string) error {
		ch := notifier.Channel(name)
		switch ch {
		case notifier.ChannelAPNs, notifier.ChannelFCM, notifier.ChannelWebPush, notifier.ChannelEmail, notifier.ChannelSMS, notifier.ChannelWebhook:
			if d.null() {
				return nil
			}
			return d.items(func() error { return p.address(d, ch) })
		}
		return d.fault(notifier.CodeUnknownField, "there is no such channel; allowed are apns, fcm, webpush, email, sms, webhook")
	})
}

// address reads one address of a channel. The same address with another
// account, name or secret is refused, as either could be meant; a mere double
// keeps its place, so that later errors count as the caller does.
func (p *parsed) address(d *decoder, ch notifier.Channel) error {
	var a notifier.Address
	err := d.members(func(name string) error { return addressMember(d, ch, &a, name) })
	if err != nil {
		return err
	}
	if a.Value == "" {
		field := addressField(ch)
		return &notifier.Error{Code: notifier.CodeInvalid, Field: d.path() + "." + field, Message: field + " is required"}
	}
	for _, b := range p.req.To[ch] {
		if a.Value == b.Value && a != b {
			return d.invalid("the same %s is there before with other fields", addressField(ch))
		}
	}
	p.req.To[ch] = append(p.req.To[ch], a)
	return nil
}

// addressField is the name of the field that holds the address itself.
func addressField(ch notifier.Channel) string {
	switch ch {
	case notifier.ChannelAPNs, notifier.ChannelFCM:
		return "token"
	case notifier.ChannelEmail:
		return "address"
	case notifier.ChannelWebhook:
		return "url"
	case notifier.ChannelWebPush:
		return "endpoint"
	case notifier.ChannelSMS:
		return "number"
	}
	return ""
}

func addressMember(d *decoder, ch notifier.Channel, a *notifier.Address, name string) error {
	switch string(ch) + "." + name {
	case "apns.token":
		return d.text(&a.Value, maxToken)
	case "fcm.token":
		return d.text(&a.Value, maxRegistration)
	case "apns.registered_at", "fcm.registered_at":
		return d.time(&a.RegisteredAt)
	case "apns.account", "fcm.account":
		return d.text(&a.Account, maxLabel)
	case "webpush.endpoint":
		return d.text(&a.Value, maxURL)
	case "webpush.keys":
		return pushKeys(d, &a.Keys)
	case "webpush.registered_at":
		return d.time(&a.RegisteredAt)
	case "webpush.account":
		return d.text(&a.Account, maxLabel)
	case "webpush.expirationTime":
		return expirationTime(d)
	case "email.address":
		return d.text(&a.Value, maxMailbox)
	case "email.name":
		return d.text(&a.Name, maxRecipient)
	case "sms.number":
		return d.text(&a.Value, maxPhone)
	case "sms.registered_at":
		return d.time(&a.RegisteredAt)
	case "sms.account":
		return d.text(&a.Account, maxLabel)
	case "webhook.url":
		return d.text(&a.Value, maxURL)
	case "webhook.secret":
		return d.text(&a.Secret, maxLabel)
	}
	return d.fault(notifier.CodeUnknownField, "an address on %s has no such field; allowed are %s", ch, addressFields(ch))
}

// addressFields lists what an address of a channel may have, for people.
func addressFields(ch notifier.Channel) string {
	switch ch {
	case notifier.ChannelAPNs, notifier.ChannelFCM:
		return "token, registered_at, account"
	case notifier.ChannelWebPush:
		return "endpoint, keys, expirationTime, registered_at, account"
	case notifier.ChannelEmail:
		return "address, name"
	case notifier.ChannelSMS:
		return "number, registered_at, account"
	case notifier.ChannelWebhook:
		return "url, secret"
	}
	return "none"
}

// pushKeys reads the keys of a Web Push subscription, which its channel checks.
func pushKeys(d *decoder, into *notifier.PushKeys) error {
	if d.null() {
		return nil
	}
	return d.members(func(name string) error {
		switch name {
		case "p256dh":
			return d.text(&into.P256dh, maxLabel)
		case "auth":
			return d.text(&into.Auth, maxLabel)
		}
		return d.fault(notifier.CodeUnknownField, "the keys of a subscription have no such field; allowed are p256dh, auth")
	})
}

// expirationTime passes over what browsers write beside endpoint and keys
// (https://www.w3.org/TR/push-api/#dom-pushsubscription-tojson), so that a
// subscription can be handed on as it is. That one has expired is for the push
// service to say.
func expirationTime(d *decoder) error {
	if d.null() {
		return nil
	}
	tok, err := d.token()
	if err == nil && tok.Kind() != jsontext.KindNumber {
		err = d.invalid("must be null or a number, as the browser wrote it")
	}
	return err
}
