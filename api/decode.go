package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed-4b260dfd/notifier"
)

// The bounds of a document.
const (
	maxDepth   = 32
	maxItems   = 1000
	maxString  = 64 << 10
	maxName    = 256
	maxNumber  = 64
	maxPathLen = 256
)

// decoder reads one JSON document strictly: besides the grammar it refuses
// duplicate names, invalid UTF-8, lone surrogates and NUL, and holds depth,
// lengths and counts to the bounds. Its errors are *notifier.Error with the
// path of the value at fault.
type decoder struct {
	dec *jsontext.Decoder
}

func newDecoder(src []byte) *decoder {
	// A bytes.Buffer is read in place. Duplicate names and invalid UTF-8,
	// surrogates included, are refused by default.
	return &decoder{jsontext.NewDecoder(bytes.NewBuffer(src))}
}

// end returns an error unless the document is over.
func (d *decoder) end() error {
	if _, err := d.dec.ReadToken(); errors.Is(err, io.EOF) {
		return nil
	}
	return &notifier.Error{Code: notifier.CodeInvalid, Field: bodyField, Message: "the body has more than one JSON value; send one object"}
}

// token reads one token and holds it to the bounds.
func (d *decoder) token() (jsontext.Token, error) {
	tok, err := d.dec.ReadToken()
	if err != nil {
		return tok, d.syntax(err)
	}
	depth := d.dec.StackDepth()
	if depth > maxDepth {
		return tok, d.invalid("nested deeper than %d levels", maxDepth)
	}
	if kind, n := d.dec.StackIndex(depth); n > maxItems && kind == jsontext.KindBeginArray {
		return tok, d.invalid("more than %d items", maxItems)
	} else if n > 2*maxItems && kind == jsontext.KindBeginObject {
		return tok, d.invalid("more than %d members", maxItems)
	}
	return tok, nil
}

// syntax says where the grammar is broken and how.
func (d *decoder) syntax(err error) error {
	var syn *jsontext.SyntacticError
	switch {
	case errors.Is(err, jsontext.ErrDuplicateName):
		message := "an object has a name twice"
		if errors.As(err, &syn) {
			message = fmt.Sprintf("the name %q is there twice", clip(syn.JSONPointer.LastToken()))
		}
		return &notifier.Error{Code: notifier.CodeInvalid, Field: d.path(), Message: message}
	case errors.Is(err, io.EOF) && d.dec.InputOffset() == 0:
		return &notifier.Error{Code: notifier.CodeInvalid, Field: bodyField, Message: "the body is empty; send a JSON object"}
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return &notifier.Error{Code: notifier.CodeInvalid, Field: bodyField, Message: "the body is cut off; send a whole JSON object"}
	case errors.As(err, &syn):
		return &notifier.Error{Code: notifier.CodeInvalid, Field: d.path(),
			Message: fmt.Sprintf("the body is not valid JSON at byte %d: %s", syn.ByteOffset, clip(syn.Err.Error()))}
	default:
		return &notifier.Error{Code: notifier.CodeInvalid, Field: bodyField, Message: "the body is not valid JSON; send a JSON object"}
	}
}

// invalid is an error at the value that was read last.
func (d *decoder) invalid(format string, args ...any) error {
	return d.fault(notifier.CodeInvalid, format, args...)
}

func (d *decoder) fault(code notifier.Code, format string, args ...any) error {
	return &notifier.Error{Code: code, Field: d.path(), Message: fmt.Sprintf(format, args...)}
}

// bodyField names the document as a whole where no field of it is at fault.
const bodyField = "body"

// path is where the decoder is, as in to.apns[0].token; bodyField at the top.
func (d *decoder) path() string {
	var b strings.Builder
	level := 0
	for name := range d.dec.StackPointer().Tokens() {
		if level++; level > d.dec.StackDepth() {
			break
		}
		switch kind, _ := d.dec.StackIndex(level); {
		case kind == jsontext.KindBeginArray:
			b.WriteString("[" + name + "]")
		case b.Len() > 0:
			b.WriteString("." + name)
		default:
			b.WriteString(name)
		}
	}
	if b.Len() == 0 {
		return bodyField
	}
	return clip(b.String())
}

