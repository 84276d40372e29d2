package api

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/seed-4b260dfd/notifier"
)

// handler serves all paths. It has no mux: there are few paths, and a mux
// answers unclean ones with a redirect of its own.
type handler struct {
	cfg    Config
	log    *slog.Logger
	open   bool // no keys: loopback only
	locks  []lock
	slots  chan struct{}
	waits  chan struct{}
	accept prometheus.Histogram
}

// NewHandler returns the API over cfg. It panics when Accepter or Reader is
// missing, or when Registerer has its metrics already.
func NewHandler(cfg Config) http.Handler {
	if cfg.Accepter == nil || cfg.Reader == nil {
		panic("api: Config needs an Accepter and a Reader")
	}
	h := &handler{
		cfg:   cfg,
		log:   cfg.Log,
		open:  len(cfg.Keys) == 0,
		locks: locks(cfg.Keys),
		slots: make(chan struct{}, maxInFlight),
		waits: make(chan struct{}, maxWaits),
		accept: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "notifier_accept_seconds",
			Help:    "Time from a request's whole body to its commit, of requests that were accepted or recognised as repeats.",
			Buckets: []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10},
		}),
	}
	if h.log == nil {
		h.log = slog.Default()
	}
	if cfg.Registerer != nil {
		cfg.Registerer.MustRegister(h.accept)
	}
	return h
}

// target is a path that is served: its name in logs, what serves it, and with
// which methods.
type target struct {
	name    string
	methods []string
	serve   func(*handler, *recorder, *http.Request) error
	// limited paths count against the requests in flight.
	limited bool
}

// route returns the target of a path. One that is not served has a nil serve.
func route(path string) target {
	read := []string{http.MethodGet, http.MethodHead}
	switch path {
	case "/v1/notifications":
		return target{path, []string{http.MethodGet, http.MethodHead, http.MethodPost}, (*handler).notifications, true}
	case "/v1/pauses":
		return target{path, []string{http.MethodGet, http.MethodHead, http.MethodPost}, (*handler).pauses, true}
	case "/v1/suppressions":
		return target{path, []string{http.MethodGet, http.MethodHead, http.MethodPost}, (*handler).suppressions, true}
	case "/healthz":
		return target{path, read, (*handler).healthz, false}
	case "/readyz":
		return target{path, read, (*handler).readyz, false}
	case "/metrics":
		return target{path, read, (*handler).metrics, false}
	}
	if id, ok := strings.CutPrefix(path, "/v1/notifications/"); ok && id != "" && !strings.Contains(id, "/") {
		return target{"/v1/notifications/{id}", read, (*handler).notification, true}
	}
	if id, ok := strings.CutPrefix(path, pausePath); ok && id != "" && !strings.Contains(id, "/") {
		return target{pausePath + "{id}", []string{http.MethodDelete}, (*handler).resume, true}
	}
	if id, ok := strings.CutPrefix(path, suppressionPath); ok && id != "" && !strings.Contains(id, "/") {
		return target{suppressionPath + "{id}", []string{http.MethodDelete}, (*handler).unsuppress, true}
	}
	return target{name: "none"}
}

// ServeHTTP answers one request. Whatever goes wrong is answered with a
// problem document, a panic included.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	start, t := time.Now(), route(r.URL.Path)
	rec := &recorder{ResponseWriter: w}
	peer := peerOf(r)
	peer.is(stageBusy)
	defer peer.is(stageWaiting)
	defer rec.done()
	defer func() {
		if p := recover(); p != nil {
			h.recovered(rec, r, p)
		}
		h.log.LogAttrs(r.Context(), slog.LevelDebug, "request",
			slog.String("method", r.Method), slog.String("route", t.name),
			slog.Int("status", rec.status), slog.Duration("took", time.Since(start)))
	}()
	if err := h.serve(rec, r, t); err != nil {
		h.fail(rec, r, err)
	}
}

func (h *handler) serve(w *recorder, r *http.Request, t target) error {
	if err := h.checkHost(r); err != nil {
		return err
	}
	if t.serve == nil {
		return &notifier.Error{Code: notifier.CodeNotFound, Field: "path",
			Message: "there is nothing at this path; there are /v1/notifications, /v1/pauses, /v1/suppressions, /healthz, /readyz and /metrics"}
	}
	if !slices.Contains(t.methods, r.Method) {
		w.Header().Set("Allow", strings.Join(t.methods, ", "))
		writeProblem(w, http.StatusMethodNotAllowed, &notifier.Error{Code: notifier.CodeInvalid, Field: "method",
			Message: "this path is served with " + strings.Join(t.methods, ", ")})
		return nil
	}
	// A request with a body is not worked on before that is there: readBody
	// takes its slot then.
	if t.limited && r.Method != http.MethodPost {
		if err := h.enter(w); err != nil {
			return err
		}
	}
	return t.serve(h, w, r)
}

// enter takes a slot, until the request has been answered.
func (h *handler) enter(w *recorder) error {
	select {
	case h.slots <- struct{}{}:
	default:
		return overloaded("too many requests at once")
	}
	w.leave = func() { <-h.slots }
	return nil
}

func overloaded(message string) error {
	return &notifier.Error{Code: notifier.CodeOverloaded, Message: message, Details: map[string]any{DetailRetryAfter: time.Second}}
}

func (h *handler) notifications(w *recorder, r *http.Request) error {
	if r.Method == http.MethodPost {
		return h.post(w, r)
	}
	return h.list(w, r)
}

// recovered answers a request whose handler panicked. The value of the panic
// may hold a caller's data, so that only the runtime's own are logged.
func (h *handler) recovered(rec *recorder, r *http.Request, p any) {
	err, isErr := p.(error)
	if isErr && errors.Is(err, http.ErrAbortHandler) {
		panic(p)
	}
	what := fmt.Sprintf("a %T", p)
	var fault runtime.Error
	if isErr && errors.As(err, &fault) {
		what = fault.Error()
	}
	h.log.LogAttrs(r.Context(), slog.LevelError, "a handler panicked",
		slog.String("route", route(r.URL.Path).name), slog.String("panic", what), slog.String("stack", string(debug.Stack())))
	if rec.status == 0 {
		writeProblem(rec, http.StatusInternalServerError, asError(nil))
		return
	}
	// Half an answer must not look like a whole one.
	panic(http.ErrAbortHandler)
}

// recorder keeps the status that was sent; zero: none yet.
type recorder struct {
	http.ResponseWriter
	status int
	// leave gives the slot back; nil: none is held.
	leave func()
}

func (r *recorder) done() {
	if r.leave != nil {
		r.leave()
	}
}

// WriteHeader keeps the first final status.
func (r *recorder) WriteHeader(status int) {
	if r.status == 0 && status >= http.StatusOK {
		r.status = status
	}
	r.ResponseWriter.WriteHeader(status)
}

// Write sends a 200 first, if nothing was sent.
func (r *recorder) Write(b []byte) (int, error) {
	if r.status == 0 {
		r.status = http.StatusOK
	}
	return r.ResponseWriter.Write(b)
}

// Unwrap lets http.ResponseController reach the connection.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }
