package postgres

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5"
)

// mark is a commit of the ledger's by which it can be recognised. Commits are
// durable in the order in which they were made: a ledger that has this one has
// all that were acknowledged before it was given out. That covers what was
// sent as well as what was accepted, which the newest id would not.
type mark struct {
	// timeline is the server's, for people: it grows with each promotion.
	timeline int64
	// resumed is when a person last said that the ledger is to be gone on with
	// as it is, in Unix microseconds. Marks from before that bind no more.
	resumed int64
	// n counts the marks, and token tells two of the same number apart: one of
	// them was given out by a ledger that has been put back since.
	n, token int64
}

// recentMarks is how many tokens the ledger keeps. An older mark is taken by
// its number alone: a store that was put back itself may have such a one.
const recentMarks = 16

func (m mark) String() string {
	return fmt.Sprintf("%d.%d.%d.%d", m.timeline, m.resumed, m.n, m.token)
}

func parseMark(s string) (m mark, err error) {
	parts := strings.Split(s, ".")
	to := []*int64{&m.timeline, &m.resumed, &m.n, &m.token}
	if len(parts) != len(to) {
		return mark{}, fmt.Errorf("the mark %q is not one of ours", s)
	}
	for i, p := range parts {
		if *to[i], err = strconv.ParseInt(p, 10, 64); err != nil {
			return mark{}, fmt.Errorf("the mark %q is not one of ours", s)
		}
	}
	return m, nil
}

// given is the last mark that this process had of the ledger, and how many
// commits it had made by then.
type given struct {
	mu      sync.Mutex
	n       int64
	commits int64
}

// covers reports whether nothing of this process is newer than a mark.
func (g *given) covers(m mark, commits int64) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return m.n >= g.n && g.n > 0 && commits == g.commits
}

func (g *given) take(m mark, commits int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.n, g.commits = m.n, commits
}

// Mark reports whether the ledger has the commit that gave out a mark, or a
// pause with the cause ledger_rewound was resumed since that, and gives out a
// new mark then. Where this process has committed nothing since was, that is
// given back, and nothing written. Without was a mark is given out for the first
// time. Any number of nodes may share the marks: each of theirs is the ledger's.
func (l *Ledger) Mark(ctx context.Context, was string) (is string, known bool, err error) {
	const (
		resumed = `(SELECT coalesce((extract(epoch FROM max(p.resumed_at)) * 1000000)::bigint, 0) FROM pause p WHERE p.cause = 'ledger_rewound')`
		// $1 is the mark's resumed, $2 its number, $3 its token.
		knows = `m.one AND ($2::bigint = 0 OR ` + resumed + ` > $1::bigint OR ` + resumed + ` = $1 AND m.n >= $2
			AND (m.n - $2 >= $4::int OR m.recent[m.n - $2 + 1] = $3::bigint))`
		look = `SELECT m.n FROM mark m WHERE ` + knows
		give = `UPDATE mark m SET n = m.n + 1, recent = ($5::bigint || m.recent)[1:$4] WHERE ` + knows + ` RETURNING m.n, ` + resumed + `,
			('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::int`
	)
	var old mark
	if was != "" {
		if old, err = parseMark(was); err != nil {
			return "", false, err
		}
	}
	commits, fresh := l.commits.Load(), mark{token: rand.Int64()}
	if was != "" && l.given.covers(old, commits) {
		is = was
		err = l.hot.QueryRow(ctx, look, old.resumed, old.n, old.token, recentMarks).Scan(new(int64))
	} else {
		err = l.hot.QueryRow(ctx, give, old.resumed, old.n, old.token, recentMarks, fresh.token).Scan(&fresh.n, &fresh.resumed, &fresh.timeline)
		is = fresh.String()
	}
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return "", false, nil
	case err != nil:
		return "", false, fmt.Errorf("mark the ledger: %w", err)
	}
	if is != was {
		l.given.take(fresh, commits)
	}
	return is, true, nil
}

// Used reports whether anything that was accepted is still known: a ledger in
// which there is nothing is a new one, or was not used for as long as its
// records are kept.
func (l *Ledger) Used(ctx context.Context) (used bool, err error) {
	if err := l.reads.QueryRow(ctx, `SELECT EXISTS (SELECT 1 FROM notification)`).Scan(&used); err != nil {
		return false, fmt.Errorf("look whether the ledger is used: %w", err)
	}
	return used, nil
}
