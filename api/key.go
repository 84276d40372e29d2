package api

import (
	"net/http"
	"strings"

	"github.com/seed-4b260dfd/notifier"
)

const keyHeader = "Idempotency-Key"

// headerKey returns the key in the header Idempotency-Key, and whether the
// header is there. The value is taken as it is, or, when it begins with a
// quote, read as a structured-field string (RFC 9651 section 3.3.3).
func headerKey(hd http.Header) (key string, ok bool, err error) {
	values := hd.Values(keyHeader)
	switch len(values) {
	case 0:
		return "", false, nil
	case 1:
	default:
		return "", false, badHeaderKey("the header is there more than once")
	}
	key = values[0]
	if strings.HasPrefix(key, `"`) {
		if key, ok = unquote(key); !ok {
			return "", false, badHeaderKey(`a quoted key ends with a quote, and within it only \" and \\ are escapes`)
		}
	}
	return key, true, notifier.CheckKey(key)
}

// unquote reads a structured-field string that is the whole of s.
func unquote(s string) (string, bool) {
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		switch c := s[i]; c {
		case '"':
			return b.String(), i == len(s)-1
		case '\\':
			i++
			if i == len(s) || (s[i] != '"' && s[i] != '\\') {
				return "", false
			}
			b.WriteByte(s[i])
		default:
			b.WriteByte(c)
		}
	}
	return "", false
}

func badHeaderKey(message string) error {
	return &notifier.Error{Code: notifier.CodeInvalid, Field: keyHeader, Message: message}
}

// agree returns the key of a request that carries it in the header, in the
// body, or in both alike.
func agree(header string, inHeader bool, body string, inBody bool) (string, error) {
	switch {
	case inHeader && inBody && header != body:
		return "", &notifier.Error{Code: notifier.CodeInvalid, Field: "key",
			Message: "the header Idempotency-Key and the field key differ: send one of them, or both alike"}
	case inHeader:
		return header, nil
	default:
		return body, notifier.CheckKey(body)
	}
}
