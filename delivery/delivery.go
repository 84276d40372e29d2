// Package delivery is the engine: it accepts notifications, leases what is due,
// makes the attempts in the order that each type's policy chose, and writes
// down what they came to.
//
// What it promises, for as long as a commit that the ledger acknowledged
// survives: a claim-first delivery makes at most one request that may take
// effect; a send-first delivery makes at least one or the ledger says why it
// never will, and a further one only after an attempt whose outcome is unknown.
// It does not promise an order between deliveries.
//
// claim_first.go and send_first.go are the two orders, to be read side by side.
package delivery

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/seed-4b260dfd/notifier"
	"github.com/seed-4b260dfd/notifier/caps"
	"github.com/seed-4b260dfd/notifier/channels"
	"github.com/seed-4b260dfd/notifier/claims"
	"github.com/seed-4b260dfd/notifier/policy"
	"github.com/seed-4b260dfd/notifier/templates"
)

// Claims blocks concurrent duplicates cheaply and is the second witness. No
// safety of claim-first rests on it.
type Claims interface {
	Acquire(ctx context.Context, c claims.Claim, ttl time.Duration) (claims.Answer, error)
	Renew(ctx context.Context, c claims.Claim, ttl time.Duration) (bool, error)
	Release(ctx context.Context, c claims.Claim) error
	Settle(ctx context.Context, c claims.Claim, outcome string, ttl time.Duration) error
}

// Caps limits what may reach one recipient.
type Caps interface {
	Spend(ctx context.Context, unit, holder string, of []caps.Cap) (caps.Decision, error)
	Refund(ctx context.Context, unit, holder string, of []caps.Cap) error
	Fill(ctx context.Context, c caps.Cap, unit, holder string, at time.Time) error
}

// Ledger is all that the engine asks of a ledger.
type Ledger interface {
	Accepter
	Leaser
	Settler
	Sweeper
	Pauser
	Suppressor
	Finder
	Reader
	Prober
}

// Account is one channel's credentials, ready to send, and the limits of the
// calls that are made with them.
type Account struct {
	Channel channels.Channel
	// MaxInFlight is how many calls may be under way; zero: DefaultMaxInFlight.
	MaxInFlight int
	// MaxPerSecond is how many calls a second all processes together may begin,
	// by Config.Rates; zero: any number. It is the one limit that is not each
	// process's own.
	MaxPerSecond float64
	// RetryBudget is how many retries there may be for each first attempt of the
	// last minute, beside one a second that there always may; zero: any number.
	RetryBudget float64
	Breaker     Breaker
}

// DefaultMaxInFlight is an account's limit of concurrent calls when its
// configuration names none.
const DefaultMaxInFlight = 100

// Config is what an Engine is made of.
type Config struct {
	Ledger Ledger
	Claims Claims
	Caps   Caps
	// Rates spreads the calls of accounts with a MaxPerSecond, and is needed for
	// those alone.
	Rates Rates
	// Store is where Claims and Caps are, when other processes share it; else nil.
	Store     Store
	Policies  *policy.Set
	Templates *templates.Set
	Kinds     map[notifier.Channel]channels.Kind
	Accounts  map[notifier.Channel]map[string]Account
	// SoleOwner says that no other process can hold a lease of this ledger, so
	// that every lease found at the start is a dead one's.
	SoleOwner bool
	// Drain is how long calls may go on after Run's context has ended; zero: 20 s.
	Drain time.Duration
	// Registerer takes the metrics; nil: they are kept nowhere.
	Registerer prometheus.Registerer
	Log        *slog.Logger

	looks lookTimes
}

