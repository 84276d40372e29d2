package api

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"unicode"

	"github.com/seed-4b260dfd/notifier"
)

// Suppressor places, undoes and lists suppressions of a tenant. Both writes may
// be said again: the same suppression is placed once, and undone once.
type Suppressor interface {
	Suppress(ctx context.Context, s notifier.Suppression) (notifier.Suppression, error)
	// Unsuppress undoes one; by and why are kept with it.
	Unsuppress(ctx context.Context, tenant, id, by, why string) (notifier.Suppression, error)
	// Suppressions lists those in force, the newest first, at most f.Limit.
	Suppressions(ctx context.Context, f notifier.SuppressionFilter) ([]notifier.Suppression, error)
}

const suppressionPath = "/v1/suppressions/"

// The bounds of a list.
const (
	defaultLimit = 50
	maxLimit     = 500
)

// The bounds of a suppression, in bytes. An address is as long as a request may
// have it: a token of FCM's is the longest.
const (
	maxSuppressed = maxRegistration
	maxEvidence   = 1024
)

// suppression is a suppression as callers read it: its address redacted, as
// everywhere, since the address of a device or a browser is a secret.
type suppression struct {
	*notifier.Suppression
	Address string `json:"address,omitempty"`
}

func shownSuppression(s *notifier.Suppression) suppression {
	out := suppression{Suppression: s}
	if s.Address.Value != "" {
		out.Address = s.Address.String()
	}
	return out
}

// suppressions serves GET and POST /v1/suppressions.
func (h *handler) suppressions(w *recorder, r *http.Request) error {
	who, err := h.suppressor(r)
	if err != nil {
		return err
	}
	if r.Method == http.MethodPost {
		if err := checkQuery(r, nil, nil); err != nil {
			return err
		}
		return h.suppress(w, r, who)
	}
	if err := checkQuery(r, []string{"recipient", "address", "channel", "type", "cause", "cursor", "limit"}, nil); err != nil {
		return err
	}
	f, err := suppressionFilter(r)
	if err != nil {
		return err
	}
	f.Tenant = who.tenant
	limit := f.Limit
	f.Limit++ // one more tells whether the list goes on
	list, err := h.cfg.Suppressor.Suppressions(r.Context(), f)
	if err != nil {
		return fmt.Errorf("list the suppressions: %w", err)
	}
	page := struct {
		Suppressions []suppression `json:"suppressions"`
		NextCursor   string        `json:"next_cursor"`
	}{}
	if len(list) > limit {
		list = list[:limit]
		page.NextCursor = list[limit-1].ID
	}
	for i := range list {
		page.Suppressions = append(page.Suppressions, shownSuppression(&list[i]))
	}
	return writeJSON(w, http.StatusOK, &page)
}

// suppressor authenticates a caller that may operate. Unlike pauses,
// suppressions are the caller's tenant's own.
func (h *handler) suppressor(r *http.Request) (*caller, error) {
	if h.cfg.Suppressor == nil {
		return nil, &notifier.Error{Code: notifier.CodeNotFound, Field: "path", Message: "suppressions are not served here"}
	}
	who, err := h.authenticate(r)
	if err != nil {
		return nil, err
	}
	return who, who.may(ScopeOperate)
}

