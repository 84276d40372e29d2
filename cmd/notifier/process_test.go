package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seed-4b260dfd/notifier"
)

// patience is how long anything that must happen may take on a busy machine.
const patience = 30 * time.Second

// eventually polls cond until it holds, or fails the test when it does not in time.
func eventually(t testing.TB, what string, cond func() bool) {
	t.Helper()
	if !within(patience, cond) {
		t.Fatalf("after %s still not so: %s", patience, what)
	}
}

// within polls cond and reports whether it held in time.
func within(limit time.Duration, cond func() bool) bool {
	deadline := time.NewTimer(limit)
	defer deadline.Stop()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		if cond() {
			return true
		}
		select {
		case <-deadline.C:
			return false
		case <-tick.C:
		}
	}
}

// buildBinary builds the command with tags and returns its path. What the
// compiler has cached is only linked.
func buildBinary(t *testing.T, tags ...string) string {
	t.Helper()
	bin := filepath.Join(t.TempDir(), "notifier")
	out, err := exec.Command("go", "build", "-tags", strings.Join(tags, ","), "-o", bin, ".").CombinedOutput()
	if err != nil {
		t.Fatalf("build with tags %v: %v\n%s", tags, err, out)
	}
	return bin
}

// server is a "notifier serve" that is killed and started again in one folder.
type server struct {
	t        testing.TB
	bin, dir string
	// env is added to the environment, args to the flags, of every start.
	env, args []string
	// client is what requests are sent with; nil: caller.
	client *http.Client

	mu     sync.Mutex
	cmd    *exec.Cmd
	base   string // empty while it is down
	exited chan struct{}
}

const listenVariable = "NOTIFIER_TEST_LISTEN"

func newServer(t testing.TB, bin, dir string, env ...string) *server {
	s := &server{t: t, bin: bin, dir: dir, env: env}
	t.Cleanup(func() {
		if s.kill(); t.Failed() {
			t.Logf("the end of the server's log:\n%s", s.logTail())
		}
	})
	return s
}

// start starts the process and returns when it accepts notifications. It is
// given a new port each time: the old one may be taken as a client's meanwhile.
func (s *server) start() {
	s.t.Helper()
	for range 5 {
		addr := freeAddress(s.t)
		s.launch(addr)
		ready := within(patience, func() bool {
			select {
			case <-s.exited:
				return true
			default:
				return statusOf(addr+"/readyz") == http.StatusOK
			}
		})
		select {
		case <-s.exited:
			if strings.Contains(s.logTail(), "address already in use") {
				continue
			}
			s.t.Fatalf("the server ended before it was ready: %v\n%s", s.cmd.ProcessState, s.logTail())
		default:
		}
		if !ready {
			s.t.Fatalf("the server was not ready after %s\n%s", patience, s.logTail())
		}
		s.mu.Lock()
		s.base = "http://" + addr
		s.mu.Unlock()
		return
	}
	s.t.Fatal("no free port in five tries")
}

