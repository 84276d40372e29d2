// Package sms sends text messages through Twilio's Messages resource.
//
// One attempt is one form POST, written by hand. Twilio recognises no repeats
// and takes no id of ours, so two attempts that both arrive are two messages
// on the phone. What softens that: the delivery's id goes along in the URL of
// the status callback, so that any callback proves that the message was taken
// (receipt.go), and Twilio can be asked what it has sent to a number
// (lookup.go). What an answer means is in answers.go.
//
// How many segments a text takes is counted at acceptance, as the standard
// says, and stored with it; what the operator bills is the operator's word.
package sms

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/seed-4b260dfd/notifier"
)

const (
	// sendTimeout leaves room for an API that queues when it is busy. A shorter
	// one makes unknown outcomes, and each of those may be a second message.
	sendTimeout = 30 * time.Second
	// maxSegments is what Twilio advises not to pass. Ten segments hold 1,530
	// characters at most, so that its limit of 1,600 (error 21617) is kept too.
	// https://www.twilio.com/docs/messaging/api/message-resource
	maxSegments = 10
)

// Kind is the channel sms, whatever the account.
type Kind struct{}

// Channel is the kind's name.
func (Kind) Channel() notifier.Channel { return notifier.ChannelSMS }

// SendTimeout is the time that one call is given.
func (Kind) SendTimeout() time.Duration { return sendTimeout }

// number is E.164: a country code, which never begins with 0, and at most
// fifteen digits in all. The shortest numbers in use have seven.
var number = regexp.MustCompile(`^\+[1-9][0-9]{6,14}$`)

// CheckAddress takes a number in the form of E.164.
func (Kind) CheckAddress(a notifier.Address) error {
	switch {
	case a.Value == "":
		return invalid("number", "a number is required, such as +15555550100")
	case !number.MatchString(a.Value):
		return invalid("number", "not a number in the form of E.164; allowed is + and 7 to 15 digits with the country code first, such as +15555550100")
	case a.Secret != "":
		return invalid("secret", "a number has no secret; leave it out")
	}
	return nil
}

func invalid(field, message string) error {
	return &notifier.Error{Code: notifier.CodeInvalid, Field: field, Message: message}
}

// content is what is stored at acceptance and sent in every attempt.
type content struct {
	Text     string `json:"text"`
	Encoding string `json:"encoding"`
	Segments int    `json:"segments"`
}

// Prepare takes the one field, text.
func (Kind) Prepare(fields map[string]any) (notifier.Content, error) {
	for name := range fields {
		if name != "text" {
			return nil, failed(name, "is not a field of a text message; allowed is text")
		}
	}
	text, ok := fields["text"].(string)
	switch {
	case !ok || strings.TrimSpace(text) == "":
		return nil, failed("text", "a text message needs a text")
	case !utf8.ValidString(text):
		return nil, failed("text", "the text is not UTF-8")
	case strings.ContainsFunc(text, forbidden):
		return nil, failed("text", "the text has a control character; allowed are line breaks and tabs")
	}
	c := content{Text: text}
	c.Encoding, c.Segments = segments(text)
	if c.Segments > maxSegments {
		return nil, &notifier.Error{
			Code: notifier.CodePayloadTooLarge,
			Message: fmt.Sprintf("the text takes %d segments in %s; at most %d are allowed: %s",
				c.Segments, c.Encoding, maxSegments, room(c.Encoding)),
			Details: map[string]any{"channel": string(notifier.ChannelSMS), "size": c.Segments, "limit": maxSegments},
		}
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(c); err != nil {
		return nil, fmt.Errorf("write the content of a text message: %w", err)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// room says how much fits, since the encoding may come as a surprise.
func room(encoding string) string {
	if encoding == gsm7 {
		return fmt.Sprintf("%d characters, of which ^ { } \\ [ ~ ] | € count twice", maxSegments*gsm7Long)
	}
	return fmt.Sprintf("%d characters, as one of them is not in the GSM alphabet (typographic quotes, emoji; an emoji counts twice)", maxSegments*ucs2Long)
}

func forbidden(r rune) bool {
	return unicode.IsControl(r) && r != '\n' && r != '\r' && r != '\t'
}

func failed(field, message string) error {
	return &notifier.Error{Code: notifier.CodeTemplateFailed, Field: field, Message: message}
}
