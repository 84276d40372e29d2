package api

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/seed-4b260dfd/notifier"
)

// fake accepts into memory. It recognises repeats as the engine does, and
// fails, panics or hangs when it is told to.
type fake struct {
	mu      sync.Mutex
	next    uint16
	byKey   map[string]*stored
	settled chan struct{} // closed: all is settled

	acceptErr, readErr, readyErr error
	acceptPanic                  any
	hang                         chan struct{} // Accept blocks until it is closed
	began                        chan struct{} // if there is one, Accept says here that it hangs
	degraded                     []string
	ignored                      []string
	waited                       error // what ended the last Wait
	last                         notifier.Request
}

type stored struct {
	req notifier.Request
	n   notifier.Notification
}

func newFake() *fake {
	return &fake{byKey: map[string]*stored{}, settled: make(chan struct{})}
}

func (f *fake) Accept(_ context.Context, req notifier.Request) (notifier.Accepted, error) {
	if f.hang != nil {
		if f.began != nil {
			f.began <- struct{}{}
		}
		<-f.hang
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.last = req
	if f.acceptPanic != nil {
		panic(f.acceptPanic)
	}
	if f.acceptErr != nil {
		return notifier.Accepted{}, f.acceptErr
	}
	if s, ok := f.byKey[req.Tenant+"\x00"+req.Key]; ok {
		return f.repeat(s, req)
	}
	f.next++
	id := notifier.NewID(time.UnixMilli(1_800_000_000_000), f.next, [8]byte{})
	f.byKey[req.Tenant+"\x00"+req.Key] = &stored{req, notifier.Notification{
		ID: id, Tenant: req.Tenant, Key: req.Key, Type: req.Type, Recipient: req.Recipient,
		State: notifier.StatePending, Counts: map[notifier.State]int{notifier.StatePending: 1},
		Order: notifier.OrderSendFirst, PolicyVersion: "sha256:00",
		Deliveries: []notifier.DeliveryState{{ID: notifier.DeliveryID{Notification: id}, Channel: notifier.ChannelAPNs,
			Address: notifier.Redact("740f1234567819e7"), State: notifier.StatePending, Reason: notifier.ReasonDue}},
	}}
	return notifier.Accepted{ID: id, Ignored: f.ignored}, nil
}

func (f *fake) repeat(s *stored, req notifier.Request) (notifier.Accepted, error) {
	if s.req.Type != req.Type || s.req.Recipient != req.Recipient || !reflect.DeepEqual(s.req.Data, req.Data) {
		return notifier.Accepted{}, &notifier.Error{Code: notifier.CodeKeyReused, Field: "key", Message: "one key, one request",
			Details: map[string]any{"differs": []string{"data"}, "id": s.n.ID.String()}}
	}
	s.n.Repeats++
	acc := notifier.Accepted{ID: s.n.ID, Replayed: true}
	if s.req.Locale != req.Locale {
		acc.Ignored = []string{"locale"}
	}
	return acc, nil
}

func (f *fake) find(ok func(*stored) bool) (*notifier.Notification, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.readErr != nil {
		return nil, f.readErr
	}
	for _, s := range f.byKey {
		if ok(s) {
			n := s.n
			select {
			case <-f.settled:
				n.State = notifier.StateSent
			default:
			}
			return &n, nil
		}
	}
	return nil, &notifier.Error{Code: notifier.CodeNotFound, Message: "there is no such notification"}
}

func (f *fake) Notification(_ context.Context, tenant string, id notifier.ID) (*notifier.Notification, error) {
	return f.find(func(s *stored) bool { return s.n.Tenant == tenant && s.n.ID == id })
}

func (f *fake) ByKey(_ context.Context, tenant, key string) (*notifier.Notification, error) {
	return f.find(func(s *stored) bool { return s.n.Tenant == tenant && s.n.Key == key })
}

func (f *fake) Wait(ctx context.Context, _ string, _ notifier.ID) error {
	var err error
	select {
	case <-f.settled:
	case <-ctx.Done():
		err = ctx.Err()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.waited = err
	return err
}

func (f *fake) Ready(context.Context) ([]string, error) { return f.degraded, f.readyErr }

// service is a handler over a fake, with all that it logged and measured.
type service struct {
	*fake
	http.Handler
	log *bytes.Buffer
	reg *prometheus.Registry
}

func newService(change ...func(*Config)) *service {
	s := &service{fake: newFake(), log: &bytes.Buffer{}, reg: prometheus.NewRegistry()}
	cfg := Config{Accepter: s.fake, Reader: s.fake, Waiter: s.fake, Health: s.fake, Registerer: s.reg,
		Log: slog.New(slog.NewJSONHandler(s.log, &slog.HandlerOptions{Level: slog.LevelDebug}))}
	for _, c := range change {
		c(&cfg)
	}
	s.Handler = NewHandler(cfg)
	return s
}

// do serves one request: header lines follow as name and value in turn.
func (s *service) do(method, path, body string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, "http://localhost"+path, strings.NewReader(body))
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(headers); i += 2 {
		if headers[i] == "Host" {
			r.Host = headers[i+1]
			continue
		}
		r.Header.Add(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w
}

// problem is a problem document as a caller reads it.
type problem struct {
	Title, Code, Detail, Field, ID string
	Status                         int
	Differs                        []string
	Limit                          int
	RetryAfter                     int `json:"retry_after"`
}

// wantProblem checks status, media type, code and field of an answer.
func wantProblem(t *testing.T, w *httptest.ResponseRecorder, status int, code notifier.Code, field string) problem {
	t.Helper()
	var p problem
	if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil {
		t.Fatalf("read the problem %q: %v", w.Body, err)
	}
	if w.Code != status || p.Status != status || p.Code != string(code) || p.Field != field {
		t.Fatalf("got status %d (%d in the document), code %q, field %q; want %d, %q, %q: %s",
			w.Code, p.Status, p.Code, p.Field, status, code, field, w.Body)
	}
	if ct := w.Header().Get("Content-Type"); ct != "application/problem+json" {
		t.Errorf("got content type %q", ct)
	}
	if p.Title != http.StatusText(status) || p.Detail == "" {
		t.Errorf("got title %q, detail %q", p.Title, p.Detail)
	}
	return p
}

// wantNotification checks the status of an answer and reads its resource.
func wantNotification(t *testing.T, w *httptest.ResponseRecorder, status int) notifier.Notification {
	t.Helper()
	var n notifier.Notification
	if w.Code != status {
		t.Fatalf("got status %d, want %d: %s", w.Code, status, w.Body)
	}
	if err := json.Unmarshal(w.Body.Bytes(), &n); err != nil {
		t.Fatalf("read the notification %q: %v", w.Body, err)
	}
	return n
}

const shipped = `{"type":"order_shipped","recipient":"u_42","to":{"apns":[{"token":"740f1234567819e7"}]},"data":{"order_id":"42"}}`
