package email

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"mime/quotedprintable"
	"net/mail"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/seed-4b260dfd/notifier"
)

const (
	crlf = "\r\n"
	// foldAt is where a header line is broken (RFC 5322 section 2.1.1).
	foldAt = 76
	// wordBytes of text make an encoded word of at most 75 characters, "=?utf-8?B?" and "?=" included (RFC 2047 section 2).
	wordBytes = 45
)

// message is a mail ready to be sent.
type message struct {
	from, to string // of the envelope
	bytes    []byte // with CRLF line ends, dots not doubled
}

// write makes the mail of one attempt. Attempts differ in X-Attempt alone.
func write(c *content, from *mail.Address, d *notifier.Delivery, fence int64) (*message, error) {
	if c.From != "" {
		var err error
		if from, err = parseMailbox(c.From); err != nil {
			return nil, err
		}
	}
	w := &writer{}
	w.header("From", mailbox(from))
	w.header("To", mailbox(&mail.Address{Name: d.Address.Name, Address: d.Address.Value}))
	if c.ReplyTo != "" {
		a, err := parseMailbox(c.ReplyTo)
		if err != nil {
			return nil, err
		}
		w.header("Reply-To", mailbox(a))
	}
	w.header("Subject", text(c.Subject))
	w.header("Date", d.AcceptedAt.UTC().Format("Mon, 02 Jan 2006 15:04:05 -0700"))
	w.header("Message-ID", messageID(d.EffectKey, from.Address))
	w.header("X-Delivery", d.ID.String())
	w.header("X-Attempt", strconv.FormatInt(fence, 10))
	// Keeps holiday notices away (RFC 3834 section 5).
	w.header("Auto-Submitted", "auto-generated")
	w.header("MIME-Version", "1.0")
	if err := w.body(c, d.EffectKey); err != nil {
		return nil, err
	}
	return &message{from: from.Address, to: d.Address.Value, bytes: w.Bytes()}, nil
}

// messageID is equal in every attempt, so that mail stores that look at it
// hide a repeat.
func messageID(effectKey, from string) string {
	_, domain, _ := strings.Cut(from, "@")
	if !isDotAtom(effectKey) || strings.ContainsFunc(effectKey, func(r rune) bool { return r <= ' ' || r > '~' }) {
		effectKey = notifier.Child(effectKey)
	}
	return "<" + effectKey + "@" + domain + ">"
}

type writer struct{ bytes.Buffer }

// header writes a field whose value can be broken at its blanks. No two
// blanks may follow each other: a line of nothing else would end the header.
func (w *writer) header(name, value string) {
	line := name + ":"
	for i, word := range strings.Split(value, " ") {
		if len(line)+1+len(word) > foldAt && i > 0 {
			w.WriteString(line + crlf)
			line = ""
		}
		line += " " + word
	}
	w.WriteString(line + crlf)
}

// text writes free text for a header: as it is when it is short words of
// ASCII, as encoded words otherwise.
func text(s string) string {
	if isPlain(s) {
		return s
	}
	return encodedWords(s)
}

// isPlain reports whether s reads the same after folding and unfolding, and
// cannot be taken for encoded words.
func isPlain(s string) bool {
	for word := range strings.SplitSeq(s, " ") {
		if word == "" || len(word) > foldAt/2 || strings.ContainsFunc(word, func(r rune) bool { return r <= ' ' || r > '~' }) {
			return false
		}
	}
	return !strings.Contains(s, "=?")
}

// encodedWords writes s in base64, never splitting a character (RFC 2047
// section 5). The blanks between the words are not part of the text.
func encodedWords(s string) string {
	var words []string
	for len(s) > 0 {
		n := min(wordBytes, len(s))
		for n < len(s) && !utf8.RuneStart(s[n]) {
			n--
		}
		words = append(words, "=?utf-8?B?"+base64.StdEncoding.EncodeToString([]byte(s[:n]))+"?=")
		s = s[n:]
	}
	return strings.Join(words, " ")
}

// mailbox writes a name and an address that were checked before.
func mailbox(a *mail.Address) string {
	address := "<" + a.Address + ">"
	switch {
	case a.Name == "":
		return address
	case isPlain(a.Name):
		return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(a.Name) + `" ` + address
	default:
		return encodedWords(a.Name) + " " + address
	}
}

// body writes the one part, or both as alternatives, the better one last
// (RFC 2046 section 5.1.4).
func (w *writer) body(c *content, effectKey string) error {
	switch {
	case c.HTML == "":
		return w.part("plain", c.Text)
	case c.Text == "":
		return w.part("html", c.HTML)
	}
	// "=_" is nothing that quoted-printable can write, so that no text can
	// hold the boundary, whoever guesses it.
	boundary := "=_" + notifier.Child("boundary", effectKey)[:32]
	w.header("Content-Type", fmt.Sprintf("multipart/alternative; boundary=%q", boundary))
	w.WriteString(crlf)
	for _, p := range []struct{ kind, text string }{{"plain", c.Text}, {"html", c.HTML}} {
		w.WriteString("--" + boundary + crlf)
		if err := w.part(p.kind, p.text); err != nil {
			return err
		}
	}
	w.WriteString("--" + boundary + "--" + crlf)
	return nil
}

// part writes the headers and the text of a part, in lines of at most 76
// characters of ASCII, whatever the text.
func (w *writer) part(kind, text string) error {
	w.header("Content-Type", "text/"+kind+"; charset=utf-8")
	w.header("Content-Transfer-Encoding", "quoted-printable")
	w.WriteString(crlf)
	qp := quotedprintable.NewWriter(&w.Buffer)
	if _, err := qp.Write([]byte(text)); err != nil {
		return fmt.Errorf("encode the %s part: %w", kind, err)
	}
	if err := qp.Close(); err != nil {
		return fmt.Errorf("encode the %s part: %w", kind, err)
	}
	w.WriteString(crlf)
	return nil
}
