package sqlite

import (
	"context"
	"fmt"
)

// assertion counts what must never be.
type assertion struct{ wrong, count string }

func assertions() []assertion {
	return []assertion{
		{"deliveries are both in the queue and finished",
			`SELECT count(*) FROM queue q JOIN outcome o ON o.nid = q.nid AND o.ch = q.ch`},
		{"accepted deliveries are neither in the queue nor finished", `SELECT count(*) FROM notification n JOIN delivery d
			ON d.d >= n.n AND d.d < n.n + n.deliveries
			LEFT JOIN queue q ON q.nid = n.nid AND q.ch = d.d - n.n LEFT JOIN outcome o ON o.nid = n.nid AND o.ch = d.d - n.n
			WHERE q.nid IS NULL AND o.nid IS NULL`},
		{"deliveries are missing, or there are more than were accepted", `SELECT abs((SELECT coalesce(sum(deliveries), 0) FROM notification)
			- (SELECT count(*) FROM queue) - (SELECT count(*) FROM outcome))`},
		{"deliveries have no facts, or facts without a delivery",
			`SELECT abs((SELECT coalesce(sum(deliveries), 0) FROM notification) - (SELECT count(*) FROM delivery))`},
		{"claim-first outcomes speak of a call that had no permit", `SELECT count(*) FROM outcome WHERE ord = 'claim_first'
			AND (called OR state = 'unknown' AND closed <> 'complete') AND state IN ('sent', 'rejected', 'unknown') AND permit_fence IS NOT fence
			AND attempt_reason <> 'ledger_rewound'`}, // its permit went with the commits that were lost
		{"claim-first deliveries have more than one attempt that may have arrived", `SELECT count(*) FROM outcome
			WHERE ord = 'claim_first' AND maybe + (called AND outcome IN ('sent', 'unknown')) > 1`},
		{"queue rows are under a permit of another fence",
			`SELECT count(*) FROM queue WHERE (state = 'sending') <> (permit_fence IS NOT NULL) OR permit_fence <> fence`},
		{"waiting deliveries are cancelled", `SELECT count(*) FROM queue WHERE state = 'pending' AND cancel <> ''`},
		{"attempts stand twice", `SELECT count(*) FROM (SELECT 1 FROM attempt GROUP BY nid, ch, fence HAVING count(*) > 1)`},
		{"attempts are above the fence of their delivery", `SELECT count(*) FROM attempt a
			LEFT JOIN queue q ON q.nid = a.nid AND q.ch = a.ch LEFT JOIN outcome o ON o.nid = a.nid AND o.ch = a.ch
			WHERE a.fence > coalesce(q.fence, o.fence, -1)`},
		{"attempts are recorded for a lease that is still open", `SELECT count(*) FROM attempt a
			JOIN queue q ON q.nid = a.nid AND q.ch = a.ch WHERE q.state <> 'pending' AND a.fence >= q.fence`},
		{"outcomes with a call have an attempt under the same fence", `SELECT count(*) FROM attempt a
			JOIN outcome o ON o.nid = a.nid AND o.ch = a.ch WHERE o.called AND a.fence >= o.fence`},
		{"counts of attempts that may have arrived are not those of their attempts", `SELECT count(*) FROM (
				SELECT nid, ch, maybe FROM queue UNION ALL SELECT nid, ch, maybe FROM outcome) x
			WHERE x.maybe <> (SELECT count(*) FROM attempt a WHERE a.nid = x.nid AND a.ch = x.ch AND a.maybe)`},
		{"keys stand for a notification that is not theirs",
			`SELECT count(*) FROM idem i LEFT JOIN notification n ON n.n = i.n WHERE n.tenant IS NOT i.tenant OR n.key IS NOT i.key`},
	}
}

// Check returns a sentence for everything in the ledger that must never be, or
// nil. It reads all of it: for tests, and for reconciliation.
func (l *Ledger) Check(ctx context.Context) []string {
	var wrong []string
	for _, a := range assertions() {
		var n int64
		err := l.reads.QueryRowContext(ctx, a.count).Scan(&n)
		switch {
		case err != nil:
			wrong = append(wrong, fmt.Sprintf("cannot check whether %s: %v", a.wrong, err))
		case n != 0:
			wrong = append(wrong, fmt.Sprintf("%d %s", n, a.wrong))
		}
	}
	return wrong
}
