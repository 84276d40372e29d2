package channels

import (
	"crypto/tls"
	"io"
	"net"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// counted counts the writes to a connection.
type counted struct {
	net.Conn
	writes atomic.Int32
	broken atomic.Bool
}

func (c *counted) Write(p []byte) (int, error) {
	if c.broken.Load() {
		return 0, io.ErrClosedPipe
	}
	c.writes.Add(1)
	return c.Conn.Write(p)
}

// pair is a joined connection, the peer's side of it, and what counts the
// writes under TLS.
func pair(t *testing.T) (*joined, *tls.Conn, *counted) {
	t.Helper()
	s := httptest.NewUnstartedServer(nil)
	s.StartTLS() // for its certificate
	s.Close()
	ours, theirs := net.Pipe()
	under := &counted{Conn: ours}
	client := tls.Client(under, &tls.Config{InsecureSkipVerify: true})
	server := tls.Server(theirs, &tls.Config{Certificates: s.TLS.Certificates, SessionTicketsDisabled: true})
	shaken := make(chan error, 1)
	go func() { shaken <- server.Handshake() }()
	if err := client.Handshake(); err != nil {
		t.Fatal(err)
	}
	if err := <-shaken; err != nil {
		t.Fatal(err)
	}
	under.writes.Store(0)
	t.Cleanup(func() { client.NetConn().Close(); server.NetConn().Close() })
	return newJoined(client), server, under
}

// frame is an HTTP/2 frame of stream 1.
func frame(kind, flags byte, body string) string {
	return string([]byte{0, 0, byte(len(body)), kind, flags, 0, 0, 0, 1}) + body
}

var (
	someHeaders = frame(1, 0x4, "headers")
	someData    = frame(0, 0x1, "data")
)

func TestJoined_HeadersAndBodyAreOneWrite(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, peer, under := pair(t)
		got := make(chan string, 1)
		go func() {
			b := make([]byte, len(someHeaders)+len(someData))
			n, _ := peer.Read(b)
			got <- string(b[:n])
		}()
		for _, p := range []string{someHeaders, someData} {
			if n, err := io.WriteString(c, p); n != len(p) || err != nil {
				t.Fatalf("write: %d, %v", n, err)
			}
		}
		if got := <-got; got != someHeaders+someData || under.writes.Load() != 1 {
			t.Errorf("%d writes, the first has %q; want one with headers and body", under.writes.Load(), got)
		}
	})
}

// Headers whose body does not come are not held for ever: a peer without room
// for the body makes some when it has seen them.
func TestJoined_HeadersWithoutABodyGoAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, peer, _ := pair(t)
		start := time.Now()
		if _, err := io.WriteString(c, someHeaders); err != nil {
			t.Fatal(err)
		}
		b := make([]byte, 2*len(someHeaders))
		if n, err := peer.Read(b); string(b[:n]) != someHeaders || err != nil {
			t.Errorf("got %q, %v, want the headers", b[:n], err)
		}
		if waited := time.Since(start); waited != holdFor {
			t.Errorf("they came after %v, want %v", waited, holdFor)
		}
	})
}

func TestJoined_LateHeadersThatFailEndTheConnection(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, _, under := pair(t)
		under.broken.Store(true)
		if _, err := io.WriteString(c, someHeaders); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Read(make([]byte, 1)); err == nil { // it would wait for the peer
			t.Error("the connection can still be read")
		}
		if n, err := io.WriteString(c, someData); err == nil {
			t.Errorf("wrote %d bytes to a connection that is gone", n)
		}
	})
}

func TestAwaitsBody(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, p string
		want    bool
	}{
		{"headers before a body", someHeaders, true},
		{"headers that end the stream", frame(1, 0x5, "headers"), false},
		{"headers that are continued", frame(1, 0, "headers"), false},
		{"data", someData, false},
		{"headers and more", someHeaders + someData, false},
		{"a piece of headers", someHeaders[:12], false},
		{"a frame without its body", someHeaders[:9], false},
		{"nothing", "", false},
	} {
		if got := awaitsBody([]byte(tt.p)); got != tt.want {
			t.Errorf("%s: got %v, want %v", tt.name, got, tt.want)
		}
	}
}
