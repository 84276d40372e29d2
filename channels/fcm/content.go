package fcm

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"net/url"
	"strconv"
	"strings"

	"github.com/seed-4b260dfd/notifier"
)

// maxPayloadBytes is the limit for a message to a device.
// https://firebase.google.com/docs/cloud-messaging/customize-messages/set-message-type
const maxPayloadBytes = 4096

// idField is the data entry that is equal in every attempt at a delivery, by
// which an app can tell a repeat.
const idField = "notifier_id"

// payload is the part of a message that its template decides, in the names of
// the API. It is what is stored at acceptance; token, ids and expiry are laid
// over it in each attempt.
// https://firebase.google.com/docs/reference/fcm/rest/v1/projects.messages
type payload struct {
	Notification *notification     `json:"notification,omitempty"`
	Data         map[string]string `json:"data,omitempty"`
	Android      *android          `json:"android,omitempty"`
	APNs         *apple            `json:"apns,omitempty"`
	WebPush      *browser          `json:"webpush,omitempty"`
}

type notification struct {
	Title string `json:"title,omitempty"`
	Body  string `json:"body,omitempty"`
	Image string `json:"image,omitempty"`
}

type android struct {
	Notification androidNotification `json:"notification"`
}

type androidNotification struct {
	Sound string `json:"sound,omitempty"`
	// Count is the badge; zero would mean "count by yourself".
	Count int    `json:"notification_count,omitempty"`
	Tag   string `json:"tag,omitempty"`
}

type apple struct {
	Payload struct {
		APS aps `json:"aps"`
	} `json:"payload"`
}

type aps struct {
	Alert            *alert `json:"alert,omitempty"`
	Badge            *int   `json:"badge,omitempty"`
	ContentAvailable int    `json:"content-available,omitempty"`
	MutableContent   int    `json:"mutable-content,omitempty"`
	Sound            string `json:"sound,omitempty"`
}

// alert has what a notification has no field for; title and body come from there.
type alert struct {
	Subtitle string `json:"subtitle"`
}

type browser struct {
	Options struct {
		Link string `json:"link"`
	} `json:"fcm_options"`
}

// Prepare makes the message from title, body, subtitle, sound, badge, image,
// url and data.
//
// FCM takes text only in data: other values go as their JSON. The url goes
// there too, for the app to read, and to browsers as what a click opens. A
// message with data and nothing to show goes to the app unseen.
func (Kind) Prepare(fields map[string]any) (notifier.Content, error) {
	m, err := newMessage(fields)
	if err != nil {
		return nil, err
	}
	p, err := m.payload()
	if err != nil {
		return nil, err
	}
	size, err := p.sizeOnTheWire()
	if err != nil {
		return nil, failed("data", "the message cannot be written as JSON", err)
	}
	if size > maxPayloadBytes {
		return nil, &notifier.Error{
			Code:    notifier.CodePayloadTooLarge,
			Message: fmt.Sprintf("the fcm payload has %d bytes; at most %d are allowed", size, maxPayloadBytes),
			Details: map[string]any{"channel": string(notifier.ChannelFCM), "size": size, "limit": maxPayloadBytes},
		}
	}
	return encode(p)
}

// sizeOnTheWire counts the payload with the id and the longest tag that an
// attempt adds to it. Google counts keys and values and does not say of which
// parts; all of them as JSON is never less.
func (p *payload) sizeOnTheWire() (int, error) {
	whole := *p
	whole.Data = map[string]string{idField: notifier.UUID("")}
	for k, v := range p.Data {
		whole.Data[k] = v
	}
	if p.Notification != nil {
		a := android{}
		if p.Android != nil {
			a = *p.Android
		}
		a.Notification.Tag = strings.Repeat("0", maxTagBytes)
		whole.Android = &a
	}
	b, err := encode(&whole)
	return len(b), err
}

// message is a push as its template rendered it.
type message struct {
	title, body, subtitle, sound, image, url string

	badge *int
	data  map[string]any
}

func newMessage(fields map[string]any) (*message, error) {
	m := &message{}
	for name, value := range fields {
		var ok bool
		switch dst := m.text(name); {
		case value == nil:
			continue
		case dst != nil:
			if *dst, ok = value.(string); !ok {
				return nil, failed(name, fmt.Sprintf("is a %T; a push needs text here", value), nil)
			}
		case name == "badge":
			if m.badge, ok = number(value); !ok {
				return nil, failed(name, fmt.Sprintf("%v is not a whole number from 0 on", value), nil)
			}
		case name == "data":
			if m.data, ok = value.(map[string]any); !ok {
				return nil, failed(name, fmt.Sprintf("is a %T; a push needs a mapping here", value), nil)
			}
		default:
			return nil, failed(name, "is not a field of a push; allowed are title, body, subtitle, sound, badge, image, url, data", nil)
		}
	}
	return m, m.check(fields)
}

// text is where the text field with a name is kept; nil: there is no such field.
func (m *message) text(name string) *string {
	switch name {
	case "title":
		return &m.title
	case "body":
		return &m.body
	case "subtitle":
		return &m.subtitle
	case "sound":
		return &m.sound
	case "image":
		return &m.image
	case "url":
		return &m.url
	default:
		return nil
	}
}

// check refuses a push that would show an empty box, or nothing where
// something was meant, and an image that no device could fetch.
func (m *message) check(fields map[string]any) error {
	if u, err := url.ParseRequestURI(m.image); m.image != "" && (err != nil || u.Host == "") {
		return failed("image", "is not a URL such as https://example.com/image.png", nil)
	}
	if m.title != "" || m.body != "" {
		return nil
	}
	for _, name := range []string{"title", "body", "subtitle", "image", "sound", "badge"} {
		if v, written := fields[name]; written && v != nil {
			return failed(name, "title and body are both empty: the push would show nothing", nil)
		}
	}
	if len(m.data) == 0 {
		return failed("body", "the push has nothing in it: it needs a title, a body or data", nil)
	}
	return nil
}

func (m *message) payload() (*payload, error) {
	data, err := m.texts()
	if err != nil {
		return nil, err
	}
	p := &payload{Data: data}
	a := aps{Badge: m.badge, Sound: m.sound}
	if m.title == "" && m.body == "" {
		a.ContentAvailable = 1
	} else {
		p.Notification = &notification{Title: m.title, Body: m.body, Image: m.image}
	}
	if m.subtitle != "" {
		a.Alert = &alert{m.subtitle}
	}
	if m.image != "" {
		a.MutableContent = 1 // asks the app's extension to fetch it
	}
	if a != (aps{}) {
		p.APNs = &apple{}
		p.APNs.Payload.APS = a
	}
	if n := (androidNotification{Sound: m.sound}); m.sound != "" || m.badge != nil && *m.badge > 0 {
		if m.badge != nil {
			n.Count = *m.badge
		}
		p.Android = &android{n}
	}
	if strings.HasPrefix(m.url, "https://") { // FCM refuses another link
		p.WebPush = &browser{}
		p.WebPush.Options.Link = m.url
	}
	return p, nil
}

// texts is the data as FCM takes it.
func (m *message) texts() (map[string]string, error) {
	texts := make(map[string]string, len(m.data)+1)
	if m.url != "" {
		texts["url"] = m.url
	}
	for key, value := range m.data {
		field := "data." + key
		switch {
		case value == nil:
			continue
		case key == "url" && m.url != "":
			return nil, failed(field, "is there twice: the field url goes along under this name", nil)
		case key == "" || reserved(key):
			return nil, failed(field, "is a name that FCM keeps to itself; these are from, message_type, collapse_key, "+
				"what begins with google or gcm, and "+idField, nil)
		}
		text, ok := value.(string)
		if !ok {
			b, err := encode(value)
			if err != nil {
				return nil, failed(field, "cannot be written as JSON", err)
			}
			text = string(b)
		}
		texts[key] = text
	}
	return texts, nil
}

// reserved names are refused by FCM, or overwritten by it, or by us.
// https://firebase.google.com/docs/reference/fcm/rest/v1/ErrorCode
func reserved(key string) bool {
	switch key {
	case "from", "message_type", "collapse_key", idField:
		return true
	}
	return strings.HasPrefix(key, "google") || strings.HasPrefix(key, "gcm")
}

// number reads a badge: a number in the template, or text that renders to one.
func number(v any) (*int, bool) {
	s := strings.TrimSpace(fmt.Sprint(v))
	if f, ok := v.(float64); ok {
		s = strconv.FormatFloat(f, 'f', -1, 64)
	}
	n, err := strconv.Atoi(s)
	return &n, err == nil && n >= 0 && n <= math.MaxInt32
}

// encode writes JSON without the escapes for HTML, which make six bytes of
// each <, > and &, and with sorted keys: the same fields give the same bytes.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

func failed(field, message string, err error) error {
	return &notifier.Error{Code: notifier.CodeTemplateFailed, Field: field, Message: message, Err: err}
}
