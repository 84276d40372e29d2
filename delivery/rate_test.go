package delivery_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/seed-4b260dfd/notifier"
	"github.com/seed-4b260dfd/notifier/channels"
	"github.com/seed-4b260dfd/notifier/delivery"
	"github.com/seed-4b260dfd/notifier/rates"
	"github.com/seed-4b260dfd/notifier/redisscript"
	"github.com/seed-4b260dfd/notifier/servertest"
)

func TestMain(m *testing.M) { servertest.Main(m) }

// Two processes over one Redis keep to the account's rate together, and both of
// them send.
func TestRate_TwoEnginesTogether(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("-short leaves out what needs a server")
	}
	const perSecond, each = 100, 100
	client, err := redisscript.Open(servertest.SharedRedis(t).URL())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	calls := make(chan int, 2*each)
	var ws []*world
	for i := range 2 {
		w := newWorld(t, withLimits(func(a *delivery.Account) { a.MaxPerSecond = perSecond }), func(c *delivery.Config, _ map[string]string) {
			c.Rates = rates.NewRedis(redisscript.NewRunner(client), t.Name())
		})
		w.provider.answer = func(context.Context, int, *channels.Call) channels.Result {
			calls <- i
			return channels.Result{Outcome: notifier.OutcomeSent}
		}
		ws = append(ws, w)
	}
	began := time.Now()
	var ids [2][]notifier.ID
	for n := range each {
		for i, w := range ws {
			ids[i] = append(ids[i], w.accept(request("nudge", key(n))).ID)
		}
	}
	var order []int
	for range 2 * each {
		order = append(order, <-calls)
	}
	took := time.Since(began)
	// Three quarters of the rate: the rest is kept for high.
	if least := time.Second * (2*each - perSecond*3/4) / (perSecond * 3 / 4); took < least {
		t.Errorf("%d calls took %v, want %v or more", 2*each, took, least)
	}
	for i := range ws {
		if got := len(slices.DeleteFunc(slices.Clone(order[:each]), func(o int) bool { return o != i })); got < each/20 {
			t.Errorf("engine %d made %d of the first %d calls", i, got, each)
		}
		for _, id := range ids[i] {
			if d := ws[i].settled(id); d.State != notifier.StateSent || len(d.Attempts) != 1 {
				t.Errorf("%s ended %s after %d attempts, want sent after one", d.ID, d.State, len(d.Attempts))
			}
		}
	}
	t.Logf("%d calls in %v", 2*each, took)
}

// An engine does not start with a limit that nothing keeps.
func TestNew_RateWithoutAStore(t *testing.T) {
	t.Parallel()
	_, err := delivery.New(delivery.Config{Accounts: map[notifier.Channel]map[string]delivery.Account{
		notifier.ChannelAPNs: {"shop": {MaxPerSecond: 1}},
	}})
	if err == nil {
		t.Error("got no error")
	}
}
