package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"sync"

	"github.com/seed-4b260dfd/notifier"
)

// tallyKey is what queue rows are counted by. The state is the API's.
type tallyKey struct {
	lane   int64
	state  notifier.State
	reason notifier.Reason
}

// tally counts the rows of the queue in memory, so that the gauges cost
// nothing however many there are. It starts from one count of the table, taken
// in a snapshot from before the first write while the ledger is already in
// use; the writer adds what each transaction changed once it is committed.
type tally struct {
	stop    context.CancelFunc
	counted chan struct{} // closed when the first count is in
	err     error

	mu   sync.Mutex
	rows map[tallyKey]int64
}

func newTally() *tally {
	return &tally{counted: make(chan struct{}), rows: make(map[tallyKey]int64)}
}

// start takes the snapshot and begins to count.
func (t *tally) start(db *sql.DB) error {
	const snapshot = `SELECT 1 FROM queue LIMIT 1` // a transaction begins with its first read
	ctx, stop := context.WithCancel(context.Background())
	tx, err := db.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err == nil {
		err = query(ctx, tx, snapshot, func(func(...any) error) error { return nil })
	}
	if err != nil {
		stop()
		return fmt.Errorf("look at the queue: %w", err)
	}
	t.stop = stop
	go t.count(ctx, tx)
	return nil
}

// end gives the count up, if it is not done.
func (t *tally) end() {
	t.stop()
	<-t.counted
}

func (t *tally) count(ctx context.Context, tx *sql.Tx) {
	const count = `SELECT lane, CASE state WHEN 'pending' THEN 'pending' ELSE 'sending' END, reason, count(*) FROM queue GROUP BY 1, 2, 3`
	defer close(t.counted)
	t.err = query(ctx, tx, count, func(scan func(...any) error) error {
		var k tallyKey
		var n int64
		if err := scan(&k.lane, &k.state, &k.reason, &n); err != nil {
			return err
		}
		t.mu.Lock()
		defer t.mu.Unlock()
		t.rows[k] += n
		return nil
	})
	if err := tx.Rollback(); t.err == nil {
		t.err = err
	}
}

// add takes in what a committed transaction changed.
func (t *tally) add(changes map[tallyKey]int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for k, n := range changes {
		if t.rows[k] += n; t.rows[k] == 0 {
			delete(t.rows, k)
		}
	}
}

// now returns the counts, when the first of them is in.
func (t *tally) now(ctx context.Context) (map[tallyKey]int64, error) {
	select {
	case <-t.counted:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if t.err != nil {
		return nil, t.err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	out := make(map[tallyKey]int64, len(t.rows))
	for k, n := range t.rows {
		out[k] = n
	}
	return out, nil
}
