package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/seed-4b260dfd/notifier"
)

const (
	defaultServer = "http://127.0.0.1:8080"
	// maxAnswer is the longest answer that is read.
	maxAnswer = 8 << 20
	// answerTime is how long a server may take to answer, beside what it was
	// asked to wait.
	answerTime = 30 * time.Second
)

// client speaks with one server.
type client struct {
	base string
	key  string
	http *http.Client
	// unclear is what to do about a request that may have been done, where it is
	// not the sending of a message.
	unclear string
}

// serverFlag defines -server.
func serverFlag(f *flag.FlagSet) *string {
	return f.String("server", "", "the server's `URL` (default: $NOTIFIER_SERVER, or "+defaultServer+")")
}

func newClient(server string, getenv func(string) string) (*client, error) {
	base := cmp.Or(server, getenv("NOTIFIER_SERVER"), defaultServer)
	u, err := url.Parse(base)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, wrongUsage("-server or NOTIFIER_SERVER: not a URL such as %s", defaultServer)
	}
	return &client{
		base: strings.TrimSuffix(base, "/"),
		key:  getenv("NOTIFIER_API_KEY"),
		http: &http.Client{
			// A redirect would take the API key and the message elsewhere.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}, nil
}

// answer is what a server said.
type answer struct {
	status   int
	replayed bool
	body     []byte
}

// startPatience is how long a server that does not listen yet is waited for: it
// may have been started a moment ago.
const (
	startPatience = 2 * time.Second
	startPause    = 50 * time.Millisecond
)

// call makes a request and returns the answer if it is a success. Only while
// nothing can have arrived is it made again.
func (c *client) call(ctx context.Context, method, path string, header http.Header, body []byte, wait time.Duration) (*answer, error) {
	patience, cancel := context.WithTimeout(ctx, startPatience)
	defer cancel()
	for {
		a, err := c.callOnce(ctx, method, path, header, body, wait)
		if !errors.As(err, new(notListening)) {
			return a, err
		}
		select {
		case <-time.After(startPause):
		case <-patience.Done():
			return nil, err
		}
	}
}

// notListening is the error of a request whose connection was never made, or
// that a server refused because it is starting: nothing has arrived.
type notListening struct{ error }

func (c *client) callOnce(ctx context.Context, method, path string, header http.Header, body []byte, wait time.Duration) (*answer, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTime+wait)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("make the request: %w", err)
	}
	for name, values := range header {
		req.Header[name] = values
	}
	if c.key != "" {
		req.Header.Set("Authorization", "Bearer "+c.key)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, c.unreachable(method, err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return nil, c.unreachable(method, err)
	}
	a := &answer{status: resp.StatusCode, replayed: resp.Header.Get("Idempotent-Replayed") == "true", body: b}
	media, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	switch {
	case media == "application/problem+json":
		return nil, c.problem(b)
	case a.status >= 200 && a.status < 300 && media == "application/json":
		return a, nil
	default:
		return nil, fmt.Errorf("%s answered %s, which is not notifier's: name the server with -server or NOTIFIER_SERVER", c.base, resp.Status)
	}
}

// unreachable says whether anything can have arrived. A connection that was
// never made is the one case in which nothing has.
func (c *client) unreachable(method string, err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err
	}
	if neverConnected(err) {
		return notListening{fmt.Errorf(`cannot reach %s (%v): start it with "notifier serve", or name another with -server or NOTIFIER_SERVER`, c.base, err)}
	}
	if c.unclear != "" && method != http.MethodGet {
		return fmt.Errorf("no answer from %s (%v): %s", c.base, err, c.unclear)
	}
	if method == http.MethodPost {
		return fmt.Errorf("no answer from %s (%v): it may have been accepted: send again with the same -key, which makes no second one", c.base, err)
	}
	return fmt.Errorf("no answer from %s (%v): ask again", c.base, err)
}

func neverConnected(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

// problem reads a problem document (RFC 9457) as one line.
func (c *client) problem(body []byte) error {
	var doc struct {
		Code   notifier.Code `json:"code"`
		Detail string        `json:"detail"`
		Field  string        `json:"field"`
		ID     string        `json:"id"`
	}
	if err := json.Unmarshal(body, &doc); err != nil || doc.Code == "" {
		return errors.New("the server answered with an error that cannot be read: is it a notifier of this version?")
	}
	line := string(doc.Code)
	if doc.Field != "" {
		line += " (" + doc.Field + ")"
	}
	line += ": " + doc.Detail
	if advice := c.adviceFor(doc.Code, doc.Field); advice != "" {
		line += "; " + advice
	}
	if doc.Code == notifier.CodeKeyReused && doc.ID != "" {
		line += `; "notifier status ` + doc.ID + `" shows the first`
	}
	if doc.Code == notifier.CodeOverloaded {
		return notListening{errors.New(printable(line))}
	}
	return errors.New(printable(line))
}
