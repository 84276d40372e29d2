package sqlite

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/seed-4b260dfd/notifier"
	"github.com/seed-4b260dfd/notifier/ledger"
)

// words are the rows of lane and terms that the writer has seen, both ways:
// few rows that every delivery refers to by number.
type words struct {
	lanes   map[notifier.Lane]int64
	laneOf  map[int64]notifier.Lane
	terms   map[termsKey]int64
	termsOf map[int64]notifier.Terms
}

// termsKey is Terms without its caps, which differ from recipient to recipient.
type termsKey struct {
	lease, sendTimeout time.Duration
	unknown            notifier.UnknownRule
	redisDown          notifier.RedisDownRule
	retry              notifier.Retry
	tombstone          time.Duration
}

func newWords() words {
	return words{
		lanes: make(map[notifier.Lane]int64), laneOf: make(map[int64]notifier.Lane),
		terms: make(map[termsKey]int64), termsOf: make(map[int64]notifier.Terms),
	}
}

func (w *writer) laneID(l notifier.Lane) (int64, error) {
	const (
		insert = `INSERT INTO lane (channel, account, priority) VALUES (?, ?, ?) ON CONFLICT DO NOTHING`
		find   = `SELECT id FROM lane WHERE channel = ? AND account = ? AND priority = ?`
	)
	if id, ok := w.words.lanes[l]; ok {
		return id, nil
	}
	channel, priority := string(l.Channel), string(l.Priority)
	if _, err := w.exec(insert, channel, l.Account, priority); err != nil {
		return 0, fmt.Errorf("store lane %v: %w", l, err)
	}
	r, err := w.first(find, channel, l.Account, priority)
	if err != nil {
		return 0, fmt.Errorf("find lane %v: %w", l, err)
	}
	w.words.lanes[l], w.words.laneOf[r.int(0)] = r.int(0), l
	return r.int(0), nil
}

func (w *writer) lane(id int64) (notifier.Lane, error) {
	const find = `SELECT channel, account, priority FROM lane WHERE id = ?`
	if l, ok := w.words.laneOf[id]; ok {
		return l, nil
	}
	r, err := w.first(find, id)
	if err != nil || r == nil {
		return notifier.Lane{}, fmt.Errorf("find lane %d: %w", id, orMissing(err))
	}
	l := notifier.Lane{Channel: notifier.Channel(r.str(0)), Account: r.str(1), Priority: notifier.Priority(r.str(2))}
	w.words.lanes[l], w.words.laneOf[id] = id, l
	return l, nil
}

func (w *writer) termsID(t notifier.Terms) (int64, error) {
	const (
		insert = `INSERT INTO terms (json) VALUES (?) ON CONFLICT DO NOTHING`
		find   = `SELECT id FROM terms WHERE json = ?`
	)
	k := termsKey{t.Lease, t.SendTimeout, t.Unknown, t.RedisDown, t.Retry, t.Tombstone}
	if id, ok := w.words.terms[k]; ok {
		return id, nil
	}
	t.Caps = nil
	b, err := json.Marshal(t)
	if err != nil {
		return 0, fmt.Errorf("encode terms: %w", err)
	}
	if _, err := w.exec(insert, string(b)); err != nil {
		return 0, fmt.Errorf("store terms: %w", err)
	}
	r, err := w.first(find, string(b))
	if err != nil {
		return 0, fmt.Errorf("find terms: %w", err)
	}
	w.words.terms[k], w.words.termsOf[r.int(0)] = r.int(0), t
	return r.int(0), nil
}

// termsFor returns stored terms; caps is what the delivery holds of them.
func (w *writer) termsFor(id int64, caps string) (notifier.Terms, error) {
	const find = `SELECT json FROM terms WHERE id = ?`
	t, ok := w.words.termsOf[id]
	if !ok {
		r, err := w.first(find, id)
		if err != nil || r == nil {
			return t, fmt.Errorf("find terms %d: %w", id, orMissing(err))
		}
		if err := json.Unmarshal([]byte(r.str(0)), &t); err != nil {
			return t, fmt.Errorf("decode terms %d: %w", id, err)
		}
		w.words.termsOf[id] = t
	}
	var err error
	t.Caps, err = ledger.DecodeCaps(caps)
	return t, err
}
