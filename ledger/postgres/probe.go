package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// probeSQL inserts what an accept does, but for the queue row: a full disk and
// a server that takes no writes refuse the one as they refuse the other.
const probeSQL = `WITH t AS MATERIALIZED (SELECT ` + sqlNow + ` AS now),
	s AS MATERIALIZED (SELECT now, (lpad(to_hex((extract(epoch FROM now) * 1000)::bigint), 12, '0') || $2::text)::uuid AS nid FROM t),
	i AS (INSERT INTO idem (tenant, key, nid, keep_until) SELECT '', $2, nid, now FROM s),
	n AS (INSERT INTO notification (nid, accepted_at, policy, deliveries, tenant, key, recipient, fingerprint, parts)
		SELECT nid, now, 0, 1, '', $2, '', '', '' FROM s)
	INSERT INTO delivery (nid, send_at, ch, terms, lane, caps, address, effect_key) SELECT nid, now, 0, 0, 0, '', '', '' FROM s`

// Probe makes the rows of a notification, takes them back and commits, to see
// whether the server takes writes and acknowledges them: the commit waits for
// the log, and for the standby where one has to have it, although nothing is
// left to see. It is none that Commits counts.
func (l *Ledger) Probe(ctx context.Context) error {
	_, tails := l.minter.tails(1)
	err := l.probe(ctx, tails[0])
	if sqlState(err) == checkViolation {
		// The machine slept past the days that were made ahead.
		if err := l.makePartitions(ctx); err != nil {
			return err
		}
		err = l.probe(ctx, tails[0])
	}
	if err != nil {
		return fmt.Errorf("try to write: %w", err)
	}
	return nil
}

var errTakenBack = errors.New("it was only to be tried")

func (l *Ledger) probe(ctx context.Context, tail string) error {
	return pgx.BeginFunc(ctx, l.hot, func(tx pgx.Tx) error {
		// Within a savepoint: a transaction that is rolled back whole waits for nothing.
		err := pgx.BeginFunc(ctx, tx, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, probeSQL, l.now(), tail); err != nil {
				return err
			}
			return errTakenBack
		})
		if errors.Is(err, errTakenBack) {
			return nil
		}
		return err
	})
}
