package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed-4b260dfd/notifier"
)

// outOptions is how answers are written: equal values as equal bytes.
var outOptions = json.JoinOptions(json.Deterministic(true), jsontext.AllowInvalidUTF8(true))

// page is the answer to a list.
type page struct {
	Notifications []*notifier.Notification `json:"notifications"`
	NextCursor    string                   `json:"next_cursor"`
}

// notification serves GET /v1/notifications/{id}. What is not an id of ours
// cannot be there.
func (h *handler) notification(w *recorder, r *http.Request) error {
	who, err := h.reader(r, nil, nil)
	if err != nil {
		return err
	}
	id, err := notifier.ParseID(strings.TrimPrefix(r.URL.Path, "/v1/notifications/"))
	if err != nil {
		return &notifier.Error{Code: notifier.CodeNotFound, Field: "id", Message: "there is no notification with this id", Err: err}
	}
	n, err := h.cfg.Reader.Notification(r.Context(), who.tenant, id)
	if err != nil {
		return missing(fmt.Errorf("read the notification %s: %w", id, err))
	}
	if err := who.mayType(n.Type); err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, n)
}

// missing names the id in the path as what was not found.
func missing(err error) error {
	var e *notifier.Error
	if !errors.As(err, &e) || e.Code != notifier.CodeNotFound || e.Field != "" {
		return err
	}
	return &notifier.Error{Code: e.Code, Field: "id", Message: e.Message, Details: e.Details, Err: err}
}

// list serves GET /v1/notifications, by key so far. A key that is not there
// gives an empty list.
func (h *handler) list(w *recorder, r *http.Request) error {
	who, err := h.reader(r, []string{"key"},
		[]string{"type", "state", "reason", "recipient", "fanout", "since", "until", "cursor", "limit"})
	if err != nil {
		return err
	}
	keys := r.URL.Query()["key"]
	if len(keys) != 1 {
		return &notifier.Error{Code: notifier.CodeInvalid, Field: "key", Message: "one parameter key is required: other searches are not supported yet"}
	}
	if err := notifier.CheckKey(keys[0]); err != nil {
		return err
	}
	out := page{}
	n, err := h.cfg.Reader.ByKey(r.Context(), who.tenant, keys[0])
	var e *notifier.Error
	switch {
	case errors.As(err, &e) && e.Code == notifier.CodeNotFound:
	case err != nil:
		return fmt.Errorf("read a notification by key: %w", err)
	case who.mayType(n.Type) == nil:
		out.Notifications = append(out.Notifications, n)
	}
	return writeJSON(w, http.StatusOK, &out)
}

// reader authenticates a read and checks its parameters.
func (h *handler) reader(r *http.Request, allowed, unsupported []string) (*caller, error) {
	who, err := h.authenticate(r)
	if err != nil {
		return nil, err
	}
	if err := who.may(ScopeRead); err != nil {
		return nil, err
	}
	return who, checkQuery(r, allowed, unsupported)
}

// checkQuery refuses parameters that are not allowed, the first by name.
func checkQuery(r *http.Request, allowed, unsupported []string) error {
	q, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return &notifier.Error{Code: notifier.CodeInvalid, Field: unreadable(r.URL.RawQuery), Err: err,
			Message: "the query cannot be read: name=value, with & between, and other characters as %XX"}
	}
	names := make([]string, 0, len(q))
	for name := range q {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		switch {
		case slices.Contains(allowed, name):
		case slices.Contains(unsupported, name):
			return &notifier.Error{Code: notifier.CodeUnsupportedField, Field: name, Message: "the parameter is not supported yet"}
		default:
			return &notifier.Error{Code: notifier.CodeUnknownField, Field: clip(name),
				Message: "there is no such parameter here; allowed: " + allowedList(allowed)}
		}
	}
	return nil
}

func allowedList(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}

// unreadable names the first parameter of a query that cannot be read.
func unreadable(query string) string {
	for pair := range strings.SplitSeq(query, "&") {
		name, _, _ := strings.Cut(pair, "=")
		if _, err := url.ParseQuery(pair); err == nil {
			continue
		}
		if plain, err := url.QueryUnescape(name); err == nil && plain != "" {
			return clip(plain)
		}
		break
	}
	return "query"
}

// writeJSON writes a resource. Lists that are nil are written as empty.
func writeJSON(w http.ResponseWriter, status int, v any) error {
	body, err := json.Marshal(v, outOptions)
	if err != nil {
		return fmt.Errorf("write the answer: %w", err)
	}
	write(w, status, "application/json", body)
	return nil
}

// healthz says that the process answers.
func (h *handler) healthz(w *recorder, _ *http.Request) error {
	return writeJSON(w, http.StatusOK, map[string]string{"status": "ok"})
}

// readiness is the answer of /readyz while a notification can be accepted.
type readiness struct {
	Status   string   `json:"status"`
	Degraded []string `json:"degraded"`
}

// readyz says whether a notification can be accepted.
func (h *handler) readyz(w *recorder, r *http.Request) error {
	select {
	case <-h.cfg.Draining:
		return &notifier.Error{Code: notifier.CodeOverloaded, Message: "the server is shutting down"}
	default:
	}
	ready := readiness{Status: "ready"}
	if h.cfg.Health == nil {
		return writeJSON(w, http.StatusOK, &ready)
	}
	ctx, cancel := context.WithTimeout(r.Context(), readyTimeout)
	defer cancel()
	degraded, err := h.cfg.Health.Ready(ctx)
	if err != nil {
		return notReady(err)
	}
	ready.Degraded = degraded
	return writeJSON(w, http.StatusOK, &ready)
}

// notReady is a 503 whatever err is.
func notReady(err error) error {
	e := asError(err)
	if status, _ := StatusOf(e.Code); status == http.StatusServiceUnavailable {
		return err
	}
	out := &notifier.Error{Code: notifier.CodeLedgerUnavailable, Message: "no notification can be accepted now", Err: err}
	if e.Code != notifier.CodeInternal {
		out.Message = e.Message
	}
	return out
}

// metrics serves /metrics. They span tenants, so that with keys it takes one
// with the scope operate.
func (h *handler) metrics(w *recorder, r *http.Request) error {
	if h.cfg.Metrics == nil {
		return &notifier.Error{Code: notifier.CodeNotFound, Field: "path", Message: "metrics are not served here"}
	}
	who, err := h.authenticate(r)
	if err != nil {
		return err
	}
	if err := who.may(ScopeOperate); err != nil {
		return err
	}
	h.cfg.Metrics.ServeHTTP(w, r)
	return nil
}
