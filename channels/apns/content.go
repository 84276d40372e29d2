package apns

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/seed-4b260dfd/notifier"
)

// maxPayloadBytes is the limit for a payload that is not a VoIP push.
// https://developer.apple.com/documentation/usernotifications/generating-a-remote-notification
const maxPayloadBytes = 4096

// The push types that a template can make.
const (
	pushAlert      = "alert"
	pushBackground = "background"
)

// content is what is stored at acceptance and sent in every attempt.
type content struct {
	PushType string `json:"push_type"`
	// Payload is the request's body, byte for byte.
	Payload json.RawMessage `json:"payload"`
}

// Prepare makes the payload from title, body, subtitle, sound, badge, image,
// url and data.
//
// The first five are Apple's; image, url and data stand beside "aps" under
// these names for the app to read, and an image sets mutable-content, so that
// the app's extension is asked to fetch it. A push with data and nothing to
// show wakes the app in the background.
func (Kind) Prepare(fields map[string]any) (notifier.Content, error) {
	m, err := newMessage(fields)
	if err != nil {
		return nil, err
	}
	body, err := encode(m.payload())
	if err != nil {
		return nil, failed("data", "the payload cannot be written as JSON", err)
	}
	if len(body) > maxPayloadBytes {
		return nil, &notifier.Error{
			Code:    notifier.CodePayloadTooLarge,
			Message: fmt.Sprintf("the apns payload has %d bytes; at most %d are allowed", len(body), maxPayloadBytes),
			Details: map[string]any{"channel": string(notifier.ChannelAPNs), "size": len(body), "limit": maxPayloadBytes},
		}
	}
	return content{PushType: m.pushType(), Payload: body}.write(), nil
}

// The content's spelling, in three pieces around push type and payload.
const (
	beforeType    = `{"push_type":"`
	beforePayload = `","payload":`
	afterPayload  = `}`
)

// write is the content as JSON, in one spelling.
func (c content) write() []byte {
	b := make([]byte, 0, len(beforeType)+len(c.PushType)+len(beforePayload)+len(c.Payload)+len(afterPayload))
	b = append(append(b, beforeType...), c.PushType...)
	b = append(append(b, beforePayload...), c.Payload...)
	return append(b, afterPayload...)
}

// readContent reads what write wrote. That has been JSON since Prepare, and
// each attempt would parse it again: the pieces are taken apart as they were
// put together, and only another spelling is parsed.
func readContent(b []byte) (c content, err error) {
	if rest, ok := bytes.CutPrefix(b, []byte(beforeType)); ok {
		typ, rest, ok := bytes.Cut(rest, []byte(beforePayload))
		payload, whole := bytes.CutSuffix(rest, []byte(afterPayload))
		if known := string(typ) == pushAlert || string(typ) == pushBackground; ok && whole && known {
			return content{PushType: string(typ), Payload: payload}, nil
		}
	}
	if err := json.Unmarshal(b, &c); err != nil {
		return content{}, err
	}
	return c, nil
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
// something was meant.
func (m *message) check(fields map[string]any) error {
	if m.title != "" || m.body != "" {
		return nil
	}
	for _, name := range []string{"title", "body", "subtitle", "image"} {
		if _, written := fields[name]; written {
			return failed(name, "title and body are both empty: the push would show nothing", nil)
		}
	}
	if m.sound == "" && m.badge == nil && len(m.data) == 0 {
		return failed("body", "the push has nothing in it: it needs a title, a body, a sound, a badge or data", nil)
	}
	return nil
}

// pushType is background for a push that neither shows nor sounds anything;
// with another value the device would treat it wrongly or drop it.
// https://developer.apple.com/documentation/usernotifications/sending-notification-requests-to-apns
func (m *message) pushType() string {
	if m.title == "" && m.body == "" && m.sound == "" && m.badge == nil {
		return pushBackground
	}
	return pushAlert
}

// payload is the request's body. Names are in alphabetical order.
type payload struct {
	APS   aps            `json:"aps"`
	Data  map[string]any `json:"data,omitempty"`
	Image string         `json:"image,omitempty"`
	URL   string         `json:"url,omitempty"`
}

type aps struct {
	Alert            *alert `json:"alert,omitempty"`
	Badge            *int   `json:"badge,omitempty"`
	ContentAvailable int    `json:"content-available,omitempty"`
	MutableContent   int    `json:"mutable-content,omitempty"`
	Sound            string `json:"sound,omitempty"`
}

type alert struct {
	Body     string `json:"body,omitempty"`
	Subtitle string `json:"subtitle,omitempty"`
	Title    string `json:"title,omitempty"`
}

func (m *message) payload() *payload {
	p := &payload{APS: aps{Badge: m.badge, Sound: m.sound}, Data: m.data, Image: m.image, URL: m.url}
	if a := (alert{Body: m.body, Subtitle: m.subtitle, Title: m.title}); a != (alert{}) {
		p.APS.Alert = &a
	}
	if m.pushType() == pushBackground {
		p.APS.ContentAvailable = 1
	}
	if m.image != "" {
		p.APS.MutableContent = 1
	}
	return p
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
