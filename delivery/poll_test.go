package delivery

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-4b260dfd/notifier"
)

// laneLedger is a ledger of which nothing is asked but its lanes.
type laneLedger struct {
	Ledger
	due   map[notifier.Lane]time.Time
	polls int
}

func (l *laneLedger) Lanes(context.Context) (map[notifier.Lane]time.Time, error) {
	l.polls++
	return l.due, nil
}

// A node polls fast while others leave it something that it has slots for, and
// once a second otherwise.
func TestPoll_FastWhileOthersLeaveWork(t *testing.T) {
	t.Parallel()
	const fast, slow = 20, 4 // polls of three seconds
	lane := notifier.Lane{Channel: notifier.ChannelAPNs, Account: "shop", Priority: notifier.PriorityNormal}
	for _, c := range []struct {
		name  string
		due   time.Duration
		used  int
		alone bool
		want  int
	}{
		{"something is due", -time.Second, 0, false, fast},
		{"something will be due", time.Hour, 0, false, slow},
		{"every slot is taken", -time.Second, 4, false, slow},
		{"there are no others", -time.Second, 0, true, slow},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				l := &laneLedger{due: map[notifier.Lane]time.Time{lane: time.Now().Add(c.due)}}
				a := newAccount(lane.Channel, lane.Account, Account{MaxInFlight: 4})
				a.used[lane.Priority] = c.used
				e := &Engine{cfg: Config{Ledger: l, SoleOwner: c.alone}, accounts: map[accountKey]*account{{lane.Channel, lane.Account}: a}}
				ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second+time.Millisecond)
				defer cancel()
				e.pollLoop(ctx)
				if l.polls < c.want || l.polls > c.want+1 {
					t.Errorf("got %d polls in three seconds, want %d", l.polls, c.want)
				}
			})
		})
	}
}