// suppressionFilter reads the parameters of a list. An address is given whole.
func suppressionFilter(r *http.Request) (f notifier.SuppressionFilter, err error) {
	q := r.URL.Query()
	wrong := func(field, message string) (notifier.SuppressionFilter, error) {
		return f, &notifier.Error{Code: notifier.CodeInvalid, Field: field, Message: message}
	}
	for name, values := range q {
		if len(values) > 1 {
			return wrong(name, "is there more than once; give it once")
		}
	}
	f = notifier.SuppressionFilter{
		Recipient: q.Get("recipient"), Address: q.Get("address"), Channel: notifier.Channel(q.Get("channel")), Type: q.Get("type"),
		Cause: notifier.SuppressionCause(q.Get("cause")), Before: q.Get("cursor"), Limit: defaultLimit,
	}
	switch {
	case f.Recipient != "" && f.Address != "":
		return wrong("address", "a suppression is about one of address, recipient")
	case f.Channel != "" && !oneOf(notifier.Channels[:], f.Channel):
		return wrong("channel", "is one of "+listed(notifier.Channels[:]))
	case f.Cause != "" && !oneOf(notifier.SuppressionCauses[:], f.Cause):
		return wrong("cause", "is one of "+listed(notifier.SuppressionCauses[:]))
	case f.Before != "" && !strings.HasPrefix(f.Before, notifier.SuppressionPrefix):
		return wrong("cursor", "is the next_cursor of the page before")
	}
	if said := q.Get("limit"); said != "" {
		if f.Limit, err = strconv.Atoi(said); err != nil || f.Limit < 1 || f.Limit > maxLimit {
			return wrong("limit", fmt.Sprintf("is a number from 1 to %d", maxLimit))
		}
	}
	return f, nil
}

func oneOf[S ~string](all []S, s S) bool {
	for _, one := range all {
		if one == s {
			return true
		}
	}
	return false
}

func listed[S ~string](all []S) string {
	out := make([]string, len(all))
	for i, s := range all {
		out[i] = string(s)
	}
	return strings.Join(out, ", ")
}

func (h *handler) suppress(w *recorder, r *http.Request, who *caller) error {
	body, err := h.readBody(w, r)
	if err != nil {
		return err
	}
	s, err := parseSuppression(body)
	if err != nil {
		return err
	}
	if err := who.mayType(s.Type); err != nil {
		return err
	}
	s.Tenant, s.By = who.tenant, who.name
	placed, err := h.cfg.Suppressor.Suppress(r.Context(), s)
	if err != nil {
		return fmt.Errorf("place a suppression: %w", err)
	}
	w.Header().Set("Location", suppressionPath+placed.ID)
	return writeJSON(w, http.StatusOK, shownSuppression(&placed))
}

// parseSuppression reads the body of POST /v1/suppressions.
func parseSuppression(body []byte) (notifier.Suppression, error) {
	var s notifier.Suppression
	d := newDecoder(body)
	err := d.members(func(name string) error {
		switch name {
		case "address":
			return d.text(&s.Address.Value, maxSuppressed)
		case "recipient":
			return d.text(&s.Recipient, maxRecipient)
		case "channel":
			return d.text((*string)(&s.Channel), maxLabel)
		case "type":
			return d.text(&s.Type, maxType)
		case "cause":
			return d.text((*string)(&s.Cause), maxLabel)
		case "evidence":
			return d.text(&s.Evidence, maxEvidence)
		default:
			return d.fault(notifier.CodeUnknownField, "there is no such field; allowed are address, recipient, channel, type, cause, evidence")
		}
	})
	if err != nil {
		return s, err
	}
	return s, d.end()
}

// unsuppress serves DELETE /v1/suppressions/{id}.
func (h *handler) unsuppress(w *recorder, r *http.Request) error {
	who, err := h.suppressor(r)
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
	id := strings.TrimPrefix(r.URL.Path, suppressionPath)
	if err := h.mayUnsuppress(r.Context(), who, id); err != nil {
		return err
	}
	ended, err := h.cfg.Suppressor.Unsuppress(r.Context(), who.tenant, id, who.name, why)
	if err != nil {
		return missing(fmt.Errorf("undo a suppression: %w", err))
	}
	return writeJSON(w, http.StatusOK, shownSuppression(&ended))
}

// mayUnsuppress holds a key for some types to the suppressions of those types.
func (h *handler) mayUnsuppress(ctx context.Context, who *caller, id string) error {
	if len(who.types) == 0 {
		return nil
	}
	// The newest that is not after this one is this one, if it is in force.
	list, err := h.cfg.Suppressor.Suppressions(ctx, notifier.SuppressionFilter{Tenant: who.tenant, Before: id + "0", Limit: 1})
	if err != nil {
		return fmt.Errorf("look for the suppression: %w", err)
	}
	if len(list) == 1 && list[0].ID == id {
		return who.mayType(list[0].Type)
	}
	return nil // it is over, or there is none
}