// Engine runs the deliveries of one process. Make it with New, start it with Run.
type Engine struct {
	cfg      Config
	owner    notifier.Owner
	log      *slog.Logger
	metrics  *metrics
	asserts  *assertions
	accounts map[accountKey]*account

	accepts   *batcher[notifier.Intent, notifier.Stored]
	permits   *batcher[notifier.Permit, bool]
	completes *batcher[notifier.Completion, notifier.Settled]
	returns   *batcher[notifier.Return, notifier.Settled]

	waiters waiters
	pauses  pauses
	// accepting is held by every Accept; draining begins when none is under way.
	accepting sync.RWMutex
	inFlight  sync.WaitGroup
	// started is set once the leases of the dead are swept and the caps filled.
	started  atomic.Bool
	draining atomic.Bool
	// unwritten counts the outcomes that the ledger has not taken yet. While
	// there is one, nothing new is leased: a send whose outcome cannot be
	// written is one that will be repeated, or lost.
	unwritten atomic.Int64
	// orphans are the accounts that deliveries wait for in vain.
	orphans atomic.Pointer[[]string]
	// store is how claims and caps answer, and rebuilding is set while the caps
	// are being filled from the ledger: they would say yes too often.
	store      storeHealth
	rebuilding atomic.Bool
	watch      watch
	// fills counts how often the caps were filled anew, and debts are what the
	// store was not there to hear.
	fills atomic.Int64
	debts debts
	// misset says that the store is set in a way that weakens it, and blindUntil
	// how long it does not remember what was sent before it lost its data.
	misset     atomic.Bool
	blindUntil atomic.Int64
	health     *health
	// calls is cancelled when draining has taken too long.
	calls     context.Context
	stopCalls context.CancelFunc
}

type accountKey struct {
	channel notifier.Channel
	name    string
}

// ledgerTimeout bounds one write to the ledger. It is generous, and never that
// of the provider call: a write given up early has often happened all the same.
const ledgerTimeout = 10 * time.Second

// Batch sizes. permitBatch is also how many permits of one account may be ahead
// of their calls, however slowly those find a connection: a crash makes at most
// as many unknowns, beside the calls on the wire. Acceptance takes turns with
// the rest: in much larger batches it fills the queue faster than the permits
// empty it.
//
// A ledger that is shared between nodes is asked over a network, by statements
// that cost what a dozen rows do: there acceptance takes what it gets, and
// batches linger.
const (
	acceptBatch       = 32
	sharedAcceptBatch = 128
	permitBatch       = 32
	completeBatch     = 128
	linger            = 2 * time.Millisecond
	permitLinger      = time.Millisecond
)

