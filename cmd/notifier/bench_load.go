package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// side is one of what is compared.
type side struct {
	name, base, typ string
	// bare sides answer when the provider has; the others when it is stored.
	bare bool
	// process serves the side; nil where somebody else started it.
	process *child
}

// shot is one request that was made.
type shot struct {
	// at is when it was meant to be made, answered and wire when its answer
	// and the provider had it, in nanoseconds of the Unix epoch; 0: never.
	at, answered, wire int64
	accepted           bool
	effects            uint16
}

// loader makes requests, the same to every side and through the same client.
type loader struct {
	http  *http.Client
	key   string
	nonce [8]byte

	mu    sync.Mutex
	shots []shot
	// scheduled numbers the requests that wait for a later time.
	scheduled atomic.Int64
}

const (
	benchTimeout = 30 * time.Second
	// recipientDigits makes the recipients ten thousand: what a server keeps
	// for each of them stays the same however long it is loaded.
	recipientDigits = 4
)

func newLoader(inflight int, key string) *loader {
	l := &loader{key: key, http: &http.Client{
		Timeout:   benchTimeout,
		Transport: &http.Transport{MaxIdleConns: 2 * maxBenchInFlight, MaxIdleConnsPerHost: maxBenchInFlight, DisableCompression: true},
	}}
	_, _ = rand.Read(l.nonce[:]) // it never fails: it ends the process instead
	return l
}

// next books a shot and returns its number.
func (l *loader) next(at time.Time) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.shots = append(l.shots, shot{at: at.UnixNano()})
	return len(l.shots) - 1
}

func (l *loader) booked() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.shots)
}

func (l *loader) answered(n int, at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.shots[n].answered, l.shots[n].accepted = at.UnixNano(), true
}

// token is the address of shot n: what the provider logs tells which it was.
func (l *loader) token(n int) string {
	return hex.EncodeToString(l.nonce[:]) + fmt.Sprintf("%016x%032x", n, 0)
}

// number is the shot of a token, or -1.
func (l *loader) number(token string) int {
	rest, ours := strings.CutPrefix(token, hex.EncodeToString(l.nonce[:]))
	if !ours || len(rest) != 48 {
		return -1
	}
	n, err := strconv.ParseInt(rest[:16], 16, 64)
	if err != nil || int(n) >= len(l.shots) {
		return -1
	}
	return int(n)
}

// send makes the request of a new shot, meant for at.
func (l *loader) send(ctx context.Context, s *side, at time.Time, header ...string) error {
	n := l.next(at)
	if err := l.post(ctx, s, l.token(n), strconv.Itoa(n), "", header...); err != nil {
		return err
	}
	l.answered(n, time.Now())
	return nil
}

// post makes one request. Any answer but 202 is an error.
func (l *loader) post(ctx context.Context, s *side, token, n, more string, header ...string) error {
	body := make([]byte, 0, 512)
	body = append(body, `{"type": "`...)
	body = append(body, s.typ...)
	body = append(body, `", "recipient": "u_`...)
	body = append(body, n[max(0, len(n)-recipientDigits):]...)
	body = append(body, `", "to": {"apns": [{"token": "`...)
	body = append(body, token...)
	body = append(body, `"}]}, "data": {"n": "`...)
	body = append(body, n...)
	body = append(body, `"}`...)
	body = append(append(body, more...), '}')
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.base+"/v1/notifications", bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("make the request: %w", err)
	}
	req.Header["Content-Type"] = []string{"application/json"}
	req.Header["Idempotency-Key"] = []string{"bench/" + token[:32]}
	if l.key != "" {
		req.Header["Authorization"] = []string{"Bearer " + l.key}
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := l.http.Do(req)
	if err != nil {
		return fmt.Errorf("send to %s: %w", s.name, err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		return fmt.Errorf("read the answer of %s: %w", s.name, err)
	}
	if resp.StatusCode != http.StatusAccepted {
		return fmt.Errorf("%s answered %s: %s", s.name, resp.Status, printable(string(answer)))
	}
	return nil
}

// closed keeps inflight requests under way for as long as more says, and
// returns how many were answered. The first that fails ends it.
func (l *loader) closed(ctx context.Context, inflight int, more func() bool, one func(context.Context) error) (int, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var answered atomic.Int64
	var all sync.WaitGroup
	for range inflight {
		all.Go(func() {
			for ctx.Err() == nil && more() {
				if err := one(ctx); err != nil {
					cancel(err)
					return
				}
				answered.Add(1)
			}
		})
	}
	all.Wait()
	return int(answered.Load()), context.Cause(ctx)
}

// errBehind says that a rate could not be kept.
var errBehind = errors.New("the server does not keep up with the rate: choose a lower -rate")

// open makes requests at a rate, whether or not the earlier ones have been
// answered: a server that stalls delays what comes after, and that is measured
// because every time counts from when the request was meant to be made.
func (l *loader) open(ctx context.Context, s *side, rate int, lasts time.Duration) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	slots := make(chan struct{}, maxBenchInFlight)
	var all sync.WaitGroup
	start, total := time.Now(), int(lasts.Seconds()*float64(rate))
	for i := 0; i < total && ctx.Err() == nil; i++ {
		at := start.Add(time.Duration(i) * time.Second / time.Duration(rate))
		time.Sleep(time.Until(at))
		if time.Since(at) > benchTimeout {
			cancel(errBehind)
			break
		}
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			if err := l.send(ctx, s, at); err != nil {
				cancel(err)
			}
		})
	}
	all.Wait()
	return context.Cause(ctx)
}
