package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"runtime/debug"
	"sync"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/seed-4b260dfd/notifier/api"
	"github.com/seed-4b260dfd/notifier/delivery"
	"github.com/seed-4b260dfd/notifier/ledger/postgres"
)

// requestDrain is how long requests under way at the end are given.
const requestDrain = 10 * time.Second

// gcPercent lets the heap grow to five times what is alive, some tens of
// megabytes, before it is collected: what is alive is small, and what each
// notification leaves behind is not.
const gcPercent = 400

// serve is the service, from its flags to its end. A process that is killed
// anywhere in here leaves a ledger that the next one goes on from.
func (c command) serve(ctx context.Context, p *process, args []string) (err error) {
	f := c.flags()
	var from projectFlags
	from.define(f, false)
	migrates := f.Bool("migrate", false, "bring the schema of a Postgres ledger up to this version first")
	restored := f.Bool("restored", false, "the ledger was put back to an older state: keep claim-first paused until a person resumes it")
	if _, err := c.parse(p, f, args); err != nil {
		return err
	}

	// Configuration, policies and templates, each by itself and together.
	pr, err := from.load(p.getenv)
	if err != nil {
		return err
	}
	if err := pr.unusable(); err != nil {
		return err
	}
	log := pr.logger(p.stderr)
	if p.stderr == io.Writer(os.Stderr) {
		// What libraries print by package log (net/http does of connections that
		// speak unasked) goes the same way; this process has no other logger.
		slog.SetDefault(log)
	}
	if p.getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	for _, warning := range pr.problems {
		log.Warn(warning.Message, slog.String("at", warning.Place()))
	}

	if *migrates && pr.ledger == "" {
		applied, err := postgres.Migrate(ctx, pr.Ledger)
		if err != nil {
			return pr.withLedgerAdvice(err)
		}
		log.Info("the schema is this version's", "applied", applied)
	}

	// The ledger, claims and caps.
	stores, err := pr.openStores(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stores.Close()) }()
	if *restored {
		if err := stores.sayRestored(ctx, log); err != nil {
			return err
		}
	}

	accounts, closeAccounts, err := pr.Channels.openAccounts()
	if err != nil {
		return err
	}
	defer closeAccounts()

	metrics := prometheus.NewRegistry()
	metrics.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	stores.register(metrics)
	engine, err := delivery.New(delivery.Config{
		Ledger:     stores.ledger,
		Claims:     stores.claims,
		Caps:       stores.caps,
		Rates:      stores.rates,
		Store:      stores.watched,
		Policies:   pr.policies,
		Templates:  pr.templates,
		Kinds:      pr.Channels.kinds(),
		Accounts:   accounts,
		SoleOwner:  stores.embedded,
		Registerer: metrics,
		Log:        log,
	})
	if err != nil {
		return fmt.Errorf("make the engine: %w", err)
	}

	listener, err := net.Listen("tcp", pr.Listen.HTTP)
	if err != nil {
		return withPortAdvice(err, "stop the other process, or set another listen.http in "+configName)
	}
	stores.say(log)
	log.Info("this process holds its leases under a name of its own", "owner", string(engine.Owner()))
	draining := make(chan struct{})
	server := api.NewServer(pr.Listen.HTTP, api.NewHandler(api.Config{
		Accepter:   engine,
		Reader:     engine,
		Pauser:     engine,
		Suppressor: engine,
		Waiter:     engine,
		Health:     engine,
		Metrics:    promhttp.HandlerFor(metrics, promhttp.HandlerOpts{}),
		Registerer: metrics,
		Keys:       pr.APIKeys,
		Log:        log,
		Draining:   draining,
	}))
	server.ErrorLog = slog.NewLogLogger(log.Handler(), slog.LevelWarn)
	housekeeping, stopHousekeeping := context.WithCancel(ctx)
	var house sync.WaitGroup
	house.Go(func() { stores.keepHouse(housekeeping, log) })
	defer house.Wait()
	defer stopHousekeeping()
	s := &service{engine: engine, server: server, listener: listener, draining: draining, log: log}
	return s.run(ctx, p.stdout)
}

// service is what runs once everything is open.
type service struct {
	engine   *delivery.Engine
	server   *http.Server
	listener net.Listener
	draining chan struct{}
	log      *slog.Logger
}

// run serves until ctx ends or a part fails, then drains: no new requests,
// then no new attempts, then the outcomes of those under way.
func (s *service) run(ctx context.Context, stdout io.Writer) error {
	// The engine outlives ctx: requests that are being answered need it.
	engineCtx, stopEngine := context.WithCancel(context.WithoutCancel(ctx))
	defer stopEngine()
	engineEnd, serverEnd := make(chan error, 1), make(chan error, 1)
	go func() { engineEnd <- s.engine.Run(engineCtx) }()
	go func() { serverEnd <- s.server.Serve(api.Listen(s.listener)) }()
	var announcing sync.WaitGroup
	announcing.Go(func() { s.announce(ctx, stdout) })
	defer announcing.Wait() // it ends with draining

	var failed error
	select {
	case <-ctx.Done():
		s.log.Info("draining")
	case err := <-engineEnd:
		failed = fmt.Errorf("run the engine: %w", err)
		engineEnd <- nil
	case err := <-serverEnd:
		failed = fmt.Errorf("serve %s: %w", s.listener.Addr(), err)
		serverEnd <- nil
	}

	close(s.draining)
	shut, cancel := context.WithTimeout(context.WithoutCancel(ctx), requestDrain)
	defer cancel()
	if err := s.server.Shutdown(shut); err != nil {
		// What is cut off here has no answer; its caller asks again by its key.
		s.log.Warn("requests were cut off at the end", slog.Any("error", err))
		_ = s.server.Close()
	}
	if err := <-serverEnd; err != nil && !errors.Is(err, http.ErrServerClosed) {
		failed = errors.Join(failed, err)
	}
	stopEngine()
	// An engine that was still starting up has not got to do anything.
	if err := <-engineEnd; err != nil && !errors.Is(err, context.Canceled) {
		failed = errors.Join(failed, fmt.Errorf("end the engine: %w", err))
	}
	return failed
}

// announce prints the one line that says that notifications are accepted.
// Before that /readyz says why not.
func (s *service) announce(ctx context.Context, stdout io.Writer) {
	look := time.NewTicker(5 * time.Millisecond)
	defer look.Stop()
	for {
		if _, err := s.engine.Ready(ctx); err == nil {
			fmt.Fprintf(stdout, "listening on http://%s\n", s.listener.Addr())
			return
		}
		select {
		case <-look.C:
		case <-s.draining:
			return
		}
	}
}

// withPortAdvice adds what to do when an address is taken.
func withPortAdvice(err error, advice string) error {
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("%w: %s", err, advice)
	}
	return err
}

// logger writes what the configuration asks for. Addresses redact themselves;
// content and data are never logged.
func (c *config) logger(w io.Writer) *slog.Logger {
	level, err := c.logLevel()
	if err != nil {
		level = slog.LevelInfo // the check has refused it
	}
	o := &slog.HandlerOptions{Level: level}
	if c.Log.Format == "text" {
		return slog.New(slog.NewTextHandler(w, o))
	}
	return slog.New(slog.NewJSONHandler(w, o))
}
