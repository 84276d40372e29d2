package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// daysAhead is how many days have their partitions made before they come.
const daysAhead = 7

const (
	partitionsEvery = time.Hour
	// trimSlice is how many old keys are forgotten at a time, and trimSlices how
	// many times in a row while there are that many: ten thousand a second.
	trimEvery  = 5 * time.Second
	trimSlice  = 5000
	trimSlices = 10
)

// housekeep is what is done along with the sweeps: partitions are made ahead,
// old keys forgotten, and deliveries that a pause has let go are made due.
func (l *Ledger) housekeep(ctx context.Context) error {
	now := time.Now()
	if l.clock != nil {
		now = l.clock()
	}
	if l.jobs.due("partitions", now, partitionsEvery) {
		if err := l.makePartitions(ctx); err != nil {
			return err
		}
	}
	if l.jobs.due("old keys", now, trimEvery) {
		if err := l.trimKeys(ctx); err != nil {
			return err
		}
	}
	return l.release(ctx)
}

// makePartitions sees to it that there is a partition for every id that an
// accept can make in the coming week, and for yesterday's, whose accepts may
// still be under way.
func (l *Ledger) makePartitions(ctx context.Context) error {
	now, err := l.readNow(ctx)
	if err != nil {
		return err
	}
	today := now.UTC().Truncate(24 * time.Hour)
	const make = `SELECT make_partitions($1::date, $2::date)`
	if _, err := l.reads.Exec(ctx, make, today.AddDate(0, 0, -1), today.AddDate(0, 0, daysAhead)); err != nil {
		return fmt.Errorf("make the partitions ahead: %w", err)
	}
	return nil
}

// Drop drops the partitions of whole days that ended longer than keep ago, but
// for days of which a delivery is not finished or a key is remembered. It
// returns their names. Of several nodes that drop at once, one does the work.
// A table that is in use for long is left to the next time.
func (l *Ledger) Drop(ctx context.Context, keep time.Duration) (dropped []string, err error) {
	const day = `SELECT drop_partitions($1::date)`
	now, err := l.readNow(ctx)
	if err != nil {
		return nil, err
	}
	before := now.Add(-keep).UTC().Truncate(24 * time.Hour)
	for {
		rows, err := l.reads.Query(ctx, day, before)
		if err != nil {
			return dropped, fmt.Errorf("drop old partitions: %w", err)
		}
		names, err := pgx.CollectRows(rows, pgx.RowTo[string])
		switch {
		case sqlState(err) == lockUnavailable || sqlState(err) == deadlock:
			return dropped, nil
		case err != nil:
			return dropped, fmt.Errorf("drop old partitions: %w", err)
		case len(names) == 0:
			return dropped, nil
		}
		dropped = append(dropped, names...)
	}
}

// trimKeys forgets keys that have had their time and of whose notification
// nothing waits. A key past its time is harmless (Accept looks at the time),
// so that it may stay for a while. The keys go in slices, each a short
// transaction; of several nodes each takes the rows that no other has locked.
func (l *Ledger) trimKeys(ctx context.Context) error {
	const trim = `DELETE FROM idem WHERE (tenant, key, nid) IN (
		SELECT i.tenant, i.key, i.nid FROM idem i WHERE i.keep_until <= $1
			AND NOT EXISTS (SELECT 1 FROM later r WHERE r.nid = i.nid)
			AND NOT EXISTS (SELECT 1 FROM delivery d JOIN q ON q.lane = d.lane AND q.nid = d.nid AND q.ch = d.ch WHERE d.nid = i.nid)
		LIMIT $2 FOR UPDATE OF i SKIP LOCKED)`
	now, err := l.readNow(ctx)
	if err != nil {
		return err
	}
	for range trimSlices {
		tag, err := l.reads.Exec(ctx, trim, now, trimSlice)
		if err != nil {
			return fmt.Errorf("forget old keys: %w", err)
		}
		if tag.RowsAffected() < trimSlice {
			return nil
		}
	}
	return nil
}

// readNow asks what time it is.
func (l *Ledger) readNow(ctx context.Context) (now time.Time, err error) {
	if l.clock != nil {
		return l.clock(), nil
	}
	if err := l.reads.QueryRow(ctx, `SELECT clock_timestamp()`).Scan(&now); err != nil {
		return now, fmt.Errorf("ask the ledger for the time: %w", err)
	}
	return now.UTC(), nil
}
