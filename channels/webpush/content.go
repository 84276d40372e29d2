package webpush

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/seed-4b260dfd/notifier"
)

const (
	// maxBodyBytes is the longest message that every push service takes (RFC
	// 8030 section 7.2, RFC 8291 section 4).
	maxBodyBytes = 4096
	// overhead is what encryption adds: the header with salt, record size and
	// our public key (RFC 8188 section 2.1), the authentication tag, and the
	// delimiter behind the text.
	overhead = 16 + 4 + 1 + publicKeyBytes + 16 + 1
	// maxPlaintext is what remains for the text.
	maxPlaintext = maxBodyBytes - overhead
)

// The names under which each attempt adds the delivery's ids to the content.
const (
	beforeID  = `,"id":"`
	beforeTag = `","tag":"`
	afterTag  = `"}`
	// uuidBytes is the length of the id.
	uuidBytes = 36
	// idsBytes is what they take, whatever the delivery: the closing brace is
	// the content's own.
	idsBytes = len(beforeID) + uuidBytes + len(beforeTag) + topicBytes + len(afterTag) - 1
)

// Prepare makes the message from title, body, subtitle, badge, image, url and
// data, for the page's service worker to read: a JSON object with these names,
// but app_badge for the number on the app's icon, since a notification's own
// badge is a picture. Sound is left out: a browser plays its own.
//
// The limit is on the bytes that are encrypted, with the id and the tag that
// each attempt adds.
func (Kind) Prepare(fields map[string]any) (notifier.Content, error) {
	m, err := newMessage(fields)
	if err != nil {
		return nil, err
	}
	content, err := encode(m)
	if err != nil {
		return nil, failed("data", "the message cannot be written as JSON", err)
	}
	if size := len(content) + idsBytes; size > maxPlaintext {
		return nil, &notifier.Error{
			Code:    notifier.CodePayloadTooLarge,
			Message: fmt.Sprintf("the webpush message has %d bytes; at most %d are allowed", size, maxPlaintext),
			Details: map[string]any{"channel": string(notifier.ChannelWebPush), "size": size, "limit": maxPlaintext},
		}
	}
	return content, nil
}

// plaintext is what is encrypted: the content with the ids at its end. It
// follows from the delivery alone, so it is equal in every attempt.
func plaintext(d *notifier.Delivery) ([]byte, bool) {
	open, ok := bytes.CutSuffix(d.Content, []byte("}"))
	if !ok || len(open) < 2 || open[0] != '{' || !json.Valid(d.Content) {
		return nil, false
	}
	b := make([]byte, 0, len(d.Content)+idsBytes)
	b = append(append(append(b, open...), beforeID...), notifier.UUID(d.EffectKey)...)
	b = append(append(append(b, beforeTag...), topic(d)...), afterTag...)
	return b, len(b) <= maxPlaintext
}

// message is a push as its template rendered it. Names are in alphabetical order.
type message struct {
	AppBadge *int           `json:"app_badge,omitempty"`
	Body     string         `json:"body,omitempty"`
	Data     map[string]any `json:"data,omitempty"`
	Image    string         `json:"image,omitempty"`
	Subtitle string         `json:"subtitle,omitempty"`
	Title    string         `json:"title,omitempty"`
	URL      string         `json:"url,omitempty"`
}

func newMessage(fields map[string]any) (*message, error) {
	m := &message{}
	var sound string
	texts := map[string]*string{"title": &m.Title, "body": &m.Body, "subtitle": &m.Subtitle, "sound": &sound, "image": &m.Image, "url": &m.URL}
	for name, value := range fields {
		dst, isText := texts[name]
		var ok bool
		switch {
		case value == nil:
		case isText:
			if *dst, ok = value.(string); !ok {
				return nil, failed(name, fmt.Sprintf("is a %T; a push needs text here", value), nil)
			}
		case name == "badge":
			if m.AppBadge, ok = number(value); !ok {
				return nil, failed(name, fmt.Sprintf("%v is not a whole number from 0 on", value), nil)
			}
		case name == "data":
			if m.Data, ok = value.(map[string]any); !ok {
				return nil, failed(name, fmt.Sprintf("is a %T; a push needs a mapping here", value), nil)
			}
		default:
			return nil, failed(name, "is not a field of a push; allowed are title, body, subtitle, sound, badge, image, url, data", nil)
		}
	}
	return m, m.check(fields)
}

// check refuses a push that would show an empty box. One that shows nothing
// has to be meant so: with data, or a number for the icon, and no more.
func (m *message) check(fields map[string]any) error {
	if m.Title != "" || m.Body != "" {
		return nil
	}
	for _, name := range []string{"title", "body", "subtitle", "image"} {
		if _, written := fields[name]; written {
			return failed(name, "title and body are both empty: the push would show nothing", nil)
		}
	}
	if m.AppBadge == nil && len(m.Data) == 0 {
		return failed("body", "the push has nothing in it: it needs a title, a body, a badge or data", nil)
	}
	return nil
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
