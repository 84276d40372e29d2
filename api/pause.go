package api

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"
	"unicode"

	"github.com/seed-4b260dfd/notifier"
)

// Pauser places, ends and lists pauses. Both writes may be said again: the same
// pause is placed once, and ended once.
type Pauser interface {
	Pause(ctx context.Context, p notifier.Pause) (notifier.Pause, error)
	// Resume ends a pause; by and why are kept with it.
	Resume(ctx context.Context, id, by, why string) (notifier.Pause, error)
	Pauses(ctx context.Context) ([]notifier.Pause, error)
	// PausesEnded lists those that have ended since a time, the last first.
	PausesEnded(ctx context.Context, since time.Time) ([]notifier.Pause, error)
}

// endedFor is how far back the pauses that have ended are listed.
const endedFor = 30 * 24 * time.Hour

// The bounds of a pause, in bytes.
const (
	maxTenant = 128
	maxWhy    = 1024
)

const pausePath = "/v1/pauses/"

// pauses serves GET and POST /v1/pauses.
func (h *handler) pauses(w *recorder, r *http.Request) error {
	who, err := h.operator(r)
	if err != nil {
		return err
	}
	if r.Method == http.MethodPost {
		if err := checkQuery(r, nil, nil); err != nil {
			return err
		}
		return h.pause(w, r, who)
	}
	if err := checkQuery(r, []string{"ended"}, nil); err != nil {
		return err
	}
	list, err := h.listPauses(r)
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, map[string][]notifier.Pause{"pauses": list})
}

// listPauses lists the pauses in force; with ended=true those that have ended
// instead, of the last thirty days.
func (h *handler) listPauses(r *http.Request) (list []notifier.Pause, err error) {
	switch ended := strings.Join(r.URL.Query()["ended"], " "); ended {
	case "", "false":
		list, err = h.cfg.Pauser.Pauses(r.Context())
	case "true":
		list, err = h.cfg.Pauser.PausesEnded(r.Context(), time.Now().Add(-endedFor))
	default:
		return nil, &notifier.Error{Code: notifier.CodeInvalid, Field: "ended", Message: "is true or false"}
	}
	if err != nil {
		return nil, fmt.Errorf("list the pauses: %w", err)
	}
	return list, nil
}

// operator authenticates a caller that may operate. Pauses span tenants, as
// metrics do; a key for some types may pause and resume those alone.
func (h *handler) operator(r *http.Request) (*caller, error) {
	if h.cfg.Pauser == nil {
		return nil, &notifier.Error{Code: notifier.CodeNotFound, Field: "path", Message: "pauses are not served here"}
	}
	who, err := h.authenticate(r)
	if err != nil {
		return nil, err
	}
	return who, who.may(ScopeOperate)
}

func (h *handler) pause(w *recorder, r *http.Request, who *caller) error {
	body, err := h.readBody(w, r)
	if err != nil {
		return err
	}
	p, err := parsePause(body)
	if err != nil {
		return err
	}
	if err := who.mayType(p.Type); err != nil {
		return err
	}
	p.Cause, p.By = notifier.PauseOperator, who.name
	placed, err := h.cfg.Pauser.Pause(r.Context(), p)
	if err != nil {
		return fmt.Errorf("place a pause: %w", err)
	}
	w.Header().Set("Location", pausePath+placed.ID)
	return writeJSON(w, http.StatusOK, &placed)
}

// parsePause reads the body of POST /v1/pauses.
func parsePause(body []byte) (notifier.Pause, error) {
	var p notifier.Pause
	d := newDecoder(body)
	err := d.members(func(name string) error {
		switch name {
		case "type":
			return d.text(&p.Type, maxType)
		case "channel":
			return d.text((*string)(&p.Channel), maxLabel)
		case "account":
			return d.text(&p.Account, maxLabel)
		case "tenant":
			return d.text(&p.Tenant, maxTenant)
		case "until":
			return d.time(&p.Until)
		case "why":
			return d.text(&p.Why, maxWhy)
		case "fanout":
			if d.null() {
				return nil
			}
			return d.fault(notifier.CodeUnsupportedField, "fanout is not supported yet; leave it out")
		default:
			return d.fault(notifier.CodeUnknownField, "there is no such field; allowed are type, channel, account, tenant, until, why")
		}
	})
	if err != nil {
		return p, err
	}
	return p, d.end()
}

// resume serves DELETE /v1/pauses/{id}.
func (h *handler) resume(w *recorder, r *http.Request) error {
	who, err := h.operator(r)
	if err != nil {
		return err
	}
	if err := checkQuery(r, []string{"why"}, nil); err != nil {
		return err
	}
	why := strings.Join(r.URL.Query()["why"], "; ")
	if len(why) > maxWhy || strings.ContainsFunc(why, unicode.IsControl) {
		return &notifier.Error{Code: notifier.CodeInvalid, Field: "why", Message: fmt.Sprintf("has at most %d bytes and no control characters", maxWhy)}
	}
	id := strings.TrimPrefix(r.URL.Path, pausePath)
	if err := h.mayResume(r.Context(), who, id); err != nil {
		return err
	}
	ended, err := h.cfg.Pauser.Resume(r.Context(), id, who.name, why)
	if err != nil {
		return missing(fmt.Errorf("resume: %w", err))
	}
	return writeJSON(w, http.StatusOK, &ended)
}

// mayResume holds a key for some types to the pauses of those types.
func (h *handler) mayResume(ctx context.Context, who *caller, id string) error {
	if len(who.types) == 0 {
		return nil
	}
	list, err := h.cfg.Pauser.Pauses(ctx)
	if err != nil {
		return fmt.Errorf("list the pauses: %w", err)
	}
	for i := range list {
		if list[i].ID == id {
			return who.mayType(list[i].Type)
		}
	}
	return nil // it is over, or there is none
}
