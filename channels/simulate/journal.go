package simulate

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

// Entry is one request that a provider received whole: one line of its log.
type Entry struct {
	Time    time.Time `json:"time"`
	Channel string    `json:"channel"`
	// Account is what the request authenticated as: the APNs topic, the FCM
	// project, the SMTP user, "default" for the webhook secret.
	Account string `json:"account"`
	Address string `json:"address"`
	// Delivery and Fence are X-Delivery and X-Attempt.
	Delivery string `json:"delivery"`
	Fence    int64  `json:"fence"`
	// EffectKey is the id that is equal in every repeat: apns-id, FCM's
	// data.notifier_id, Message-ID or webhook-id.
	EffectKey  string `json:"effect_key"`
	CollapseID string `json:"collapse_id"`
	// BodyHash is the SHA-256 of the content, without what differs between
	// attempts by design (a mail's X-Attempt).
	BodyHash string `json:"body_hash"`
	// Title is the alert's title or the mail's subject, for people to read.
	Title string `json:"title,omitempty"`
	// Answer is what the sender was told: "200", "410 Unregistered", "250";
	// "none" when the answer was withheld.
	Answer string `json:"answer"`
	// TookEffect says that the message reached the person.
	TookEffect bool `json:"took_effect"`
	// MayTakeEffect is false only when the sender was told, in a way that it
	// can rely on, that nothing was processed and that it may send again.
	MayTakeEffect bool `json:"may_take_effect"`
}

// journal writes entries and answers in that order. Entries that arrive
// together share one write, which is what lets one core keep up.
type journal struct {
	path string
	out  io.WriteCloser

	mu     sync.Mutex
	queue  []record
	closed bool
	wake   chan struct{}
	ended  chan struct{}
}

type record struct {
	line []byte
	// after runs when the line is in the file, or could not be written.
	after func(error)
}

var errJournalClosed = errors.New("the log is closed")

// openJournal opens the log for appending. A last line without its end is from
// a process killed while it wrote; its sender had no answer yet, and it is cut off.
func openJournal(path string, wrap func(io.WriteCloser) io.WriteCloser) (*journal, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the provider log: %w", err)
	}
	if err := cutTornLine(f); err != nil {
		return nil, errors.Join(fmt.Errorf("mend the provider log %q: %w", path, err), f.Close())
	}
	j := &journal{path: path, out: f, wake: make(chan struct{}, 1), ended: make(chan struct{})}
	if wrap != nil {
		j.out = wrap(f)
	}
	go j.run()
	return j, nil
}

func cutTornLine(f *os.File) error {
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	buf := make([]byte, 4096)
	for end := size; end > 0; {
		start := max(0, end-int64(len(buf)))
		b := buf[:end-start]
		if _, err := f.ReadAt(b, start); err != nil {
			return err
		}
		if i := bytes.LastIndexByte(b, '\n'); i >= 0 {
			return f.Truncate(start + int64(i) + 1)
		}
		end = start
	}
	return f.Truncate(0)
}

// append queues an entry. after runs once, soon, on the journal's goroutine:
// it must not block.
func (j *journal) append(e *Entry, after func(error)) {
	line, err := json.Marshal(e)
	if err != nil {
		after(err)
		return
	}
	j.mu.Lock()
	if j.closed {
		j.mu.Unlock()
		after(errJournalClosed)
		return
	}
	j.queue = append(j.queue, record{append(line, '\n'), after})
	j.mu.Unlock()
	select {
	case j.wake <- struct{}{}:
	default:
	}
}

// write is append that waits.
func (j *journal) write(e *Entry) error {
	done := make(chan error, 1)
	j.append(e, func(err error) { done <- err })
	return <-done
}

func (j *journal) run() {
	defer close(j.ended)
	var batch []record
	var lines []byte
	for range j.wake {
		j.mu.Lock()
		batch, j.queue = j.queue, batch[:0]
		closed := j.closed
		j.mu.Unlock()
		lines = lines[:0]
		for _, r := range batch {
			lines = append(lines, r.line...)
		}
		var err error
		if len(lines) > 0 {
			_, err = j.out.Write(lines)
		}
		for i, r := range batch {
			r.after(err)
			batch[i] = record{}
		}
		if closed {
			return
		}
	}
}

// Close writes what is queued and closes the file.
func (j *journal) Close() error {
	j.mu.Lock()
	j.closed = true
	j.mu.Unlock()
	select {
	case j.wake <- struct{}{}:
	default:
	}
	<-j.ended
	return j.out.Close()
}

// ReadLog reads a provider log. A last line that is still being written is left out.
func ReadLog(path string) ([]Entry, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open the provider log: %w", err)
	}
	defer f.Close()
	var entries []Entry
	r := bufio.NewReaderSize(f, 1<<16)
	for n := 1; ; n++ {
		line, err := r.ReadBytes('\n')
		if err == io.EOF {
			return entries, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read the provider log %q: %w", path, err)
		}
		var e Entry
		if err := json.Unmarshal(line, &e); err != nil {
			return nil, fmt.Errorf("read the provider log %q: line %d: %w", path, n, err)
		}
		entries = append(entries, e)
	}
}
