// Package ledgertest holds every ledger to the same rows: each transition with
// its guard, what it does when the guard fails, and what it answers when it is
// said twice. The suite controls the clock, so nothing in it waits.
package ledgertest

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/seed-4b260dfd/notifier"
)

// Ledger is everything that a ledger does, and Check, which returns a sentence
// for all that must never be in it.
type Ledger interface {
	Accept(ctx context.Context, intents []notifier.Intent) ([]notifier.Stored, error)
	Lease(ctx context.Context, lane notifier.Lane, limit int, owner notifier.Owner) ([]notifier.Leased, error)
	Renew(ctx context.Context, owner notifier.Owner, holds []notifier.Hold) ([]bool, error)
	Permit(ctx context.Context, owner notifier.Owner, permits []notifier.Permit) ([]bool, error)
	Lanes(ctx context.Context) (map[notifier.Lane]time.Time, error)
	Complete(ctx context.Context, owner notifier.Owner, done []notifier.Completion) ([]notifier.Settled, error)
	Return(ctx context.Context, owner notifier.Owner, back []notifier.Return) ([]notifier.Settled, error)
	Witness(ctx context.Context, owner notifier.Owner, evidence []notifier.Evidence) error
	Sweep(ctx context.Context, limit int, all bool) ([]notifier.Swept, error)
	Expire(ctx context.Context, limit int) ([]notifier.Swept, error)
	Cancel(ctx context.Context, tenant string, ids []notifier.DeliveryID, reason notifier.Reason) ([]notifier.Cancelled, error)
	Spent(ctx context.Context, since time.Time, yield func(notifier.Spent) error) error
	Pause(ctx context.Context, p notifier.Pause) (notifier.Pause, error)
	Resume(ctx context.Context, id, by, why string) (p notifier.Pause, ended bool, err error)
	Pauses(ctx context.Context) ([]notifier.Pause, error)
	PausesEnded(ctx context.Context, since time.Time) ([]notifier.Pause, error)
	Suppress(ctx context.Context, s notifier.Suppression) (notifier.Suppression, error)
	Unsuppress(ctx context.Context, tenant, id, by, why string) (s notifier.Suppression, ended bool, err error)
	Suppressions(ctx context.Context, f notifier.SuppressionFilter) ([]notifier.Suppression, error)
	Notification(ctx context.Context, tenant string, id notifier.ID) (*notifier.Notification, error)
	ByKey(ctx context.Context, tenant, key string) (*notifier.Notification, error)
	Backlog(ctx context.Context) ([]notifier.Backlog, error)
	Unknowns(ctx context.Context) ([]notifier.Unknowns, error)
	Unsettled(ctx context.Context, since time.Time, limit int) ([]notifier.Unsettled, error)
	Probe(ctx context.Context) error
	Check(ctx context.Context) []string
}

// Open opens an empty ledger that tells the time by now, and closes it when
// the test ends.
type Open func(t *testing.T, now func() time.Time) Ledger

// Clock is a clock that stands still until it is moved. It is safe for
// concurrent use.
type Clock struct {
	mu  sync.Mutex
	now time.Time
}

// NewClock returns a clock that shows a time on a whole microsecond.
func NewClock() *Clock { return &Clock{now: time.Date(2026, 12, 1, 9, 0, 0, 123456000, time.UTC)} }

// Now is the time it shows.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// Add moves it; a negative d sets it back.
func (c *Clock) Add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// row is one row of the table of transitions.
type row struct {
	name string
	test func(*world)
}

// Run runs the suite.
func Run(t *testing.T, open Open) {
	t.Helper()
	for _, group := range []struct {
		name string
		rows []row
	}{
		{"T0 accept", acceptRows},
		{"T0 accept and lease", acceptLeaseRows},
		{"T1 lease", leaseRows},
		{"T1 renew", renewRows},
		{"T4 permit", permitRows},
		{"T6 complete", completeRows},
		{"T7 return", returnRows},
		{"T8 sweep", sweepRows},
		{"T9 cancel", cancelRows},
		{"T10 expire", expireRows},
		{"pause", pauseRows},
		{"suppression", suppressionRows},
		{"evidence", evidenceRows},
		{"unsettled", unsettledRows},
		{"spent", spentRows},
		{"read", readRows},
		{"probe", probeRows},
		{"property", propertyRows},
	} {
		t.Run(group.name, func(t *testing.T) {
			t.Parallel()
			for _, r := range group.rows {
				t.Run(r.name, func(t *testing.T) {
					t.Parallel()
					w := newWorld(t, open)
					r.test(w)
					for _, wrong := range w.l.Check(context.Background()) {
						t.Errorf("check: %s", wrong)
					}
				})
			}
		})
	}
}
