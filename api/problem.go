package api

import (
	"errors"
	"log/slog"
	"maps"
	"net/http"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/seed-4b260dfd/notifier"
)

// DetailRetryAfter is the member of notifier.Error.Details that says when the
// caller may come back, as a time.Duration. It is sent as the header
// Retry-After (RFC 9110 section 10.2.3) and, in seconds, in the problem document.
const DetailRetryAfter = "retry_after"

// Again says whether a request that was answered with an error may be sent
// again with the same key.
type Again uint8

const (
	// AgainNo says that another copy meets the same answer.
	AgainNo Again = iota + 1
	// AgainCorrected says that nothing was stored: the key is free for a
	// corrected request.
	AgainCorrected
	// AgainLater says that the same request should come after Retry-After.
	AgainLater
	// AgainSame says that the request may have been stored, and that the same
	// request with the same key will tell.
	AgainSame
	// AgainBug says that the key stands for another request: the caller's
	// keys are not unique.
	AgainBug
)

// StatusOf is the one table from code to status. A code that it does not know
// is a fault of ours: 500.
func StatusOf(code notifier.Code) (status int, again Again) {
	switch code {
	case notifier.CodeKeyRequired, notifier.CodeInvalid, notifier.CodeUnknownField,
		notifier.CodeUnsupportedField, notifier.CodeUnknownType, notifier.CodeDataMissing,
		notifier.CodeTemplateFailed, notifier.CodeNoAddress:
		return http.StatusBadRequest, AgainCorrected
	case notifier.CodeUnauthenticated:
		return http.StatusUnauthorized, AgainNo
	case notifier.CodeForbidden:
		return http.StatusForbidden, AgainNo
	case notifier.CodeNotFound:
		return http.StatusNotFound, AgainNo
	case notifier.CodeStateConflict, notifier.CodeVersionConflict:
		return http.StatusConflict, AgainNo
	case notifier.CodeRequestTooLarge, notifier.CodePayloadTooLarge:
		return http.StatusRequestEntityTooLarge, AgainCorrected
	case notifier.CodeKeyReused:
		return http.StatusUnprocessableEntity, AgainBug
	case notifier.CodeRateLimited:
		return http.StatusTooManyRequests, AgainLater
	case notifier.CodeInternal:
		return http.StatusInternalServerError, AgainSame
	case notifier.CodeLedgerUnavailable, notifier.CodeOverloaded, notifier.CodeKeyBusy:
		return http.StatusServiceUnavailable, AgainSame
	}
	return http.StatusInternalServerError, AgainSame
}

// fail answers with the problem that err is. The cause goes to the log, and
// never to the caller.
func (h *handler) fail(w http.ResponseWriter, r *http.Request, err error) {
	e := asError(err)
	status, again := StatusOf(e.Code)
	if status >= http.StatusInternalServerError && r.Context().Err() == nil {
		h.log.LogAttrs(r.Context(), levelOf(e.Code), "answer a request",
			slog.String("method", r.Method), slog.String("route", route(r.URL.Path).name),
			slog.String("code", string(e.Code)), slog.Any("error", err))
	}
	if e.Code == notifier.CodeUnauthenticated {
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	if after, ok := retryAfter(e.Details); ok && (again == AgainLater || again == AgainSame) {
		w.Header().Set("Retry-After", strconv.FormatInt(after, 10))
	}
	writeProblem(w, status, e)
}

// levelOf keeps a flood of requests from becoming a flood of lines.
func levelOf(code notifier.Code) slog.Level {
	if code == notifier.CodeOverloaded || code == notifier.CodeKeyBusy {
		return slog.LevelDebug
	}
	return slog.LevelError
}

// asError returns the *notifier.Error to answer with: that of err, or an
// internal error that says nothing.
func asError(err error) *notifier.Error {
	var e *notifier.Error
	if errors.As(err, &e) && e.Code != notifier.CodeInternal {
		return e
	}
	return &notifier.Error{Code: notifier.CodeInternal,
		Message: "the server failed; the same request, with the same key, may be sent again"}
}

// retryAfter is the wait in Details in whole seconds, rounded up.
func retryAfter(details map[string]any) (seconds int64, ok bool) {
	d, ok := details[DetailRetryAfter].(time.Duration)
	if !ok || d < 0 {
		return 0, false
	}
	return int64((d + time.Second - 1) / time.Second), true
}

// writeProblem writes an RFC 9457 document.
func writeProblem(w http.ResponseWriter, status int, e *notifier.Error) {
	write(w, status, "application/problem+json", problemDocument(status, e))
}

// problemDocument is the document. Its type is about:blank, which is left out;
// the code is what programs branch on.
func problemDocument(status int, e *notifier.Error) []byte {
	core := map[string]any{"title": http.StatusText(status), "status": status, "code": string(e.Code), "detail": e.Message}
	if e.Field != "" {
		core["field"] = e.Field
	}
	doc := maps.Clone(e.Details)
	if doc == nil {
		doc = map[string]any{}
	}
	if after, ok := retryAfter(e.Details); ok {
		doc[DetailRetryAfter] = after
	}
	delete(doc, "field")
	maps.Copy(doc, core)
	body, err := json.Marshal(doc, outOptions)
	if err != nil {
		// A detail that JSON has no form for: the rest still says what is wrong.
		body, _ = json.Marshal(core, outOptions)
	}
	return body
}

// write sends a whole answer. An error here means that the caller is gone.
func write(w http.ResponseWriter, status int, contentType string, body []byte) {
	hd := w.Header()
	hd.Set("Content-Type", contentType)
	hd.Set("Content-Length", strconv.Itoa(len(body)))
	hd.Set("Cache-Control", "no-store")
	hd.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = w.Write(body)
}
