package sqlite

import (
	"context"
	"fmt"
	"time"

	"github.com/seed-4b260dfd/notifier"
	"github.com/seed-4b260dfd/notifier/ledger"
)

// Spent calls yield with every cap unit that was taken since a time by an
// attempt that may have reached the person, and by those under way. The time
// is the attempt's start, or its lease's where nobody said when it started.
// An error of yield ends the walk and is returned.
func (l *Ledger) Spent(ctx context.Context, since time.Time, yield func(notifier.Spent) error) error {
	const spent = `SELECT s.nid, s.ch, s.unit, s.at, l.channel, d.caps FROM (
			SELECT nid, ch, d, unit, spent_at AS at FROM outcome WHERE spent_at IS NOT NULL AND spent_at >= ?
			UNION ALL SELECT nid, ch, d, unit, spent_at FROM attempt WHERE spent_at IS NOT NULL AND spent_at >= ?
			UNION ALL SELECT nid, ch, d, maybe + 1, leased_at FROM queue WHERE capped AND leased_at >= ?
				AND (state = 'sending' OR state = 'leased' AND ord <> 'claim_first')
		) s CROSS JOIN delivery d ON d.d = s.d CROSS JOIN lane l ON l.id = d.lane`
	from := micros(since)
	err := query(ctx, l.reads, spent, func(scan func(...any) error) error {
		var (
			nid      []byte
			ch, at   int64
			n        int
			channel  notifier.Channel
			capsJSON string
		)
		if err := scan(&nid, &ch, &n, &at, &channel, &capsJSON); err != nil {
			return err
		}
		caps, err := ledger.DecodeCaps(capsJSON)
		if err != nil {
			return err
		}
		id := deliveryID(nid, ch)
		for _, c := range caps {
			s := notifier.Spent{Cap: c, Unit: notifier.CapUnit(id.Notification, channel, n), Holder: id, SpentAt: fromMicros(at)}
			if err := yield(s); err != nil {
				return err
			}
		}
		return nil
	}, from, from, from)
	if err != nil {
		return fmt.Errorf("read the cap units: %w", err)
	}
	return nil
}
