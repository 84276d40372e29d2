// Package email sends mail through one account's SMTP server.
//
// A mail is written in full before a byte of it leaves, for one recipient,
// and every attempt at a delivery sends the same bytes but for X-Attempt:
// Message-ID and boundary are made from the effect key, the date is the time
// of acceptance. What may have arrived is told by the stage at which a
// dialogue broke: up to the final dot nothing has been sent, after it only a
// reply tells (RFC 5321 section 4.2.5). See replies.go.
//
// It does not speak SMTPUTF8: mailboxes are ASCII. The mails are plain enough
// to be written with the standard library's encoders.
package email

import (
	"encoding/json"
	"fmt"
	"net/mail"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/seed-4b260dfd/notifier"
)

const (
	// sendTimeout leaves ten minutes for the reply to the final dot (RFC 5321
	// section 4.5.3.2.6). A client that gives up before makes duplicates
	// (RFC 1047).
	sendTimeout = 12 * time.Minute

	maxContent = 10 << 20
	maxSubject = 998
	maxName    = 200
	maxLocal   = 64 // RFC 5321 section 4.5.3.1
	maxAddress = 254
	maxLabel   = 63
)

// Kind is the channel email, whatever the account.
type Kind struct{}

// Channel is the kind's name.
func (Kind) Channel() notifier.Channel { return notifier.ChannelEmail }

// SendTimeout is the time that one call is given.
func (Kind) SendTimeout() time.Duration { return sendTimeout }

// CheckAddress takes a mailbox in ASCII with an unquoted local part, and a
// name of one line.
func (Kind) CheckAddress(a notifier.Address) error {
	if msg := mailboxProblem(a.Value); msg != "" {
		return &notifier.Error{Code: notifier.CodeInvalid, Field: "address", Message: msg}
	}
	if msg := nameProblem(a.Name); msg != "" {
		return &notifier.Error{Code: notifier.CodeInvalid, Field: "name", Message: msg}
	}
	return nil
}

func mailboxProblem(s string) string {
	local, domain, ok := strings.Cut(s, "@")
	switch {
	case s == "":
		return "a mailbox is required"
	case strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' }):
		return "the mailbox has a blank, a control character or one outside ASCII; write an international domain as xn--…"
	case !ok || strings.Contains(domain, "@") || !isDotAtom(local) || !isDomain(domain):
		return "not a mailbox such as ann@example.com"
	case len(local) > maxLocal:
		return fmt.Sprintf("the part before @ has %d bytes; at most %d are allowed", len(local), maxLocal)
	case len(s) > maxAddress:
		return fmt.Sprintf("the mailbox has %d bytes; at most %d are allowed", len(s), maxAddress)
	}
	return ""
}

// isDotAtom takes what needs no quotes (RFC 5322 section 3.2.3).
func isDotAtom(s string) bool {
	for atom := range strings.SplitSeq(s, ".") {
		if atom == "" || strings.ContainsAny(atom, `()<>[]:;@\,"`) {
			return false
		}
	}
	return true
}

func isDomain(s string) bool {
	for label := range strings.SplitSeq(s, ".") {
		if label == "" || len(label) > maxLabel || label[0] == '-' || label[len(label)-1] == '-' ||
			strings.TrimFunc(label, func(r rune) bool {
				return r == '-' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
			}) != "" {
			return false
		}
	}
	return true
}

func nameProblem(s string) string {
	if len(s) > maxName {
		return fmt.Sprintf("the name has %d bytes; at most %d are allowed", len(s), maxName)
	}
	return lineProblem(s)
}

// lineProblem says why s cannot stand in a header, whatever its encoding.
func lineProblem(s string) string {
	if !utf8.ValidString(s) {
		return "not valid UTF-8"
	}
	if i := strings.IndexFunc(s, func(r rune) bool { return unicode.IsControl(r) || r == '\u2028' || r == '\u2029' }); i >= 0 {
		return fmt.Sprintf("a control character or line break at byte %d; one line of text is allowed", i)
	}
	return ""
}

// content is a mail as it is kept from acceptance on.
type content struct {
	Subject string `json:"subject"`
	Text    string `json:"text,omitempty"`
	HTML    string `json:"html,omitempty"`
	// From takes the place of the account's; both are of the form "Name <a@b>".
	From    string `json:"from,omitempty"`
	ReplyTo string `json:"reply_to,omitempty"`
}

// Prepare takes subject, text, html, from and reply_to. A subject and one of
// text and html are needed.
func (Kind) Prepare(fields map[string]any) (notifier.Content, error) {
	var c content
	into := map[string]*string{"subject": &c.Subject, "text": &c.Text, "html": &c.HTML, "from": &c.From, "reply_to": &c.ReplyTo}
	for name, v := range fields {
		p, ok := into[name]
		if !ok {
			return nil, failed(name, "is not a field of a mail; allowed are subject, text, html, from, reply_to")
		}
		if *p, ok = v.(string); !ok && v != nil {
			return nil, failed(name, fmt.Sprintf("is a %T; a string is needed", v))
		}
	}
	if err := c.check(); err != nil {
		return nil, err
	}
	b, err := json.Marshal(c)
	if err != nil {
		return nil, fmt.Errorf("encode the mail: %w", err)
	}
	return b, nil
}

func (c *content) check() error {
	if c.Subject == "" {
		return failed("subject", "a mail needs a subject")
	}
	if c.Text == "" && c.HTML == "" {
		return failed("text", "a mail needs a text, an html, or both")
	}
	if len(c.Subject) > maxSubject {
		return failed("subject", fmt.Sprintf("has %d bytes; at most %d are allowed", len(c.Subject), maxSubject))
	}
	if msg := lineProblem(c.Subject); msg != "" {
		return failed("subject", msg)
	}
	for _, f := range []struct{ name, value string }{{"text", c.Text}, {"html", c.HTML}} {
		if strings.ContainsRune(f.value, 0) || !utf8.ValidString(f.value) {
			return failed(f.name, "holds a NUL byte or is not valid UTF-8")
		}
	}
	for _, f := range []struct{ name, value string }{{"from", c.From}, {"reply_to", c.ReplyTo}} {
		if f.value == "" {
			continue
		}
		if _, err := parseMailbox(f.value); err != nil {
			return failed(f.name, err.Error())
		}
	}
	if size := len(c.Subject) + len(c.Text) + len(c.HTML); size > maxContent {
		return &notifier.Error{
			Code:    notifier.CodePayloadTooLarge,
			Message: fmt.Sprintf("the mail has %d bytes; at most %d are allowed", size, maxContent),
			Details: map[string]any{"channel": string(notifier.ChannelEmail), "size": size, "limit": maxContent},
		}
	}
	return nil
}

// parseMailbox reads "Name <a@b>" or "a@b".
func parseMailbox(s string) (*mail.Address, error) {
	if msg := lineProblem(s); msg != "" {
		return nil, fmt.Errorf("%s", msg)
	}
	a, err := mail.ParseAddress(s)
	if err != nil {
		return nil, fmt.Errorf("%q is not of the form Shop <no-reply@example.com>", s)
	}
	if msg := mailboxProblem(a.Address); msg != "" {
		return nil, fmt.Errorf("%q: %s", s, msg)
	}
	if msg := nameProblem(a.Name); msg != "" {
		return nil, fmt.Errorf("%q: %s", s, msg)
	}
	return a, nil
}

func failed(field, message string) error {
	return &notifier.Error{Code: notifier.CodeTemplateFailed, Field: field, Message: message}
}
