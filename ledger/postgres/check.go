package postgres

import (
	"context"
	"fmt"
)

// assertion counts what must never be.
type assertion struct{ wrong, count string }

// open is every row that is not finished.
const open = `(SELECT nid, ch, ord, status, fence, permit_fence, maybe, cancel FROM q
	UNION ALL SELECT nid, ch, ord, 0::smallint, fence, NULL, maybe, cancel FROM later)`

func assertions() []assertion {
	return []assertion{
		{"deliveries stand twice in the queue",
			`SELECT count(*) FROM (SELECT 1 FROM ` + open + ` x GROUP BY nid, ch HAVING count(*) > 1) y`},
		{"deliveries are both in the queue and finished", `SELECT count(*) FROM ` + open + ` q JOIN outcome o ON o.nid = q.nid AND o.ch = q.ch`},
		{"accepted deliveries are neither in the queue nor finished", `SELECT count(*) FROM delivery d
			LEFT JOIN ` + open + ` q ON q.nid = d.nid AND q.ch = d.ch LEFT JOIN outcome o ON o.nid = d.nid AND o.ch = d.ch
			WHERE q.nid IS NULL AND o.nid IS NULL`},
		{"deliveries are missing, or there are more than were accepted", `SELECT abs((SELECT coalesce(sum(deliveries), 0) FROM notification)
			- (SELECT count(*) FROM ` + open + ` x) - (SELECT count(*) FROM outcome))`},
		{"deliveries have no facts, or facts without a delivery",
			`SELECT abs((SELECT coalesce(sum(deliveries), 0) FROM notification) - (SELECT count(*) FROM delivery))`},
		{"deliveries wait in another lane than their own",
			`SELECT count(*) FROM (SELECT nid, ch, lane FROM q UNION ALL SELECT nid, ch, lane FROM later) q JOIN delivery d USING (nid, ch) WHERE q.lane <> d.lane`},
		{"claim-first outcomes speak of a call that had no permit", `SELECT count(*) FROM outcome WHERE ord = 'claim_first'
			AND (called OR state = 'unknown' AND closed <> 'complete') AND state IN ('sent', 'rejected', 'unknown') AND permit_fence IS DISTINCT FROM fence
			AND attempt_reason <> 'ledger_rewound'`}, // its permit went with the commits that were lost
		{"claim-first deliveries have more than one attempt that may have arrived", `SELECT count(*) FROM outcome
			WHERE ord = 'claim_first' AND maybe + (called AND outcome IN ('sent', 'unknown'))::int > 1`},
		{"queue rows are under a permit of another fence",
			`SELECT count(*) FROM q WHERE (status = 2) <> (permit_fence IS NOT NULL) OR permit_fence <> fence`},
		{"waiting deliveries are cancelled", `SELECT count(*) FROM ` + open + ` q WHERE status = 0 AND cancel <> ''`},
		{"attempts are above the fence of their delivery", `SELECT count(*) FROM attempt_end a
			LEFT JOIN ` + open + ` q ON q.nid = a.nid AND q.ch = a.ch LEFT JOIN outcome o ON o.nid = a.nid AND o.ch = a.ch
			WHERE a.fence > coalesce(q.fence, o.fence, -1)`},
		{"attempts are recorded for a lease that is still open", `SELECT count(*) FROM attempt_end a
			JOIN q ON q.nid = a.nid AND q.ch = a.ch WHERE q.status <> 0 AND a.fence >= q.fence`},
		{"outcomes with a call have an attempt under the same fence", `SELECT count(*) FROM attempt_end a
			JOIN outcome o ON o.nid = a.nid AND o.ch = a.ch WHERE o.called AND a.fence >= o.fence`},
		{"counts of attempts that may have arrived are not those of their attempts", `SELECT count(*) FROM (
				SELECT nid, ch, maybe FROM ` + open + ` q UNION ALL SELECT nid, ch, maybe FROM outcome) x
			WHERE x.maybe <> (SELECT count(*) FROM attempt_end a WHERE a.nid = x.nid AND a.ch = x.ch AND a.maybe)`},
		{"keys stand for a notification that is not theirs", `SELECT count(*) FROM idem i LEFT JOIN notification n ON n.nid = i.nid
			WHERE n.tenant IS DISTINCT FROM i.tenant OR n.key IS DISTINCT FROM i.key`},
	}
}

// Check returns a sentence for everything in the ledger that must never be, or
// nil. It reads all of it: for tests, and for reconciliation.
func (l *Ledger) Check(ctx context.Context) []string {
	var wrong []string
	for _, a := range assertions() {
		var n int64
		err := l.reads.QueryRow(ctx, a.count).Scan(&n)
		switch {
		case err != nil:
			wrong = append(wrong, fmt.Sprintf("cannot check whether %s: %v", a.wrong, err))
		case n != 0:
			wrong = append(wrong, fmt.Sprintf("%d %s", n, a.wrong))
		}
	}
	return wrong
}
