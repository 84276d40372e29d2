package main

import (
	"context"
	"fmt"

	"github.com/seed-4b260dfd/notifier/ledger/postgres"
)

// migrate brings the ledger's schema up to this version. Any number may do it
// at once: one does, the others find nothing left to do.
func (c command) migrate(ctx context.Context, p *process, args []string) error {
	f := c.flags()
	var from projectFlags
	from.define(f, false)
	if _, err := c.parse(p, f, args); err != nil {
		return err
	}
	cfg, problems, err := loadConfig(from.config, wasSet(f, "config"), p.getenv)
	if err != nil {
		return err
	}
	for _, problem := range problems {
		if !problem.Warning {
			return fmt.Errorf("%s", problem)
		}
	}
	if cfg.ledger != "" {
		fmt.Fprintln(p.stdout, "nothing to do: serve migrates a SQLite ledger by itself")
		return nil
	}
	applied, err := postgres.Migrate(ctx, cfg.Ledger)
	for _, name := range applied {
		fmt.Fprintf(p.stdout, "applied %s\n", name)
	}
	if err != nil {
		return cfg.withLedgerAdvice(err)
	}
	if len(applied) == 0 {
		fmt.Fprintln(p.stdout, "nothing to do: the schema is this version's")
	}
	return nil
}