// New makes an engine. It starts nothing.
func New(cfg Config) (*Engine, error) {
	if cfg.looks == (lookTimes{}) {
		cfg.looks = lookTimes{lookAfter, lookAgain, lookEvery}
	}
	if cfg.Drain == 0 {
		cfg.Drain = 20 * time.Second
	}
	if cfg.Registerer == nil {
		cfg.Registerer = prometheus.NewRegistry()
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	e := &Engine{
		cfg:      cfg,
		owner:    notifier.Owner(rand.Text()),
		log:      cfg.Log,
		accounts: map[accountKey]*account{},
		health:   newHealth(cfg.Ledger, cfg.SoleOwner),
	}
	var err error
	if e.metrics, err = newMetrics(cfg.Registerer, e); err != nil {
		return nil, fmt.Errorf("register the metrics: %w", err)
	}
	if err := e.pauses.register(cfg.Registerer); err != nil {
		return nil, fmt.Errorf("register the metrics: %w", err)
	}
	if err := e.registerStore(cfg.Registerer); err != nil {
		return nil, err
	}
	e.asserts = &assertions{failed: e.metrics.assertionsFailed, log: e.log}
	e.calls, e.stopCalls = context.WithCancel(context.Background())
	for ch, byName := range cfg.Accounts {
		for name, a := range byName {
			if a.MaxPerSecond > 0 && cfg.Rates == nil {
				return nil, fmt.Errorf("the account %s.%s has a limit of calls a second, and there is nothing that keeps it", ch, name)
			}
			e.accounts[accountKey{ch, name}] = newAccount(ch, name, a)
		}
	}
	e.batchWrites()
	return e, nil
}

// batchWrites makes the batchers. What they learn of the ledger, health learns.
func (e *Engine) batchWrites() {
	e.accepts = newBatcher(acceptBatch, func(ctx context.Context, in []notifier.Intent) ([]notifier.Stored, error) {
		stored, err := e.cfg.Ledger.Accept(ctx, in)
		e.health.note(err)
		return stored, err
	})
	e.permits = newBatcher(permitBatch, func(ctx context.Context, p []notifier.Permit) ([]bool, error) {
		may, err := authorise(ctx, e.cfg.Ledger, e.owner, p)
		e.health.doubt(err)
		return may, err
	})
	e.completes = newBatcher(completeBatch, func(ctx context.Context, c []notifier.Completion) ([]notifier.Settled, error) {
		settled, err := e.cfg.Ledger.Complete(ctx, e.owner, c)
		e.health.doubt(err)
		return settled, err
	})
	e.returns = newBatcher(completeBatch, func(ctx context.Context, r []notifier.Return) ([]notifier.Settled, error) {
		settled, err := e.cfg.Ledger.Return(ctx, e.owner, r)
		e.health.doubt(err)
		return settled, err
	})
	// A permit is never asked for again: an answer that was lost counts as no.
	e.accepts.split, e.completes.split, e.returns.split = true, true, true
	if !e.cfg.SoleOwner {
		e.accepts.max = sharedAcceptBatch
		e.accepts.linger, e.permits.linger, e.completes.linger, e.returns.linger = linger, permitLinger, linger, linger
	}
}

// Run closes what dead owners left, fills the caps, and delivers until ctx
// ends. Then it drains: it leases no more, hands back what has no permit, lets
// calls end for Config.Drain, and writes their outcomes. It returns an error
// only when the ledger cannot be read at the start.
func (e *Engine) Run(ctx context.Context) error {
	var batchers sync.WaitGroup
	stopBatchers := make(chan struct{})
	for _, run := range []func(<-chan struct{}){e.accepts.run, e.permits.run, e.completes.run, e.returns.run} {
		batchers.Go(func() { run(stopBatchers) })
	}
	defer batchers.Wait()
	defer close(stopBatchers)

	if err := e.askForPauses(ctx); err != nil {
		return fmt.Errorf("ask for the pauses: %w", err)
	}
	if err := e.watchStore(ctx); err != nil {
		return fmt.Errorf("look whether the ledger is the one it was: %w", err)
	}
	if err := e.recover(ctx); err != nil {
		return fmt.Errorf("recover the ledger: %w", err)
	}
	var loops sync.WaitGroup
	// A ledger that takes none now may later: Ready says so until then.
	if err := e.health.try(ctx); err != nil && ctx.Err() == nil {
		e.log.Error("try whether the ledger takes writes", "err", err)
	}
	loops.Go(func() { e.healthLoop(ctx) })
	loops.Go(func() { e.sweepLoop(ctx) })
	loops.Go(func() { e.pauseLoop(ctx) })
	loops.Go(func() { e.pollLoop(ctx) })
	loops.Go(func() { e.storeLoop(ctx) })
	loops.Go(func() { e.debtLoop(ctx) })
	loops.Go(func() { e.lookLoop(ctx) })
	for _, a := range e.accounts {
		loops.Go(func() { e.dispatch(ctx, a) })
	}
	e.started.Store(true)
	<-ctx.Done()
	e.accepting.Lock()
	e.draining.Store(true)
	e.accepting.Unlock()
	loops.Wait()
	e.drain()
	return nil
}

// drain waits for the attempts under way. Those that outlast Config.Drain are
// cut off: their outcomes are unknown, and written as that by their holder.
func (e *Engine) drain() {
	cut := time.AfterFunc(e.cfg.Drain, e.stopCalls)
	defer cut.Stop()
	e.inFlight.Wait()
	e.stopCalls()
}

// Ready reports what is degraded, or an *notifier.Error while nothing can be
// accepted.
func (e *Engine) Ready(context.Context) ([]string, error) {
	switch {
	case e.draining.Load():
		return nil, &notifier.Error{Code: notifier.CodeOverloaded, Message: "the server is shutting down"}
	case !e.started.Load():
		return nil, &notifier.Error{Code: notifier.CodeOverloaded, Message: "the server is starting"}
	case !e.health.writable():
		return nil, &notifier.Error{Code: notifier.CodeLedgerUnavailable, Message: "the ledger takes no writes"}
	}
	return e.degraded(), nil
}

// write runs a ledger write on a context of its own, since what it records has
// happened whether or not anybody still waits for it.
func write() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), ledgerTimeout)
}

// Owner is under what name this process holds its leases: the worker of its
// attempts.
func (e *Engine) Owner() notifier.Owner { return e.owner }

// Unwritten is how many outcomes the ledger has not taken yet.
func (e *Engine) Unwritten() int64 { return e.unwritten.Load() }
