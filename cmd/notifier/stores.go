package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"github.com/seed-4b260dfd/notifier"
	"github.com/seed-4b260dfd/notifier/caps"
	"github.com/seed-4b260dfd/notifier/claims"
	"github.com/seed-4b260dfd/notifier/delivery"
	"github.com/seed-4b260dfd/notifier/ledger/postgres"
	"github.com/seed-4b260dfd/notifier/ledger/sqlite"
	pacing "github.com/seed-4b260dfd/notifier/rates"
	"github.com/seed-4b260dfd/notifier/redisaudit"
	"github.com/seed-4b260dfd/notifier/redisscript"
)

// stores are the ledger and what goes with it: a file and memory for one
// process, Postgres and Redis for any number of nodes.
type stores struct {
	ledger interface {
		delivery.Ledger
		Commits() int64
	}
	claims delivery.Claims
	caps   delivery.Caps
	rates  delivery.Rates
	// watched is Redis, for those who look after it; nil: there is none.
	watched delivery.Store
	// embedded says that this process is the only one.
	embedded bool
	// say logs which they are, once the node has all that it needs.
	say func(*slog.Logger)
	// roundTrips counts those to Redis; nil: there is none.
	roundTrips func() int64
	// audit says what about the servers weakens the promise; housekeep is done
	// once an hour. Nil: there is nothing to do.
	audit     func(context.Context, *slog.Logger)
	housekeep func(context.Context, *slog.Logger)
	close     []func() error
}

// openStores opens what the configuration names. Redis may be away: what it
// adds is then missing, and the service says so.
func (c *config) openStores(ctx context.Context) (*stores, error) {
	if c.ledger != "" {
		return c.openEmbedded(ctx)
	}
	l, err := postgres.Open(ctx, c.Ledger)
	if err != nil {
		return nil, c.withLedgerAdvice(err)
	}
	say := func(log *slog.Logger) {
		log.Info("many nodes may share the stores", "ledger", place(c.Ledger), "ledger_id", l.LedgerID(), "claims", place(c.Claims))
	}
	s := &stores{ledger: l, say: say, close: []func() error{func() error { l.Close(); return nil }}}
	client, err := redisscript.Open(c.Claims)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("claims: %w", err), s.Close())
	}
	s.close = append(s.close, client.Close)
	s.useRedis(client, l.LedgerID())
	s.audit = func(ctx context.Context, log *slog.Logger) { auditPostgres(ctx, l, log) }
	s.housekeep = func(ctx context.Context, log *slog.Logger) { dropOld(ctx, l, c.recordsKept, log) }
	return s, nil
}

// useRedis keeps claims and caps in Redis, under the ledger's id: a new ledger
// meets none of an older one's.
func (s *stores) useRedis(client redis.UniversalClient, ledgerID string) {
	runner := redisscript.NewRunner(client)
	s.claims, s.caps = claims.NewRedis(runner, ledgerID), caps.NewRedis(runner, ledgerID)
	s.rates = pacing.NewRedis(runner, ledgerID)
	s.watched = redisaudit.New(client, ledgerID)
	s.roundTrips = runner.RoundTrips
}

// openEmbedded opens the ledger's file, which belongs to this process from
// here on.
func (c *config) openEmbedded(ctx context.Context) (*stores, error) {
	l, err := sqlite.Open(ctx, c.ledger)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("%w: make the folder %s, or set another ledger in %s", err, filepath.Dir(c.ledger), configName)
	case err != nil:
		return nil, err
	}
	return &stores{say: func(log *slog.Logger) {
		log.Info("the ledger belongs to this process", "ledger", c.ledger, "claims", c.Claims)
	},
		ledger: l, claims: claims.NewMemory(), caps: caps.NewMemory(), rates: pacing.NewMemory(), embedded: true, close: []func() error{l.Close}}, nil
}

// withLedgerAdvice says in one line what to do about a Postgres that is not
// there: the driver's own error has one for each address that it tried.
func (c *config) withLedgerAdvice(err error) error {
	if errors.Is(err, syscall.ECONNREFUSED) {
		return fmt.Errorf("the ledger at %s: connection refused: start Postgres there, or set another ledger in %s", place(c.Ledger), configName)
	}
	return err
}

// place is where a URL leads: without user, password and options.
func place(url string) string {
	scheme, rest, _ := strings.Cut(url, "://")
	rest = rest[strings.LastIndex(rest, "@")+1:]
	rest, _, _ = strings.Cut(rest, "?")
	return scheme + "://" + rest
}

// sayRestored places the pause that keeps claim-first from sending again what
// a ledger which was put back to an older state does not know to have been
// sent. It is in force before the first lease, on every node, until a person
// resumes it. Placed again meanwhile it stays one.
func (s *stores) sayRestored(ctx context.Context, log *slog.Logger) error {
	p, err := s.ledger.Pause(ctx, notifier.Pause{Order: notifier.OrderClaimFirst, Cause: notifier.PauseRewound,
		Why: "started with -restored: the ledger may be older than what was sent", By: "serve -restored"})
	if err != nil {
		return fmt.Errorf("pause claim-first: %w", err)
	}
	log.Warn("every claim-first type is paused: look at what was sent since the backup, then resume", "pause", p.ID)
	return nil
}

// Close closes all, the last first.
func (s *stores) Close() error {
	var errs []error
	for i := len(s.close) - 1; i >= 0; i-- {
		errs = append(errs, s.close[i]())
	}
	return errors.Join(errs...)
}

// register counts what the stores are asked for.
func (s *stores) register(reg prometheus.Registerer) {
	reg.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "notifier_ledger_commits_total", Help: "Commits of the ledger that changed something."},
		func() float64 { return float64(s.ledger.Commits()) }))
	if s.roundTrips != nil {
		reg.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "notifier_redis_round_trips_total", Help: "Round trips to Redis for claims and caps."},
			func() float64 { return float64(s.roundTrips()) }))
	}
}

// keepHouse does now and then what must be done now and then, until ctx ends.
func (s *stores) keepHouse(ctx context.Context, log *slog.Logger) {
	if s.audit != nil {
		s.audit(ctx, log)
	}
	if s.housekeep == nil {
		return
	}
	tick := time.NewTicker(time.Hour)
	defer tick.Stop()
	for {
		s.housekeep(ctx, log)
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// auditPostgres logs what about the server weakens the promise.
func auditPostgres(ctx context.Context, l *postgres.Ledger, log *slog.Logger) {
	weak, err := l.Audit(ctx)
	if err != nil {
		log.Error("audit the ledger's server", "err", err)
	}
	for _, w := range weak {
		log.Warn("the ledger's server weakens the promise", "setting", w.Setting, "what", w.Text)
	}
}

// dropOld drops the records that are older than they are kept.
func dropOld(ctx context.Context, l *postgres.Ledger, keep time.Duration, log *slog.Logger) {
	dropped, err := l.Drop(ctx, keep)
	if err != nil && ctx.Err() == nil {
		log.Error("drop old records", "err", err)
	}
	if len(dropped) > 0 {
		log.Info("dropped old records", "tables", dropped)
	}
}
