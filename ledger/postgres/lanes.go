package postgres

import (
	"context"
	"sync"

	"github.com/seed-4b260dfd/notifier"
)

// laneMemory remembers in which lane the deliveries are that this process has
// leased: lane comes first in the queue's key, and a hold does not name it.
// What is not remembered is looked up, so it may forget at any time.
type laneMemory struct {
	mu sync.Mutex
	of map[notifier.DeliveryID]int16
}

// laneMemorySize bounds it: leases that somebody else ended are never taken
// out one by one.
const laneMemorySize = 100_000

func newLaneMemory() laneMemory { return laneMemory{of: make(map[notifier.DeliveryID]int16)} }

func (m *laneMemory) note(id notifier.DeliveryID, lane int16) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.of) >= laneMemorySize {
		clear(m.of)
	}
	m.of[id] = lane
}

func (m *laneMemory) forget(id notifier.DeliveryID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.of, id)
}

// lookup returns the lanes of ids, with -1 for deliveries that do not exist.
func (l *Ledger) lookup(ctx context.Context, db querier, ids []notifier.DeliveryID) ([]int16, error) {
	const find = `SELECT s.i, d.lane FROM unnest($1::int[], $2::uuid[], $3::int[]) AS s(i, nid, ch)
		CROSS JOIN LATERAL (SELECT f.lane FROM delivery f WHERE f.nid = s.nid AND f.ch = s.ch AND f.nid >= $4 AND f.nid <= $5) d`
	out := make([]int16, len(ids))
	var at []int32
	var nids [][16]byte
	var chs []int32
	var unknown []notifier.DeliveryID
	l.lanes.mu.Lock()
	for i, id := range ids {
		lane, ok := l.lanes.of[id]
		if out[i] = lane; !ok {
			out[i] = -1
			at, nids, chs = append(at, int32(i)), append(nids, id.Notification), append(chs, int32(id.Ordinal))
			unknown = append(unknown, id)
		}
	}
	l.lanes.mu.Unlock()
	if len(at) == 0 {
		return out, nil
	}
	low, high := bounds(unknown)
	rows, err := db.Query(ctx, find, at, nids, chs, low, high)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var i int
		var lane int16
		if err := rows.Scan(&i, &lane); err != nil {
			return nil, err
		}
		out[i] = lane
	}
	return out, rows.Err()
}

// holdColumns are holds, column by column, in the order of the queue's key so
// that no two batches wait for each other.
type holdColumns struct {
	lane  []int16
	nid   [][16]byte
	ch    []int32
	fence []int64
}

func (c *holdColumns) add(lane int16, h notifier.Hold) {
	c.lane, c.nid = append(c.lane, lane), append(c.nid, h.ID.Notification)
	c.ch, c.fence = append(c.ch, int32(h.ID.Ordinal)), append(c.fence, h.Fence)
}
