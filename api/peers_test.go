package api

import (
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"
)

// serving serves a handler as the service does, with bounds of its own.
func serving(t *testing.T, change func(*peers), config ...func(*Config)) (s *service, addr string) {
	t.Helper()
	s = newService(config...)
	server := NewServer("", s.Handler)
	ps := newPeers()
	change(ps)
	ps.watch(server)
	server.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var ended sync.WaitGroup
	ended.Go(func() { _ = server.Serve(Listen(l)) })
	t.Cleanup(func() {
		_ = server.Close()
		ended.Wait()
	})
	return s, l.Addr().String()
}

// dial opens a connection and writes what a slow caller has got to say so far.
func dial(t *testing.T, addr, said string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	if _, err := io.WriteString(c, said); err != nil {
		t.Fatal(err)
	}
	return c
}

const halfPost = "POST /v1/notifications HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n" +
	"Idempotency-Key: slow\r\nContent-Length: 1000\r\n\r\n{"

// honest sends notifications one after the other and wants each accepted soon.
func honest(t *testing.T, addr string, n int) {
	t.Helper()
	client := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	for i := range n {
		req, err := http.NewRequest(http.MethodPost, "http://"+addr+"/v1/notifications", strings.NewReader(shipped))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Idempotency-Key", fmt.Sprint(i))
		res, err := client.Do(req)
		if err != nil {
			t.Fatalf("honest request %d: %v", i, err)
		}
		_ = res.Body.Close()
		if res.StatusCode != http.StatusAccepted && res.StatusCode != http.StatusOK {
			t.Fatalf("honest request %d: got %s, want 202, or 200 for a repeat", i, res.Status)
		}
	}
}

// More bodies are on their way, byte by byte and from the same address, than
// requests may be worked on: nobody else waits for them.
func TestPeers_SlowBodiesHoldUpNobody(t *testing.T) {
	t.Parallel()
	_, addr := serving(t, func(*peers) {})
	var slow []net.Conn
	for range 1200 {
		slow = append(slow, dial(t, addr, halfPost))
	}
	honest(t, addr, 50)
	for _, c := range slow {
		_, _ = io.WriteString(c, " ") // those that were ended may say so
	}
	honest(t, addr, 50)
}

// Whose body is ended to make room is told, and may come again.
func TestPeers_TheBodyThatTakesLongestIsAnswered(t *testing.T) {
	t.Parallel()
	_, addr := serving(t, func(ps *peers) { ps.arriving = 2 })
	first := dial(t, addr, halfPost)
	answered := make(chan string, 1)
	go func() {
		b, _ := io.ReadAll(first)
		answered <- string(b)
	}()
	for i := 0; ; i++ {
		select {
		case got := <-answered:
			if !strings.HasPrefix(got, "HTTP/1.1 503 ") || !strings.Contains(got, "Retry-After: 1\r\n") || !strings.Contains(got, `"code":"overloaded"`) {
				t.Errorf("got %q, want a 503 that says overloaded", got)
			}
			honest(t, addr, 3)
			return
		default:
			if i == 200 {
				t.Fatal("the oldest body was not ended")
			}
			dial(t, addr, halfPost)
		}
	}
}

// Connections beyond the bound of an address take the place of the oldest of
// that address that is not being answered.
func TestPeers_ConnectionsOfOneAddress(t *testing.T) {
	t.Parallel()
	for name, said := range map[string]string{"silent": "", "in the header": "GET /healthz HTTP/1.1\r\nX-Slow: ", "in the body": halfPost} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, addr := serving(t, func(ps *peers) { ps.maxPerAddress = 8 })
			first := dial(t, addr, said)
			for range 20 {
				dial(t, addr, said)
			}
			_ = first.SetReadDeadline(time.Now().Add(10 * time.Second))
			if b, err := io.ReadAll(first); err != nil && strings.Contains(err.Error(), "timeout") {
				t.Errorf("got %q, %v of the oldest connection, want its end", b, err)
			}
			honest(t, addr, 20)
		})
	}
}

// What is being answered is never ended to make room.
func TestPeers_WhatIsBeingAnsweredStays(t *testing.T) {
	t.Parallel()
	s, addr := serving(t, func(ps *peers) { ps.maxPerAddress = 4 })
	s.fake.hang, s.fake.began = make(chan struct{}), make(chan struct{}, 1)
	busy := make(chan error, 1)
	go func() {
		req, _ := http.NewRequest(http.MethodPost, "http://"+addr+"/v1/notifications", strings.NewReader(shipped))
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Idempotency-Key", "busy")
		res, err := http.DefaultTransport.RoundTrip(req)
		if err == nil {
			_ = res.Body.Close()
			if res.StatusCode != http.StatusAccepted {
				err = fmt.Errorf("got %s", res.Status)
			}
		}
		busy <- err
	}()
	select { // until the request has been read, its connection is one that waits
	case <-s.fake.began:
	case err := <-busy:
		t.Fatalf("got %v before there was anybody to make room for", err)
	}
	for range 30 {
		dial(t, addr, "")
	}
	close(s.fake.hang)
	if err := <-busy; err != nil {
		t.Error(err)
	}
}

// Beyond the bound of all, the address that has most makes the room.
func TestPeers_TheFullestAddressMakesRoom(t *testing.T) {
	t.Parallel()
	ps := newPeers()
	ps.max = 10
	closed := map[net.Conn]bool{}
	var mu sync.Mutex
	from := func(ip string) net.Conn {
		a, b := net.Pipe()
		_ = b.Close()
		c := &placed{Conn: a, at: net.TCPAddrFromAddrPort(netip.MustParseAddrPort(ip))}
		c.end = func() {
			mu.Lock()
			defer mu.Unlock()
			closed[c] = true
		}
		ps.add(c)
		return c
	}
	one := from("192.0.2.1:1")
	var many []net.Conn
	for i := range 30 {
		many = append(many, from(fmt.Sprintf("[2001:db8::%x]:1", i+1))) // one network
	}
	if closed[one] || len(closed) != 21 || !closed[many[0]] || closed[many[29]] {
		t.Errorf("ended %d, the lonely one among them %v; want the oldest 21 of the crowd", len(closed), closed[one])
	}
	for c := range ps.all {
		ps.remove(c)
	}
	if len(ps.all)+len(ps.addresses)+ps.inBodies != 0 {
		t.Errorf("something is left of connections that are over: %+v", ps)
	}
}

type placed struct {
	net.Conn
	at  net.Addr
	end func()
}

func (p *placed) RemoteAddr() net.Addr { return p.at }
func (p *placed) Close() error {
	p.end()
	return p.Conn.Close()
}
