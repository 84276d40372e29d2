package simulate

import (
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

func readCloser(s string) io.ReadCloser { return io.NopCloser(strings.NewReader(s)) }

// eventually waits for a condition that another process or goroutine brings about.
func eventually(t *testing.T, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(10 * time.Second)
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatal("it did not come about in ten seconds")
		}
	}
}

// heldLog holds writes back until it is let go, or fails them.
type heldLog struct {
	io.WriteCloser
	writing, release chan struct{}
	once             sync.Once
	err              error
}

func (h *heldLog) letGo() { h.once.Do(func() { close(h.release) }) }

func (h *heldLog) Write(b []byte) (int, error) {
	h.writing <- struct{}{}
	<-h.release
	if h.err != nil {
		return 0, h.err
	}
	return h.WriteCloser.Write(b)
}

func startHeld(t *testing.T, err error) (*Server, *heldLog) {
	t.Helper()
	h := &heldLog{writing: make(chan struct{}, 100), release: make(chan struct{}), err: err}
	s, startErr := Start(Config{Dir: t.TempDir(), wrapLog: func(w io.WriteCloser) io.WriteCloser { h.WriteCloser = w; return h }})
	if startErr != nil {
		t.Fatal(startErr)
	}
	t.Cleanup(func() {
		h.letGo()
		_ = s.Close()
	})
	return s, h
}

// senders send one request through each provider.
func senders(t *testing.T, s *Server) map[string]func() error {
	c := newAPNsClient(t, s)
	m := mailer(t, s)
	return map[string]func() error{
		"apns": func() error { return asError(c.do(c.request(t.Context(), nil))) },
		"email": func() error {
			_, err := sendMail(m, "ann@example.com")
			return err
		},
		"webhook": func() error { return asError(hook(t, s, "/", nil)) },
	}
}

func asError(a answerOf) error {
	if a.Err == nil && a.Status != http.StatusOK {
		return errors.New(a.Body)
	}
	return a.Err
}

func TestLog_LineGoesBeforeAnswer(t *testing.T) {
	t.Parallel()
	for _, channel := range []string{"apns", "email", "webhook"} {
		t.Run(channel, func(t *testing.T) {
			t.Parallel()
			s, h := startHeld(t, nil)
			send := senders(t, s)[channel]
			answered := make(chan error, 1)
			go func() { answered <- send() }()
			<-h.writing
			// An answer that does not wait for the log has the time of a few
			// round trips to arrive.
			for range 20 {
				if _, err := http.Get(s.HTTPURL() + "/_simulate/faults"); err != nil {
					t.Fatal(err)
				}
			}
			select {
			case err := <-answered:
				t.Errorf("answered (%v) before the line was written", err)
			default:
			}
			h.letGo()
			if err := <-answered; err != nil {
				t.Errorf("send: %v", err)
			}
			if e := only(t, s); e.Channel != channel {
				t.Errorf("log: got %+v", e)
			}
		})
	}
}

func TestLog_NoLineNoAnswer(t *testing.T) {
	t.Parallel()
	for _, channel := range []string{"apns", "email", "webhook"} {
		t.Run(channel, func(t *testing.T) {
			t.Parallel()
			s, h := startHeld(t, errors.New("disk full"))
			h.letGo()
			if err := senders(t, s)[channel](); err == nil {
				t.Error("a request whose line could not be written was answered")
			}
		})
	}
}

func TestLog_SharedWrites(t *testing.T) {
	t.Parallel()
	s, h := startHeld(t, nil)
	c := newAPNsClient(t, s)
	const n = 50
	answers := make(chan error, n)
	send := func() { answers <- asError(c.do(c.request(t.Context(), nil))) }
	go send()
	<-h.writing
	// The first line is being written; all that come meanwhile wait for the second write.
	for range n - 1 {
		go send()
	}
	eventually(t, func() bool {
		s.journal.mu.Lock()
		defer s.journal.mu.Unlock()
		return len(s.journal.queue) == n-1
	})
	h.letGo()
	for range n {
		if err := <-answers; err != nil {
			t.Error(err)
		}
	}
	if lines, writes := len(s.Effects()), 1+len(h.writing); lines != n || writes != 2 {
		t.Errorf("got %d lines in %d writes, want %d lines in 2 writes", lines, writes, n)
	}
}

func TestStart_GoesOnWithTheLog(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s, err := Start(Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	files := s.Files()
	if got := hook(t, s, "/", nil); got.Status != 200 {
		t.Fatalf("got %+v", got)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	// A process killed in the middle of a line.
	path := filepath.Join(dir, LogName)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, append(whole, `{"time":"2026-`...), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err = Start(Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if s.Files() != files {
		t.Errorf("the second start has other keys: got %+v, want %+v", s.Files(), files)
	}
	if got := hook(t, s, "/", nil); got.Status != 200 {
		t.Fatalf("got %+v", got)
	}
	if got := s.Effects(); len(got) != 2 {
		t.Errorf("got %d effects, want one of each run: %+v", len(got), got)
	}
}

func TestCutTornLine(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 10000)
	for name, tt := range map[string]struct{ in, want string }{
		"empty":           {"", ""},
		"whole":           {"a\nb\n", "a\nb\n"},
		"torn":            {"a\nb", "a\n"},
		"only a torn one": {long, ""},
		"torn and long":   {"a\n" + long, "a\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "log")
			if err := os.WriteFile(path, []byte(tt.in), 0o600); err != nil {
				t.Fatal(err)
			}
			j, err := openJournal(path, nil)
			if err != nil {
				t.Fatal(err)
			}
			if err := j.Close(); err != nil {
				t.Fatal(err)
			}
			got, err := os.ReadFile(path)
			if err != nil || string(got) != tt.want {
				t.Errorf("got %d bytes %v, want %d", len(got), err, len(tt.want))
			}
		})
	}
}

func TestCollapse(t *testing.T) {
	t.Parallel()
	push := func(token, id, title string, took bool) Entry {
		return Entry{Channel: "apns", Address: token, CollapseID: id, Title: title, TookEffect: took}
	}
	mail := Entry{Channel: "email", Address: "ann@example.com", EffectKey: "k", TookEffect: true}
	got := Collapse([]Entry{
		push("t1", "order", "packed", true), push("t1", "", "hello", true), push("t2", "order", "packed", true),
		push("t1", "order", "shipped", true), push("t1", "order", "lost", false), push("t1", "", "hello", true), mail, mail,
	})
	type shown struct {
		address, title string
		alerts         int
	}
	var short []shown
	for _, m := range got {
		short = append(short, shown{m.Address, m.Title, m.Alerts})
	}
	want := []shown{{"t1", "shipped", 2}, {"t1", "hello", 1}, {"t2", "packed", 1}, {"t1", "hello", 1}, {"ann@example.com", "", 1}, {"ann@example.com", "", 1}}
	if len(short) != len(want) {
		t.Fatalf("got %+v, want %+v", short, want)
	}
	for i := range want {
		if short[i] != want[i] {
			t.Errorf("message %d: got %+v, want %+v", i, short[i], want[i])
		}
	}
}
