package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/seed-4b260dfd/notifier"
	"github.com/seed-4b260dfd/notifier/ledger"
)

// epoch is a time for ids that are given one later.
var epoch = time.Unix(0, 0)

// words are the rows of lane, terms and policy that this process has seen, both ways:
// few rows that every delivery refers to by number. They never change.
type words struct {
	mu         sync.Mutex
	lanes      map[notifier.Lane]int16
	laneOf     map[int16]notifier.Lane
	terms      map[string]int32
	termsOf    map[int32]notifier.Terms
	policies   map[policyWords]int32
	policiesOf map[int32]policyWords
	// bodies remembers the stored form of terms, so that an acceptance encodes none.
	bodies map[termsKey]string
}

// termsKey is Terms without its caps, which differ from recipient to recipient.
type termsKey struct {
	lease, sendTimeout, tombstone time.Duration
	unknown                       notifier.UnknownRule
	retry                         notifier.Retry
	redisDown                     notifier.RedisDownRule
}

func newWords() words {
	return words{
		lanes: make(map[notifier.Lane]int16), laneOf: make(map[int16]notifier.Lane),
		terms: make(map[string]int32), termsOf: make(map[int32]notifier.Terms), bodies: make(map[termsKey]string),
		policies: make(map[policyWords]int32), policiesOf: make(map[int32]policyWords),
	}
}

// laneID returns a lane's number, and makes one where there is none.
func (w *words) laneID(ctx context.Context, db *pgxpool.Pool, l notifier.Lane) (int16, error) {
	const (
		insert = `INSERT INTO lane (channel, account, priority) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING`
		find   = `SELECT id FROM lane WHERE channel = $1 AND account = $2 AND priority = $3`
	)
	w.mu.Lock()
	id, ok := w.lanes[l]
	w.mu.Unlock()
	if ok {
		return id, nil
	}
	if _, err := db.Exec(ctx, insert, l.Channel, l.Account, l.Priority); err != nil {
		return 0, fmt.Errorf("store lane %v: %w", l, err)
	}
	if err := db.QueryRow(ctx, find, l.Channel, l.Account, l.Priority).Scan(&id); err != nil {
		return 0, fmt.Errorf("find lane %v: %w", l, err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lanes[l], w.laneOf[id] = id, l
	return id, nil
}

// termsID returns the number of terms, and makes one where there is none.
func (w *words) termsID(ctx context.Context, db *pgxpool.Pool, t notifier.Terms) (int32, error) {
	const (
		insert = `INSERT INTO terms (body) VALUES ($1) ON CONFLICT DO NOTHING`
		find   = `SELECT id FROM terms WHERE body = $1`
	)
	t.Caps = nil
	k := termsKey{t.Lease, t.SendTimeout, t.Tombstone, t.Unknown, t.Retry, t.RedisDown}
	w.mu.Lock()
	body, known := w.bodies[k]
	id, ok := w.terms[body]
	w.mu.Unlock()
	if known && ok {
		return id, nil
	}
	b, err := json.Marshal(t)
	if err != nil {
		return 0, fmt.Errorf("encode terms: %w", err)
	}
	if _, err := db.Exec(ctx, insert, string(b)); err != nil {
		return 0, fmt.Errorf("store terms: %w", err)
	}
	if err := db.QueryRow(ctx, find, string(b)).Scan(&id); err != nil {
		return 0, fmt.Errorf("find terms: %w", err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.bodies[k], w.terms[string(b)], w.termsOf[id] = string(b), id, t
	return id, nil
}

// policyWords are a row of policy.
type policyWords struct {
	typ     string
	order   notifier.Order
	version string
}

// policyID returns the number of a policy, and makes one where there is none.
func (w *words) policyID(ctx context.Context, db *pgxpool.Pool, p policyWords) (id int32, err error) {
	const (
		insert = `INSERT INTO policy (type, ord, version) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING`
		find   = `SELECT id FROM policy WHERE type = $1 AND ord = $2 AND version = $3`
	)
	w.mu.Lock()
	id, ok := w.policies[p]
	w.mu.Unlock()
	if ok {
		return id, nil
	}
	if _, err := db.Exec(ctx, insert, p.typ, p.order, p.version); err != nil {
		return 0, fmt.Errorf("store the policy of %q: %w", p.typ, err)
	}
	if err := db.QueryRow(ctx, find, p.typ, p.order, p.version).Scan(&id); err != nil {
		return 0, fmt.Errorf("find the policy of %q: %w", p.typ, err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.policies[p], w.policiesOf[id] = id, p
	return id, nil
}

// policyFor returns the policy of a number.
func (w *words) policyFor(ctx context.Context, db querier, id int32) (policyWords, error) {
	const find = `SELECT type, ord, version FROM policy WHERE id = $1`
	w.mu.Lock()
	p, ok := w.policiesOf[id]
	w.mu.Unlock()
	if ok {
		return p, nil
	}
	if err := db.QueryRow(ctx, find, id).Scan(&p.typ, &p.order, &p.version); err != nil {
		return p, fmt.Errorf("find policy %d: %w", id, err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.policies[p], w.policiesOf[id] = id, p
	return p, nil
}

// querier is a pool, a connection or a transaction.
type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// lane returns the lane of a number.
func (w *words) lane(ctx context.Context, db querier, id int16) (notifier.Lane, error) {
	const find = `SELECT channel, account, priority FROM lane WHERE id = $1`
	w.mu.Lock()
	l, ok := w.laneOf[id]
	w.mu.Unlock()
	if ok {
		return l, nil
	}
	if err := db.QueryRow(ctx, find, id).Scan(&l.Channel, &l.Account, &l.Priority); err != nil {
		return l, fmt.Errorf("find lane %d: %w", id, err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lanes[l], w.laneOf[id] = id, l
	return l, nil
}

// termsFor returns the terms of a number; caps is what the delivery holds of them.
func (w *words) termsFor(ctx context.Context, db querier, id int32, caps string) (t notifier.Terms, err error) {
	const find = `SELECT body FROM terms WHERE id = $1`
	w.mu.Lock()
	t, ok := w.termsOf[id]
	w.mu.Unlock()
	if !ok {
		var body string
		if err := db.QueryRow(ctx, find, id).Scan(&body); err != nil {
			return t, fmt.Errorf("find terms %d: %w", id, err)
		}
		if err := json.Unmarshal([]byte(body), &t); err != nil {
			return t, fmt.Errorf("decode terms %d: %w", id, err)
		}
		w.mu.Lock()
		w.termsOf[id] = t
		w.mu.Unlock()
	}
	t.Caps, err = ledger.DecodeCaps(caps)
	return t, err
}

// allLanes returns every lane there is, by number.
func (l *Ledger) allLanes(ctx context.Context, db querier) (map[int16]notifier.Lane, error) {
	const all = `SELECT id, channel, account, priority FROM lane`
	out := make(map[int16]notifier.Lane)
	rows, err := db.Query(ctx, all)
	if err != nil {
		return nil, err
	}
	var id int16
	var lane notifier.Lane
	_, err = pgx.ForEachRow(rows, []any{&id, &lane.Channel, &lane.Account, &lane.Priority}, func() error {
		out[id] = lane
		return nil
	})
	return out, err
}
