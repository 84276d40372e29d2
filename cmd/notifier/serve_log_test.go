package main

import (
	"bufio"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/seed-4b260dfd/notifier"
)

// unasked is a receiver of webhooks that answers, and then says something that
// nobody asked for.
func unasked(t *testing.T) (url string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				req, err := http.ReadRequest(bufio.NewReader(c))
				if err != nil {
					return
				}
				_, _ = io.Copy(io.Discard, req.Body)
				_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
				_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
				_, _ = io.Copy(io.Discard, c)
			}()
		}
	}()
	return "http://" + l.Addr().String() + "/hook"
}

// All that a server writes to stderr are lines of its log, what libraries print
// included; and its log says under which name it holds leases.
func TestServe_EveryLineIsTheLogs(t *testing.T) {
	t.Parallel()
	sim := startProviders(t)
	s := newServer(t, buildBinary(t), installation(t, sim, 0, map[string]string{"note": quickPolicy(notifier.OrderSendFirst, 0)}))
	s.start()
	hook := map[string][]map[string]string{"webhook": {{"url": unasked(t)}}}
	id, err := s.send(message{Key: "a", Type: "note", Recipient: "u", To: hook, Data: map[string]string{"text": "x"}})
	if err != nil {
		t.Fatal(err)
	}
	n := s.settled([]string{id})[0]
	owner := n.Deliveries[0].Attempts[0].Worker
	eventually(t, "the log has a line about what nobody asked for", func() bool { return strings.Contains(s.logged(), "Unsolicited response") })
	if !strings.Contains(s.logged(), `"owner":"`+owner+`"`) {
		t.Errorf("no line says that this process is %s, which holds the leases", owner)
	}
	for line := range strings.Lines(s.logged()) {
		var any map[string]any
		if err := json.Unmarshal([]byte(line), &any); err != nil && !strings.HasPrefix(line, "listening on ") {
			t.Errorf("a line that is not the log's: %q", line)
		}
	}
}
