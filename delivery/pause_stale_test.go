package delivery

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-4b260dfd/notifier"
)

// A node that does not know which pauses are in force starts nothing.
func TestReserve_NotWithoutWordOfThePauses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		lane := notifier.Lane{Channel: notifier.ChannelAPNs, Account: "shop", Priority: notifier.PriorityNormal}
		e := &Engine{accounts: map[accountKey]*account{
			{lane.Channel, lane.Account}: newAccount(lane.Channel, lane.Account, Account{MaxInFlight: 4}),
		}}
		reserved := func() int {
			in := notifier.Intent{Deliveries: []notifier.Delivery{{Lane: lane}}}
			slots := e.reserve(&in, readClocks())
			free(slots)
			return len(slots)
		}
		if !firstLease {
			t.Skip("this build never leases at acceptance")
		}
		if got := reserved(); got != 0 {
			t.Errorf("reserved %d before the first word, want none", got)
		}
		now := readClocks()
		e.pauses.heard.Store(&now)
		if got := reserved(); got != 1 {
			t.Errorf("reserved %d, want 1", got)
		}
		<-time.After(pauseStale + time.Millisecond)
		if got := reserved(); got != 0 {
			t.Errorf("reserved %d after %s without a word, want none", got, pauseStale)
		}
	})
}
