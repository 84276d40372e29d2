// Package api is the HTTP surface: it authenticates callers, reads requests
// strictly, hands them to an Accepter and shows what a Reader knows.
//
// A 202 or 200 to a POST follows the commit. A 4xx says that nothing was
// stored and the key is free; a 5xx, or no answer, that the request may have
// been stored: the same key, sent again, tells. Every error is a problem
// document (RFC 9457) whose code is one of notifier.Code.
//
// The package decides nothing about policies, templates or delivery. It opens
// no listener: NewServer has the limits, its caller serves and shuts down.
package api

import (
	"context"
	"log/slog"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/seed-4b260dfd/notifier"
)

// DefaultTenant is every caller's tenant while there are no API keys.
const DefaultTenant = "default"

// Accepter takes requests in. When it returns without error the request is
// durable; an error that is not an *notifier.Error of a 4xx code leaves open
// whether it is.
type Accepter interface {
	Accept(ctx context.Context, req notifier.Request) (notifier.Accepted, error)
}

// Reader shows a tenant's notifications. What is not there, or is another
// tenant's, is an *notifier.Error with CodeNotFound.
type Reader interface {
	Notification(ctx context.Context, tenant string, id notifier.ID) (*notifier.Notification, error)
	ByKey(ctx context.Context, tenant, key string) (*notifier.Notification, error)
}

// Waiter blocks until every delivery of a notification is finished, or ctx ends.
type Waiter interface {
	Wait(ctx context.Context, tenant string, id notifier.ID) error
}

// Health says whether a notification can be accepted now, and what is degraded
// meanwhile. The message of an *notifier.Error is shown to callers; any other
// error is logged only.
type Health interface {
	Ready(ctx context.Context) (degraded []string, err error)
}

// Config is what a handler is made of. Accepter and Reader are required.
type Config struct {
	Accepter Accepter
	Reader   Reader
	// Waiter serves "Prefer: wait"; nil: the preference is not applied.
	Waiter Waiter
	// Health serves /readyz; nil: always ready.
	Health Health
	// Pauser serves /v1/pauses; nil: not found.
	Pauser Pauser
	// Suppressor serves /v1/suppressions; nil: not found.
	Suppressor Suppressor
	// Metrics serves /metrics; nil: not found.
	Metrics http.Handler
	// Registerer takes the handler's own metrics; nil: they are kept nowhere.
	Registerer prometheus.Registerer
	// Keys are the credentials. None: only loopback hosts are served, and
	// every caller is DefaultTenant.
	Keys []Key
	// Log gets one line per fault. Nil: slog.Default.
	Log *slog.Logger
	// Draining, when closed, ends waits at once and turns /readyz to 503.
	// Nil: never.
	Draining <-chan struct{}
}
