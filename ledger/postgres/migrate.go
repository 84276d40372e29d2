package postgres

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

//go:embed schema/*.sql
var schema embed.FS

// ErrSchema says that the database's schema is not the one that this notifier
// was built for.
var ErrSchema = errors.New("the ledger's schema does not fit")

const versionTable = `CREATE TABLE IF NOT EXISTS schema_version (
	version int PRIMARY KEY, name text NOT NULL, applied_at timestamptz NOT NULL DEFAULT clock_timestamp())`

// Migrate runs the migrations that the database has not seen, each in a
// transaction of its own, and returns their names. Callers at the same time
// take turns; whoever comes second has nothing left to do.
func Migrate(ctx context.Context, url string) (applied []string, err error) {
	cfg, err := pgx.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("ledger: %w", redacted(err))
	}
	cfg.RuntimeParams["application_name"] = "notifier migrate"
	if cfg.ConnectTimeout == 0 || cfg.ConnectTimeout > connectTimeout {
		cfg.ConnectTimeout = connectTimeout
	}
	if cfg.ValidateConnect == nil {
		cfg.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsReadWrite
	}
	c, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("connect to the ledger at %s:%d: %w", cfg.Host, cfg.Port, err)
	}
	defer func() { err = errors.Join(err, c.Close(context.WithoutCancel(ctx))) }()
	// The lock goes with the connection, however this ends.
	if _, err := c.Exec(ctx, `SELECT pg_advisory_lock(hashtextextended('notifier migrations', 0))`); err != nil {
		return nil, fmt.Errorf("wait for another migration: %w", err)
	}
	names, err := fs.Glob(schema, "schema/*.sql")
	if err != nil {
		return nil, err
	}
	seen, err := version(ctx, c)
	switch {
	case err != nil:
		return nil, err
	case seen > len(names):
		return nil, tooNew(seen, len(names))
	case seen == len(names):
		return nil, nil // without the right to make tables too
	}
	if _, err := c.Exec(ctx, versionTable); err != nil {
		return nil, fmt.Errorf("make the table of versions: %w", err)
	}
	for i, name := range names[seen:] {
		if err := apply(ctx, c, seen+i+1, name); err != nil {
			return applied, fmt.Errorf("migrate with %s: %w", name, err)
		}
		applied = append(applied, name)
	}
	return applied, nil
}

// apply runs the statements of one embedded file.
func apply(ctx context.Context, c *pgx.Conn, version int, name string) error {
	text, err := schema.ReadFile(name)
	if err != nil {
		return err
	}
	return pgx.BeginFunc(ctx, c, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, string(text)); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, `INSERT INTO schema_version (version, name) VALUES ($1, $2)`, version, name)
		return err
	})
}

func version(ctx context.Context, db querier) (v int, err error) {
	err = db.QueryRow(ctx, `SELECT coalesce(max(version), 0) FROM schema_version`).Scan(&v)
	if sqlState(err) == undefinedTable {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("read the schema's version: %w", err)
	}
	return v, nil
}

// checkSchema refuses a database that is older or newer. A release runs on its
// own schema and on the next one, so that migrating may come before rolling.
func checkSchema(ctx context.Context, db *pgxpool.Pool) error {
	names, err := fs.Glob(schema, "schema/*.sql")
	if err != nil {
		return err
	}
	v, err := version(ctx, db)
	switch {
	case err != nil:
		return err
	case v < len(names):
		return fmt.Errorf(`%w: it is at version %d and this notifier needs %d: run "notifier migrate"`, ErrSchema, v, len(names))
	case v > len(names)+1:
		return tooNew(v, len(names))
	}
	return nil
}

func tooNew(have, know int) error {
	return fmt.Errorf("%w: it is at version %d and this notifier knows %d: run the newer one", ErrSchema, have, know)
}
