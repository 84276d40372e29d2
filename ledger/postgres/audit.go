package postgres

import (
	"context"
	"fmt"
	"time"
)

// Weakness is a setting of the server that takes something from the promise.
type Weakness struct {
	// Setting is its name, as the server has it.
	Setting string
	// Text says what part of the promise it weakens, and what to do.
	Text string
}

// clockTolerance is by how much the clocks of a node and of the database may
// differ before it is worth a word: expiry is looked at by both.
const clockTolerance = 2 * time.Second

// Audit asks the server how it is set, and returns what weakens the promise.
func (l *Ledger) Audit(ctx context.Context) ([]Weakness, error) {
	const settings = `SELECT current_setting('fsync'), current_setting('full_page_writes'), current_setting('synchronous_commit'),
		current_setting('synchronous_standby_names'), (SELECT count(*) FROM pg_stat_replication), current_setting('server_version_num')::int, clock_timestamp()`
	var (
		fsync, pages, commit, standbys string
		replicas, version              int
		now                            time.Time
	)
	began := time.Now()
	err := l.hot.QueryRow(ctx, settings).Scan(&fsync, &pages, &commit, &standbys, &replicas, &version, &now)
	if err != nil {
		return nil, fmt.Errorf("ask how the ledger's server is set: %w", err)
	}
	off := now.Sub(began.Add(time.Since(began) / 2)).Abs()
	var out []Weakness
	add := func(wrong bool, setting, format string, args ...any) {
		if wrong {
			out = append(out, Weakness{setting, fmt.Sprintf(format, args...)})
		}
	}
	add(fsync != "on", "fsync", "a crash of the machine may lose commits that were acknowledged: claim_first may then send twice; set fsync = on")
	add(pages != "on", "full_page_writes", "a crash of the machine may corrupt pages; set full_page_writes = on")
	add(commit == "off" || commit == "local" && standbys != "", "synchronous_commit",
		"commits are acknowledged before they are safe: claim_first may send twice after a failover; set synchronous_commit = on")
	add(replicas > 0 && standbys == "", "synchronous_standby_names",
		"there are %d standbys and none is synchronous: one that is promoted may lack commits that were acknowledged; name one here, or promote none", replicas)
	add(version < oldestVersion, "server_version_num", "version %d is older than any that this was tested with (%d)", version, oldestVersion)
	add(off > clockTolerance, "clock", "its clock and this machine's differ by %s: what expires may be sent too late or not at all; run a time service on both", off.Round(time.Millisecond))
	return out, nil
}

// oldestVersion is the oldest server that the statements were measured on.
const oldestVersion = 150000
