package api

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/seed-4b260dfd/notifier"
)

// post serves POST /v1/notifications. All that can be refused is refused
// before Accept; after it the request is stored, and no answer but a 2xx or a
// 5xx is given.
func (h *handler) post(w *recorder, r *http.Request) error {
	who, err := h.authenticate(r)
	if err != nil {
		return err
	}
	if err := who.may(ScopeSend); err != nil {
		return err
	}
	if err := checkQuery(r, nil, []string{"dry_run"}); err != nil {
		return err
	}
	body, err := h.readBody(w, r)
	if err != nil {
		return err
	}
	start := time.Now()
	req, err := request(r, body)
	if err != nil {
		return err
	}
	if err := who.mayType(req.Type); err != nil {
		return err
	}
	req.Tenant = who.tenant
	acc, err := h.cfg.Accepter.Accept(r.Context(), req)
	if err != nil {
		return err
	}
	h.accept.Observe(time.Since(start).Seconds())
	return h.answer(w, r, who.tenant, acc)
}

// answer shows what was accepted. From here on the request is stored: a
// notification that cannot be read is a fault, never the caller's.
func (h *handler) answer(w http.ResponseWriter, r *http.Request, tenant string, acc notifier.Accepted) error {
	n := acc.Fresh
	if waited := h.wait(w, r, tenant, acc.ID); waited || n == nil {
		var err error
		if n, err = h.read(r.Context(), tenant, acc.ID); err != nil {
			return err
		}
	}
	shown := *n
	shown.Ignored = acc.Ignored
	w.Header().Set("Location", "/v1/notifications/"+acc.ID.String())
	status := http.StatusAccepted
	if acc.Replayed {
		w.Header().Set("Idempotent-Replayed", "true")
		status = http.StatusOK
	}
	write(w, status, "application/json", appendNotification(make([]byte, 0, 1024), &shown))
	return nil
}

func (h *handler) read(ctx context.Context, tenant string, id notifier.ID) (*notifier.Notification, error) {
	n, err := h.cfg.Reader.Notification(ctx, tenant, id)
	if err == nil {
		return n, nil
	}
	err = fmt.Errorf("read the accepted notification %s: %w", id, err)
	if status, _ := StatusOf(asError(err).Code); status < http.StatusInternalServerError {
		return nil, &notifier.Error{Code: notifier.CodeInternal, Err: err}
	}
	return nil, err
}

// wait holds the answer as "Prefer: wait" asks, until all is settled, the time
// is over, or the server drains. A wait that cannot be had is not applied, and
// the missing Preference-Applied says so; wait reports whether it was.
func (h *handler) wait(w http.ResponseWriter, r *http.Request, tenant string, id notifier.ID) bool {
	d, ok := preferWait(r.Header)
	if !ok || h.cfg.Waiter == nil {
		return false
	}
	select {
	case h.waits <- struct{}{}:
		defer func() { <-h.waits }()
	default:
		return false
	}
	// The server's time-out for writing is for requests that do not wait. Tests
	// without a connection have no deadlines, hence the error dropped.
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(d + waitGrace))
	ctx, cancel := context.WithTimeout(r.Context(), d)
	defer cancel()
	go func() {
		select {
		case <-h.cfg.Draining:
			cancel()
		case <-ctx.Done():
		}
	}()
	if err := h.cfg.Waiter.Wait(ctx, tenant, id); err != nil && ctx.Err() == nil {
		h.log.LogAttrs(ctx, slog.LevelWarn, "wait for a notification", slog.String("id", id.String()), slog.Any("error", err))
	}
	w.Header().Set("Preference-Applied", "wait="+strconv.Itoa(int(d/time.Second)))
	return true
}

// request makes the request of a body and the header's key.
func request(r *http.Request, body []byte) (notifier.Request, error) {
	header, inHeader, err := headerKey(r.Header)
	if err != nil {
		return notifier.Request{}, err
	}
	p, err := parseRequest(body)
	if err != nil {
		return notifier.Request{}, err
	}
	p.req.Key, err = agree(header, inHeader, p.req.Key, p.keyed)
	return p.req, err
}

// readBody returns the body of a JSON request, whole. Only then the request has
// a slot: however many bodies are on their way, none waits for another's.
func (h *handler) readBody(w *recorder, r *http.Request) ([]byte, error) {
	if err := checkJSON(r.Header); err != nil {
		return nil, err
	}
	if r.ContentLength > maxBodyBytes {
		return nil, tooLarge()
	}
	peer := peerOf(r)
	peer.is(stageArriving)
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBodyBytes))
	peer.is(stageBusy)
	var over *http.MaxBytesError
	switch {
	case errors.As(err, &over):
		return nil, tooLarge()
	case err != nil && peer.wasCut():
		return nil, overloaded("too many bodies are on their way, and this one took longest")
	case err != nil:
		return nil, &notifier.Error{Code: notifier.CodeInvalid, Field: bodyField, Message: "the body did not arrive whole", Err: err}
	}
	return body, h.enter(w)
}

func tooLarge() error {
	return &notifier.Error{Code: notifier.CodeRequestTooLarge, Field: bodyField, Message: fmt.Sprintf("a body has at most %d bytes", maxBodyBytes),
		Details: map[string]any{"limit": maxBodyBytes}}
}

// checkJSON wants a body that is declared as JSON. A page in a browser cannot
// declare that across origins without asking first, and is not answered then.
func checkJSON(hd http.Header) error {
	wrong := func(field, message string) error {
		return &notifier.Error{Code: notifier.CodeInvalid, Field: field, Message: message}
	}
	if values := hd.Values("Content-Type"); len(values) > 1 {
		return wrong("Content-Type", "the header is there more than once")
	}
	media, params, err := mime.ParseMediaType(hd.Get("Content-Type"))
	if err != nil || media != "application/json" {
		return wrong("Content-Type", "send the body as Content-Type: application/json")
	}
	if cs, ok := params["charset"]; ok && !strings.EqualFold(cs, "utf-8") {
		return wrong("Content-Type", "JSON is UTF-8")
	}
	if enc := hd.Get("Content-Encoding"); enc != "" && !strings.EqualFold(enc, "identity") {
		return wrong("Content-Encoding", "send the body without a content encoding")
	}
	return nil
}
