package sqlite

import (
	"context"
	"fmt"

	"github.com/seed-4b260dfd/notifier"
)

// CheckTally returns a sentence for every count of the gauges that is not what
// the queue holds.
func (l *Ledger) CheckTally(ctx context.Context) []string {
	var wrong []string
	err := l.write(ctx, func(w *writer) error {
		counts, err := l.tally.now(ctx)
		if err != nil {
			return err
		}
		wrong = nil
		err = w.rows(`SELECT lane, state, reason, count(*) FROM queue GROUP BY lane, state, reason`, func(r row) error {
			counts[tallyKey{r.int(0), shown(r.str(1)), notifier.Reason(r.str(2))}] -= r.int(3)
			return nil
		})
		for k, n := range counts {
			if n != 0 {
				wrong = append(wrong, fmt.Sprintf("the count of %v is off by %d", k, n))
			}
		}
		return err
	})
	if err != nil {
		wrong = append(wrong, err.Error())
	}
	return wrong
}