func (s *server) launch(addr string) {
	s.t.Helper()
	out, err := os.OpenFile(filepath.Join(s.dir, "serve.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		s.t.Fatal(err)
	}
	defer out.Close()
	cmd := exec.Command(s.bin, append([]string{"serve", "-config", filepath.Join(s.dir, "notifier.yaml")}, s.args...)...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = s.dir, out, out
	cmd.Env = append(append(os.Environ(), listenVariable+"="+addr), s.env...)
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	exited := make(chan struct{})
	go func() {
		_ = cmd.Wait() // how it ended is in ProcessState
		close(exited)
	}()
	s.mu.Lock()
	s.cmd, s.exited = cmd, exited
	s.mu.Unlock()
}

// kill ends the process with SIGKILL and returns when it is gone.
func (s *server) kill() {
	s.mu.Lock()
	cmd, exited := s.cmd, s.exited
	s.base = ""
	s.mu.Unlock()
	if cmd == nil {
		return
	}
	_ = cmd.Process.Kill() // it may have ended by itself
	<-exited
}

// awaitDeath waits until the process has killed itself at its fault point.
func (s *server) awaitDeath() {
	s.t.Helper()
	select {
	case <-s.exited:
	case <-time.After(patience):
		s.t.Fatalf("the fault point was not reached in %s", patience)
	}
	if got := s.cmd.ProcessState.String(); got != "signal: killed" {
		s.t.Fatalf("the server ended with %q, want its own SIGKILL\n%s", got, s.logTail())
	}
	s.mu.Lock()
	s.base = ""
	s.mu.Unlock()
}

func (s *server) url() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.base
}

// ledger is the path of the file that the server keeps.
func (s *server) ledger() string { return filepath.Join(s.dir, "notifier.db") }

// logged is everything that the server has logged, over all of its starts.
func (s *server) logged() string {
	b, err := os.ReadFile(filepath.Join(s.dir, "serve.log"))
	if err != nil {
		return err.Error()
	}
	return string(b)
}

func (s *server) logTail() string {
	b := s.logged()
	return b[max(0, len(b)-4000):]
}

// freeAddress is a loopback address below the range from which the kernel
// takes the ports of outgoing connections.
func freeAddress(t testing.TB) string {
	t.Helper()
	for range 100 {
		addr := fmt.Sprintf("127.0.0.1:%d", 12000+rand.IntN(20000))
		l, err := net.Listen("tcp", addr)
		if err != nil {
			continue
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		return addr
	}
	t.Fatal("no free port in a hundred tries")
	return ""
}

// caller is an HTTP client without kept connections: one that was killed with
// the server would only be in the way.
var caller = &http.Client{
	Transport: &http.Transport{DisableKeepAlives: true},
	Timeout:   10 * time.Second,
}

func statusOf(addr string) int {
	res, err := caller.Get("http://" + addr)
	if err != nil {
		return 0
	}
	defer res.Body.Close()
	return res.StatusCode
}

// message is what a test asks to be sent.
type message struct {
	Key       string                         `json:"-"`
	Type      string                         `json:"type"`
	Recipient string                         `json:"recipient"`
	To        map[string][]map[string]string `json:"to"`
	Data      map[string]string              `json:"data"`
	SendAt    time.Time                      `json:"send_at,omitzero"`
}

// address is the one address that a message goes to.
func (m *message) address() string {
	for _, of := range m.To {
		for _, value := range of[0] {
			return value
		}
	}
	return ""
}

// errNoAnswer says that a request was perhaps stored: the same key tells.
var errNoAnswer = errors.New("no answer")

// post sends a message once. Whatever is not a clear answer is errNoAnswer.
func (s *server) post(m message) (id string, status int, err error) {
	base := s.url()
	if base == "" {
		return "", 0, errNoAnswer
	}
	body, err := json.Marshal(m)
	if err != nil {
		return "", 0, err
	}
	req, err := http.NewRequest(http.MethodPost, base+"/v1/notifications", bytes.NewReader(body))
	if err != nil {
		return "", 0, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Idempotency-Key", m.Key)
	client := caller
	if s.client != nil {
		client = s.client
	}
	res, err := client.Do(req)
	if err != nil {
		return "", 0, fmt.Errorf("%w: %w", errNoAnswer, err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	switch {
	case err != nil:
		return "", 0, fmt.Errorf("%w: %w", errNoAnswer, err)
	case res.StatusCode >= 500:
		return "", 0, fmt.Errorf("%w: %s %s", errNoAnswer, res.Status, text)
	case res.StatusCode != http.StatusAccepted && res.StatusCode != http.StatusOK:
		return "", 0, fmt.Errorf("post %s: %s: %s", m.Key, res.Status, text)
	}
	var n notifier.Notification
	if err := json.Unmarshal(text, &n); err != nil {
		return "", 0, fmt.Errorf("post %s: %w", m.Key, err)
	}
	return n.ID.String(), res.StatusCode, nil
}

// send posts a message, with the same key as often as it takes, until it is
// answered. It may run beside the test's own goroutine.
func (s *server) send(m message) (id string, err error) {
	answered := within(patience, func() bool {
		id, _, err = s.post(m)
		return !errors.Is(err, errNoAnswer)
	})
	if !answered {
		return "", fmt.Errorf("post %s: not answered in %s: %w", m.Key, patience, err)
	}
	return id, err
}

// sendThrough sends a message and returns its id. When it makes the process
// die, the process is started again, and the client, if it had no answer,
// says the same again.
func (s *server) sendThrough(m message, dies bool) (id string) {
	s.t.Helper()
	answered := make(chan error, 1)
	go func() {
		var err error
		id, err = s.send(m)
		answered <- err
	}()
	if dies {
		s.awaitDeath()
		s.start()
	}
	if err := <-answered; err != nil {
		s.t.Fatal(err)
	}
	return id
}

// notification reads the resource; false while the server does not answer, or
// does not know it.
func (s *server) notification(id string) (n notifier.Notification, ok bool) {
	base := s.url()
	if base == "" {
		return n, false
	}
	res, err := caller.Get(base + "/v1/notifications/" + url.PathEscape(id))
	if err != nil {
		return n, false
	}
	defer res.Body.Close()
	return n, res.StatusCode == http.StatusOK && json.NewDecoder(res.Body).Decode(&n) == nil
}

// settled waits until every delivery of each notification has ended, and
// returns them.
func (s *server) settled(ids []string) []notifier.Notification {
	s.t.Helper()
	got := make([]notifier.Notification, len(ids))
	for i, id := range ids {
		eventually(s.t, "notification "+id+" is settled", func() (ok bool) {
			got[i], ok = s.notification(id)
			return ok && got[i].State != notifier.StatePending
		})
	}
	return got
}