// clip cuts what is echoed to a length that an answer can carry.
func clip(s string) string {
	if len(s) <= maxPathLen {
		return s
	}
	s = s[:maxPathLen]
	for !utf8.ValidString(s) {
		s = s[:len(s)-1]
	}
	return s + "…"
}

// null reads a null if that comes next. Null stands for a field left out.
func (d *decoder) null() bool {
	if d.dec.PeekKind() != jsontext.KindNull {
		return false
	}
	_, err := d.dec.ReadToken()
	return err == nil
}

// members reads an object and calls f for each name; f reads the value.
func (d *decoder) members(f func(name string) error) error {
	tok, err := d.token()
	if err != nil {
		return err
	}
	if tok.Kind() != jsontext.KindBeginObject {
		return d.invalid("must be a JSON object")
	}
	for {
		tok, err := d.token()
		if err != nil {
			return err
		}
		if tok.Kind() == jsontext.KindEndObject {
			return nil
		}
		name := tok.String()
		if len(name) > maxName || strings.ContainsRune(name, 0) {
			return d.invalid("a name has at most %d bytes and no NUL", maxName)
		}
		if err := f(name); err != nil {
			return err
		}
	}
}

// items reads an array and calls f before each item; f reads it.
func (d *decoder) items(f func() error) error {
	tok, err := d.token()
	if err != nil {
		return err
	}
	if tok.Kind() != jsontext.KindBeginArray {
		return d.invalid("must be a JSON array")
	}
	for d.dec.PeekKind() != jsontext.KindEndArray {
		if err := f(); err != nil {
			return err
		}
	}
	_, err = d.token()
	return err
}

// text reads a string of at most limit bytes without control characters, or a
// null. An empty string is as good as none.
func (d *decoder) text(into *string, limit int) error {
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
	s := tok.String()
	if len(s) > limit {
		return d.invalid("has %d bytes; at most %d are allowed", len(s), limit)
	}
	if at := strings.IndexFunc(s, unicode.IsControl); at >= 0 {
		return d.invalid("has a control character (%U at byte %d); text without any is allowed", []rune(s[at:])[0], at)
	}
	*into = s
	return nil
}

// value reads any value. Strings may hold anything but NUL.
func (d *decoder) value() (any, error) {
	switch kind := d.dec.PeekKind(); {
	case kind == jsontext.KindBeginObject:
		return d.object()
	case kind == jsontext.KindBeginArray:
		return d.array()
	}
	tok, err := d.token()
	if err != nil {
		return nil, err
	}
	switch kind := tok.Kind(); {
	case kind == jsontext.KindTrue, kind == jsontext.KindFalse:
		return tok.Bool(), nil
	case kind == jsontext.KindNumber:
		return d.number(tok.String())
	case kind == jsontext.KindString:
		s := tok.String()
		if len(s) > maxString || strings.ContainsRune(s, 0) {
			return nil, d.invalid("a string has at most %d bytes and no NUL", maxString)
		}
		return s, nil
	default: // null: the token is a value, and nothing else is left
		return nil, nil
	}
}

func (d *decoder) array() ([]any, error) {
	list := []any{}
	err := d.items(func() error {
		v, err := d.value()
		list = append(list, v)
		return err
	})
	return list, err
}

func (d *decoder) object() (map[string]any, error) {
	m := map[string]any{}
	err := d.members(func(name string) error {
		v, err := d.value()
		m[name] = v
		return err
	})
	return m, err
}

// number keeps a number as it was written. Whole numbers become int64, so that
// templates can compare and test them ({{if eq .count 1}}); the others become
// json.Number, which prints its text: 10.50 stays 10.50, and no digit of a
// long number is lost. What a float64 has no room for is refused, as other
// readers of the same document could not agree on it (RFC 8259 section 6).
func (d *decoder) number(s string) (any, error) {
	if len(s) > maxNumber {
		return nil, d.invalid("a number has at most %d digits", maxNumber)
	}
	if n, err := strconv.ParseInt(s, 10, 64); err == nil && strconv.FormatInt(n, 10) == s {
		return n, nil
	}
	f, err := strconv.ParseFloat(s, 64)
	mantissa, _, _ := strings.Cut(strings.ToLower(s), "e")
	if err != nil || f == 0 && strings.ContainsAny(mantissa, "123456789") {
		return nil, d.invalid("the number is out of range")
	}
	return json.Number(s), nil
}
