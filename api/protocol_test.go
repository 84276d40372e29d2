package api

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/seed-4b260dfd/notifier"
)

// What does not get as far as a handler is answered as everything is.
func TestProtocol_ProblemsBelowTheHandler(t *testing.T) {
	t.Parallel()
	_, addr := serving(t, func(*peers) {})
	const post = "POST /v1/notifications HTTP/1.1\r\n"
	for _, tc := range []struct {
		name, request string
		status        int
		code          notifier.Code
		field         string
	}{
		{"no HTTP", "hello\r\n\r\n", 400, notifier.CodeInvalid, ""},
		{"a control character in the key", post + "Host: localhost\r\nIdempotency-Key: a\x01b\r\n\r\n", 400, notifier.CodeInvalid, ""},
		{"no host", post + "\r\n", 400, notifier.CodeInvalid, "Host"},
		{"two hosts", post + "Host: localhost\r\nHost: b\r\n\r\n", 400, notifier.CodeInvalid, ""},
		{"a length that is none", post + "Host: localhost\r\nContent-Length: x\r\n\r\n", 400, notifier.CodeInvalid, ""},
		{"headers that are too large", post + "Host: localhost\r\nX: " + strings.Repeat("x", 2*maxHeaderBytes) + "\r\n\r\n", 431, notifier.CodeRequestTooLarge, ""},
		{"an unknown transfer coding", post + "Host: localhost\r\nTransfer-Encoding: gzip\r\n\r\n", 501, notifier.CodeInvalid, "Transfer-Encoding"},
		{"an unknown version", "GET / HTTP/3.0\r\nHost: localhost\r\n\r\n", 505, notifier.CodeInvalid, ""},
		{"an unknown expectation", post + "Host: localhost\r\nExpect: gold\r\n\r\n", 417, notifier.CodeInvalid, "Expect"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			res, err := http.ReadResponse(bufio.NewReader(dial(t, addr, tc.request)), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			body, err := io.ReadAll(res.Body)
			if err != nil {
				t.Fatal(err)
			}
			var p problem
			if err := json.Unmarshal(body, &p); err != nil || res.Header.Get("Content-Type") != "application/problem+json" {
				t.Fatalf("got %s %s %q, want a problem document", res.Status, res.Header.Get("Content-Type"), body)
			}
			if res.StatusCode != tc.status || p.Status != tc.status || p.Code != string(tc.code) || p.Field != tc.field || p.Detail == "" {
				t.Errorf("got %s, %+v; want %d %s at %q", res.Status, p, tc.status, tc.code, tc.field)
			}
		})
	}
}

// The answers of handlers pass as they are.
func TestProtocol_OtherAnswersPass(t *testing.T) {
	t.Parallel()
	for _, answer := range []string{
		"HTTP/1.1 200 OK\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n400 Bad Request",
		"HTTP/1.1 404 Not Found\r\nContent-Type: application/problem+json\r\n\r\n{}",
		"HTTP/1.1 404 Not Found\r\nDate: x\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n404",
		"HTTP/1.1 4", "", "400 Bad Request",
	} {
		if got := ownAnswer([]byte(answer)); got != nil {
			t.Errorf("%q became %q", answer, got)
		}
	}
}
