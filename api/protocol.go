package api

import (
	"bytes"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"

	"github.com/seed-4b260dfd/notifier"
)

// Listen returns a listener whose connections answer in this API's form also
// where a request does not get as far as a handler: net/http refuses what is no
// HTTP, or has too much of it, in a line of plain text.
func Listen(l net.Listener) net.Listener { return listener{l} }

type listener struct{ net.Listener }

func (l listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return conn{c}, nil
}

// conn replaces what net/http writes by itself. That is one write, and begins as
// no answer of a handler does.
type conn struct{ net.Conn }

// CloseWrite lets net/http have the peer read the answer before the end.
func (c conn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// Write writes b, or a problem document in its place.
func (c conn) Write(b []byte) (int, error) {
	own := ownAnswer(b)
	if own == nil {
		return c.Conn.Write(b)
	}
	if _, err := c.Conn.Write(own); err != nil {
		return 0, err
	}
	return len(b), nil
}

const (
	plainHead = "\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n"
	version   = "HTTP/1.1 "
)

// ownAnswer is our form of an answer of net/http's own; nil: it is none.
func ownAnswer(b []byte) []byte {
	if !bytes.HasPrefix(b, []byte(version)) || len(b) < len(version)+3 {
		return nil
	}
	status, err := strconv.Atoi(string(b[len(version) : len(version)+3]))
	if err != nil || status < http.StatusBadRequest {
		return nil
	}
	line, said, plain := strings.Cut(string(b), plainHead)
	expectation := status == http.StatusExpectationFailed && bytes.Contains(b, []byte("\r\nConnection: close\r\n"))
	if (!plain || strings.Contains(line, "\r\n")) && !expectation {
		return nil
	}
	e := protocolError(status, said)
	body := problemDocument(status, e)
	return fmt.Appendf(nil, "%s%d %s\r\nContent-Type: application/problem+json\r\nContent-Length: %d\r\nCache-Control: no-store\r\nConnection: close\r\n\r\n%s",
		version, status, http.StatusText(status), len(body), body)
}

// protocolError says what was wrong with a request, and what is allowed. said is
// net/http's own word: a status, and sometimes a colon and a cause.
func protocolError(status int, said string) *notifier.Error {
	e := &notifier.Error{Code: notifier.CodeInvalid}
	_, cause, _ := strings.Cut(said, ": ")
	switch status {
	case http.StatusRequestHeaderFieldsTooLarge:
		e.Code = notifier.CodeRequestTooLarge
		e.Message = fmt.Sprintf("the request line and the headers have at most %d bytes together", maxHeaderBytes)
		e.Details = map[string]any{"limit": maxHeaderBytes}
	case http.StatusExpectationFailed:
		e.Field, e.Message = "Expect", "the only expectation that is met is 100-continue"
	case http.StatusNotImplemented:
		e.Field, e.Message = "Transfer-Encoding", "send the body with a Content-Length, or chunked"
	case http.StatusHTTPVersionNotSupported:
		e.Message = "HTTP/1.1 and HTTP/1.0 are spoken here"
	default:
		e.Message = "this is no HTTP request: want HTTP/1.1 with one Host header, a Content-Length that is a number, and headers without control characters"
		if cause != "" {
			e.Message += " (" + clip(cause) + ")"
		}
		if strings.Contains(cause, "Host header") {
			e.Field = "Host"
		}
	}
	return e
}
