package sqlite

import (
	"fmt"

	"github.com/seed-4b260dfd/notifier"
)

// held is a queue row with what its end or its return depends on.
type held struct {
	id       notifier.DeliveryID
	d        int64
	lane     int64
	order    notifier.Order
	capped   bool
	state    string
	fence    int64
	owner    string
	ended    string
	reason   notifier.Reason
	leasedAt int64
	tries    int
	maybe    int
	fails    int
	cancel   notifier.Reason
	terms    int64
}

const heldColumns = `q.nid, q.ch, q.d, q.lane, q.ord, q.capped, q.state, q.fence, q.owner, q.ended, q.leased_at,
	q.tries, q.maybe, q.fails, q.cancel, d.terms, q.reason`

func heldOf(r row) held {
	return held{
		id: deliveryID(r.bytes(0), r.int(1)), d: r.int(2), lane: r.int(3), order: notifier.Order(r.str(4)), capped: r.int(5) != 0,
		state: r.str(6), fence: r.int(7), owner: r.str(8), ended: r.str(9), leasedAt: r.int(10),
		tries: int(r.int(11)), maybe: int(r.int(12)), fails: int(r.int(13)), cancel: notifier.Reason(r.str(14)), terms: r.int(15), reason: notifier.Reason(r.str(16)),
	}
}

// find reads the queue row of a delivery, or nil when it is finished or unknown.
func (w *writer) find(id notifier.DeliveryID) (*held, error) {
	const find = `SELECT ` + heldColumns + ` FROM queue q CROSS JOIN delivery d ON d.d = q.d WHERE q.nid = ? AND q.ch = ?`
	r, err := w.first(find, id.Notification[:], int64(id.Ordinal))
	if err != nil || r == nil {
		return nil, err
	}
	h := heldOf(r)
	return &h, nil
}

// finish ends a delivery without a call of its own: row out, outcome in.
func (w *writer) finish(h *held, closed string, state notifier.State, reason notifier.Reason) error {
	const insert = `INSERT OR ROLLBACK INTO outcome (nid, ch, d, ord, state, reason, fence, permit_fence, owner, closed, tries, maybe,
			finished_at, called, outcome, attempt_reason, provider_status, provider_id, started_at, unit)
		SELECT nid, ch, d, ord, ?, ?, fence, permit_fence, owner, ?, ?, ?, ?, 0, '', '', '', '', 0, 0
		FROM queue WHERE nid = ? AND ch = ?`
	n, err := w.exec(insert, string(state), string(reason), closed, int64(h.tries), int64(h.maybe), micros(w.now),
		h.id.Notification[:], int64(h.id.Ordinal))
	if err != nil || n != 1 {
		return fmt.Errorf("write the outcome: %w", orMissing(err))
	}
	return w.dequeue(h.id, tallyKey{h.lane, shown(h.state), h.reason})
}

// record adds the end of an attempt that did not finish the delivery. The
// counters of h have the attempt in them, so maybe is the number of its unit.
func (w *writer) record(h *held, ended, outcome string, a notifier.Attempt, maybe bool) error {
	const insert = `INSERT INTO attempt (nid, ch, fence, owner, ended, outcome, reason, maybe, provider_status, provider_id,
		started_at, finished_at, d, unit, spent_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`
	var spentAt any
	if maybe && h.capped {
		spentAt = h.leasedAt
		if !a.StartedAt.IsZero() {
			spentAt = micros(a.StartedAt)
		}
	}
	_, err := w.exec(insert, h.id.Notification[:], int64(h.id.Ordinal), h.fence, h.owner, ended, outcome, string(a.Reason), maybe,
		a.ProviderStatus, a.ProviderID, micros(a.StartedAt), micros(w.now), h.d, int64(h.maybe), spentAt)
	if err != nil {
		return fmt.Errorf("record the attempt: %w", err)
	}
	return nil
}

// requeue makes a delivery wait again. The fence stays, and so does the owner,
// for whoever asks later what became of the lease.
func (w *writer) requeue(h *held, ended string, reason notifier.Reason, due int64) error {
	const back = `UPDATE queue SET state = 'pending', reason = ?, timed = ?, permit_fence = NULL, ended = ?, due = ?, tries = ?, maybe = ?, fails = ?
		WHERE nid = ? AND ch = ?`
	n, err := w.exec(back, string(reason), timed(reason), ended, due, int64(h.tries), int64(h.maybe), int64(h.fails),
		h.id.Notification[:], int64(h.id.Ordinal))
	if err != nil || n != 1 {
		return fmt.Errorf("queue again: %w", orMissing(err))
	}
	delete(w.leases, h.id)
	w.moved[tallyKey{h.lane, shown(h.state), h.reason}]--
	w.moved[tallyKey{h.lane, notifier.StatePending, reason}]++
	return nil
}
