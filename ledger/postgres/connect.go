package postgres

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

const (
	hotConnections  = 8
	readConnections = 4
)

// hotSettings are those of the connections of the transitions.
var hotSettings = map[string]string{
	// Statistics that were taken while the queue was empty talk the planner
	// into reading all of it, once per row: minutes instead of microseconds.
	// Every statement here has an index to go by, so the other ways are closed.
	"enable_seqscan":    "off",
	"enable_bitmapscan": "off",
	"enable_mergejoin":  "off",
	// One plan for good: planning these statements costs more than running
	// them, and a plan that changes under load is the fault one cannot test for.
	"plan_cache_mode": "force_generic_plan",
	"jit":             "off",
	// An accept that hangs holds its id back; the sweeper of what turns up
	// behind the watermark relies on this bound (see lateCommit).
	"statement_timeout": "5s",
	"lock_timeout":      "1s",
	// A client that died in a transaction keeps dead rows alive for everybody.
	"idle_in_transaction_session_timeout": "5s",
	"synchronous_commit":                  "on",
	"application_name":                    "notifier",
	"timezone":                            "UTC",
}

// readSettings are those of the connections that people's questions use.
var readSettings = map[string]string{
	"jit":                                 "off",
	"statement_timeout":                   "5s",
	"idle_in_transaction_session_timeout": "5s",
	"application_name":                    "notifier read",
	"timezone":                            "UTC",
}

// connect opens a pool. A setting that the URL names itself wins, but for
// synchronous_commit: the promise rests on it.
func connect(ctx context.Context, address string, settings map[string]string, connections int32,
	met func(context.Context, *pgx.Conn) error) (*pgxpool.Pool, error) {
	cfg, err := pgxpool.ParseConfig(address)
	if err != nil {
		return nil, fmt.Errorf("ledger: %w", redacted(err))
	}
	for name, value := range settings {
		if _, named := cfg.ConnConfig.RuntimeParams[name]; !named || name == "synchronous_commit" {
			cfg.ConnConfig.RuntimeParams[name] = value
		}
	}
	if u, err := url.Parse(address); err != nil || !u.Query().Has("pool_max_conns") {
		cfg.MaxConns = connections
	}
	if cfg.ConnConfig.ConnectTimeout == 0 || cfg.ConnConfig.ConnectTimeout > connectTimeout {
		cfg.ConnConfig.ConnectTimeout = connectTimeout
	}
	cfg.MinIdleConns = 1
	cfg.AfterConnect = met
	cfg.HealthCheckPeriod = 5 * time.Second
	// A standby takes no writes: of several hosts the primary is meant.
	if cfg.ConnConfig.ValidateConnect == nil {
		cfg.ConnConfig.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsReadWrite
	}
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("ledger: %w", err)
	}
	if err := pool.Ping(ctx); err != nil {
		pool.Close()
		return nil, fmt.Errorf("connect to the ledger at %s:%d: %w", cfg.ConnConfig.Host, cfg.ConnConfig.Port, err)
	}
	return pool, nil
}

// connectTimeout bounds one attempt to connect.
const connectTimeout = 3 * time.Second

// redacted keeps a connection string, and so a password, out of an error.
func redacted(err error) error {
	if parse := (*pgconn.ParseConfigError)(nil); errors.As(err, &parse) {
		return errors.New("the URL cannot be parsed: postgres://user:password@host:port/database is expected")
	}
	return err
}

// CheckURL says what is wrong with a URL, without connecting to it.
func CheckURL(url string) error {
	if _, err := pgxpool.ParseConfig(url); err != nil {
		return redacted(err)
	}
	return nil
}
