package postgres_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/seed-4b260dfd/notifier"
	"github.com/seed-4b260dfd/notifier/ledger/ledgertest"
	"github.com/seed-4b260dfd/notifier/ledger/postgres"
	"github.com/seed-4b260dfd/notifier/servertest"
)

// open opens a ledger over a migrated database.
func open(t testing.TB, url string, options ...postgres.Option) *postgres.Ledger {
	t.Helper()
	l, err := postgres.Open(t.Context(), url, options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	return l
}

// proxied is a ledger whose replies can be lost, and one beside it that reads.
func proxied(t *testing.T) (lossy, direct *postgres.Ledger, proxy *servertest.Proxy) {
	t.Helper()
	url := migrated(t)
	proxy = servertest.NewProxy(t, servertest.SharedPostgres(t).Addr())
	return open(t, proxy.URL(url)), open(t, url), proxy
}

func wantSound(t *testing.T, l *postgres.Ledger) {
	t.Helper()
	for _, wrong := range l.Check(context.Background()) {
		t.Errorf("check: %s", wrong)
	}
}

func TestAccept_LostReplyIsNoRepeat(t *testing.T) {
	t.Parallel()
	lossy, direct, proxy := proxied(t)
	in := intents("a", 3, notifier.OrderSendFirst)
	in[0].Lease = notifier.FirstLease{Owner: "me", Count: 1}
	lost := proxy.DropReply(servertest.Contains("INSERT INTO idem"), 1)
	got, err := lossy.Accept(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	<-lost
	for i, s := range got {
		if s.Replayed || s.ID.IsZero() {
			t.Errorf("intent %d: got %+v, want it new", i, s)
		}
	}
	if len(got[0].Leased) != 1 || got[0].Leased[0].Fence != 1 {
		t.Errorf("got the lease %+v, want the one that the lost commit made", got[0].Leased)
	}
	again, err := direct.Accept(t.Context(), intents("a", 3, notifier.OrderSendFirst))
	if err != nil {
		t.Fatal(err)
	}
	for i, s := range again {
		if !s.Replayed || s.ID != got[i].ID {
			t.Errorf("copy %d: got %+v, want a repeat of %v", i, s, got[i].ID)
		}
	}
	wantSound(t, direct)
}

func TestPermit_LostReplyIsAnError(t *testing.T) {
	t.Parallel()
	lossy, direct, proxy := proxied(t)
	if _, err := lossy.Accept(t.Context(), intents("a", 1, notifier.OrderClaimFirst)); err != nil {
		t.Fatal(err)
	}
	leased, err := lossy.Lease(t.Context(), busyLane, 1, "me")
	if err != nil || len(leased) != 1 {
		t.Fatalf("lease: got %d, %v", len(leased), err)
	}
	lost := proxy.DropReply(servertest.Contains("SET status = 2"), 1)
	h := leased[0].Hold()
	if got, err := lossy.Permit(t.Context(), "me", []notifier.Permit{{Hold: h, For: time.Minute}}); err == nil {
		t.Fatalf("got %v and no error, although the answer was lost", got)
	}
	<-lost
	// The write that proves that nothing was sent takes the delivery back.
	back, err := lossy.Return(t.Context(), "me", []notifier.Return{{Hold: h, Unsent: true}})
	if err != nil || back[0].Verdict != notifier.VerdictDone || back[0].State != notifier.StatePending {
		t.Errorf("return: got %+v, %v; want it due again", back, err)
	}
	wantSound(t, direct)
}

func TestComplete_AndReturnAreDoneOnceWhenTheCommitsAnswerIsLost(t *testing.T) {
	t.Parallel()
	lossy, direct, proxy := proxied(t)
	if _, err := lossy.Accept(t.Context(), intents("a", 2, notifier.OrderSendFirst)); err != nil {
		t.Fatal(err)
	}
	leased, err := lossy.Lease(t.Context(), busyLane, 2, "me")
	if err != nil || len(leased) != 2 {
		t.Fatalf("lease: got %d, %v", len(leased), err)
	}
	done := []notifier.Completion{{Hold: leased[0].Hold(), State: notifier.StateSent, Called: true,
		Attempt: notifier.Attempt{StartedAt: time.Now(), Outcome: notifier.OutcomeSent}}}
	lost := proxy.DropReply(servertest.Contains("DELETE FROM q"), 1)
	if _, err := lossy.Complete(t.Context(), "me", done); err == nil {
		t.Fatal("complete: got no error, although the answer was lost")
	}
	<-lost
	if got, err := lossy.Complete(t.Context(), "me", done); err != nil || got[0].Verdict != notifier.VerdictAlready {
		t.Errorf("complete again: got %+v, %v; want it done already", got, err)
	}
	back := []notifier.Return{{Hold: leased[1].Hold(), Reason: notifier.ReasonBackoff, After: time.Minute, Try: true, Maybe: true, Record: true}}
	lost = proxy.DropReply(servertest.Contains("commit"), 1)
	if _, err := lossy.Return(t.Context(), "me", back); err == nil {
		t.Fatal("return: got no error, although the commit's answer was lost")
	}
	<-lost
	if got, err := lossy.Return(t.Context(), "me", back); err != nil || got[0].Verdict != notifier.VerdictAlready {
		t.Errorf("return again: got %+v, %v; want it done already", got, err)
	}
	n, err := direct.Notification(t.Context(), "shop", leased[1].ID.Notification)
	if err != nil || len(n.Deliveries[0].Attempts) != 1 || n.Deliveries[0].PossibleEffects != 1 {
		t.Errorf("got %+v, %v; want one attempt that may have arrived", n, err)
	}
	wantSound(t, direct)
}

func TestMigrate_ManyAtOnceMakeOne(t *testing.T) {
	t.Parallel()
	url := servertest.SharedPostgres(t).Database(t)
	if _, err := postgres.Open(t.Context(), url); err == nil || !strings.Contains(err.Error(), `run "notifier migrate"`) {
		t.Errorf("open before the migration: got %v, want what to run", err)
	}
	var all sync.WaitGroup
	var mu sync.Mutex
	applied := 0
	for range 4 {
		all.Go(func() {
			names, err := postgres.Migrate(t.Context(), url)
			if err != nil {
				t.Errorf("migrate: %v", err)
			}
			mu.Lock()
			defer mu.Unlock()
			if len(names) > 0 {
				applied++
			}
		})
	}
	all.Wait()
	if applied != 1 {
		t.Errorf("%d migrators had something to do, want 1", applied)
	}
	open(t, url)
}

// A key that is accepted just before its day's partition goes, or its time
// ends, and is repeated just after it, is a repeat for as long as it is
// remembered, whoever drops and trims meanwhile.
func TestDrop_KeysOutliveTheSwitch(t *testing.T) {
	t.Parallel()
	url := migrated(t)
	clock := &struct {
		sync.Mutex
		now time.Time
	}{now: time.Now().UTC().Truncate(24*time.Hour).AddDate(0, 0, -200).Add(23 * time.Hour)} // old enough to be dropped
	now := func() time.Time { clock.Lock(); defer clock.Unlock(); return clock.now }
	pass := func(d time.Duration) { clock.Lock(); defer clock.Unlock(); clock.now = clock.now.Add(d) }
	nodes := []*postgres.Ledger{open(t, url, postgres.WithClock(now)), open(t, url, postgres.WithClock(now))}
	const window = 24 * time.Hour
	for round := range 30 {
		if round == 20 {
			pass(10 * 24 * time.Hour) // a stretch without anything, past all windows
		}
		batch := intents(fmt.Sprint(round), 50, notifier.OrderSendFirst)
		for i := range batch {
			batch[i].ExpiresAt, batch[i].KeepFor = time.Time{}, window
		}
		first, err := nodes[0].Accept(t.Context(), batch)
		if err != nil {
			t.Fatal(err)
		}
		finish(t, nodes[0], len(batch))
		pass(window - time.Second) // just before the keys' time ends
		var all sync.WaitGroup
		for _, n := range nodes {
			all.Go(func() {
				// Two droppers and two trimmers at once, while the repeats come in.
				if _, err := n.Drop(t.Context(), 0); err != nil {
					t.Errorf("drop: %v", err)
				}
				if _, err := n.Sweep(t.Context(), 100, false); err != nil {
					t.Errorf("sweep: %v", err)
				}
			})
			all.Go(func() {
				again, err := n.Accept(t.Context(), batch)
				if err != nil {
					t.Errorf("accept again: %v", err)
					return
				}
				for i := range again {
					if !again[i].Replayed || again[i].ID != first[i].ID {
						t.Errorf("round %d: key %q within its time: got %+v, want a repeat of %v", round, batch[i].Key, again[i], first[i].ID)
					}
				}
			})
		}
		all.Wait()
		pass(time.Second)
		later, err := nodes[1].Accept(t.Context(), batch[:1])
		if err != nil || later[0].Replayed || later[0].ID == first[0].ID {
			t.Errorf("round %d: a key past its time: got %+v, %v; want a new notification", round, later, err)
		}
		finish(t, nodes[1], 1)
	}
	dropped, err := nodes[0].Drop(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	if len(dropped) == 0 {
		t.Error("nothing was dropped in the end")
	}
	wantSound(t, nodes[0])
}

func finish(t *testing.T, l *postgres.Ledger, n int) {
	t.Helper()
	leased, err := l.Lease(t.Context(), busyLane, n, "me")
	if err != nil || len(leased) != n {
		t.Fatalf("lease: got %d, %v; want %d", len(leased), err, n)
	}
	for _, d := range leased {
		c := []notifier.Completion{{Hold: d.Hold(), State: notifier.StateSent, Called: true, Attempt: notifier.Attempt{Outcome: notifier.OutcomeSent}}}
		if _, err := l.Complete(t.Context(), "me", c); err != nil {
			t.Fatal(err)
		}
	}
}

func TestSweep_ManyAtOnceCloseEachOnce(t *testing.T) {
	t.Parallel()
	url := migrated(t)
	l := open(t, url)
	in := intents("a", 200, notifier.OrderSendFirst)
	for i := range in {
		in[i].Deliveries[0].Terms.Lease = time.Millisecond
	}
	if _, err := l.Accept(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	if got, err := l.Lease(t.Context(), busyLane, 200, "dead"); err != nil || len(got) != 200 {
		t.Fatalf("lease: got %d, %v", len(got), err)
	}
	var all sync.WaitGroup
	var mu sync.Mutex
	swept := make(map[notifier.DeliveryID]int)
	for range 4 {
		all.Go(func() {
			for range 20 {
				got, err := l.Sweep(t.Context(), 50, false)
				if err != nil {
					t.Errorf("sweep: %v", err)
				}
				mu.Lock()
				for _, s := range got {
					swept[s.ID]++
				}
				mu.Unlock()
			}
		})
	}
	all.Wait()
	if len(swept) != 200 {
		t.Errorf("swept %d deliveries, want 200", len(swept))
	}
	for id, n := range swept {
		if n != 1 {
			t.Errorf("%v was swept %d times", id, n)
		}
	}
	wantSound(t, l)
}

func TestAudit_SaysWhatWeakensThePromise(t *testing.T) {
	t.Parallel()
	url := migrated(t)
	if got, err := open(t, url).Audit(t.Context()); err != nil || len(got) != 0 {
		t.Errorf("got %v, %v; want nothing about a server that is set right", got, err)
	}
	weak := servertest.NewPostgres(t, "fsync=off", "full_page_writes=off")
	bad := weak.Database(t)
	if _, err := postgres.Migrate(t.Context(), bad); err != nil {
		t.Fatal(err)
	}
	got, err := open(t, bad).Audit(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var settings []string
	for _, w := range got {
		settings = append(settings, w.Setting)
	}
	if s := strings.Join(settings, " "); s != "fsync full_page_writes" {
		t.Errorf("got %q, want fsync and full_page_writes", s)
	}
}

// A commit that is acknowledged is on its way to the disk, whatever the
// database's own default says.
func TestOpen_CommitsAreSynchronousWhateverTheDefault(t *testing.T) {
	t.Parallel()
	server := servertest.NewPostgres(t, "synchronous_commit=off")
	url := server.Database(t)
	if _, err := postgres.Migrate(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	if got, err := open(t, url).Audit(t.Context()); err != nil || len(got) != 0 {
		t.Errorf("got %v, %v; want nothing: our own connections set it", got, err)
	}
	plain, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close(context.Background())
	var set string
	if err := plain.QueryRow(t.Context(), `SHOW synchronous_commit`).Scan(&set); err != nil || set != "off" {
		t.Errorf("the default is %q, %v; the test wants it off", set, err)
	}
}

// Two nodes that sweep after a pause has ended leave none of what it held behind.
func TestRelease_ManyAtOnceLeaveNothing(t *testing.T) {
	t.Parallel()
	url := migrated(t)
	nodes := []*postgres.Ledger{open(t, url), open(t, url)}
	const n = 6000 // more than one sweep makes due
	pause, err := nodes[0].Pause(t.Context(), notifier.Pause{Type: "order_shipped", Cause: notifier.PauseOperator})
	if err != nil {
		t.Fatal(err)
	}
	for at := 0; at < n; at += 500 {
		if _, err := nodes[0].Accept(t.Context(), intents(fmt.Sprint(at), 500, notifier.OrderSendFirst)); err != nil {
			t.Fatal(err)
		}
		leased, err := nodes[0].Lease(t.Context(), busyLane, 500, "me")
		if err != nil {
			t.Fatal(err)
		}
		var back []notifier.Return
		for _, d := range leased {
			back = append(back, notifier.Return{Hold: d.Hold(), Reason: notifier.ReasonPaused, After: time.Hour})
		}
		if _, err := nodes[0].Return(t.Context(), "me", back); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := nodes[0].Resume(t.Context(), pause.ID, "ann", ""); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for _, node := range nodes {
		all.Go(func() {
			for range 4 {
				if _, err := node.Sweep(t.Context(), 100, false); err != nil {
					t.Errorf("sweep: %v", err)
				}
			}
		})
	}
	all.Wait()
	left, err := nodes[0].Lease(t.Context(), busyLane, n+1, "me")
	if err != nil || len(left) != n {
		t.Errorf("%d deliveries are due again, %v; want %d", len(left), err, n)
	}
}

// A delivery that has waited is old, and when its next lease lapses too it is
// far behind where leasing has got to: it is leased again all the same.
func TestSweep_WhatIsOldIsFoundAgain(t *testing.T) {
	t.Parallel()
	clock := ledgertest.NewClock()
	l := open(t, migrated(t), postgres.WithClock(clock.Now))
	lease := func() (got []notifier.Leased) {
		t.Helper()
		got, err := l.Lease(t.Context(), busyLane, 10, "me")
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	accept := func(key string) {
		t.Helper()
		in := intents(key, 1, notifier.OrderSendFirst)
		in[0].ExpiresAt = time.Time{}
		if _, err := l.Accept(t.Context(), in); err != nil {
			t.Fatal(err)
		}
	}
	accept("old")
	old := lease()[0]
	if _, err := l.Return(t.Context(), "me", []notifier.Return{{Hold: old.Hold(), Reason: notifier.ReasonBackoff, After: 2 * time.Minute}}); err != nil {
		t.Fatal(err)
	}
	clock.Add(time.Minute)
	accept("new")
	lease()
	// The watermark moves to the new one, a minute past the old.
	for began := time.Now(); time.Since(began) < 500*time.Millisecond; {
		lease()
	}
	clock.Add(time.Minute)
	if got := lease(); len(got) != 1 || got[0].ID != old.ID {
		t.Fatalf("leased %+v, want the old one", got)
	}
	clock.Add(2 * time.Minute)
	if _, err := l.Sweep(t.Context(), 10, false); err != nil {
		t.Fatal(err)
	}
	found := false
	for _, d := range lease() {
		found = found || d.ID == old.ID
	}
	if !found {
		t.Error("the old one is not leased again")
	}
}
