package redisaudit

import (
	"context"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/seed-4b260dfd/notifier/servertest"
)

func wantIntact(t *testing.T, a *Audit, want bool) {
	t.Helper()
	got, err := a.Intact(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if got != want {
		t.Fatalf("got intact %v, want %v", got, want)
	}
}

func fill(t *testing.T, a *Audit) {
	t.Helper()
	if err := a.Filled(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// The ways to lose everything: each is noticed by all that look, also when
// somebody else has filled it before they did, and by none again after that.
func TestIntact_LostData(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(*servertest.Redis) error{
		"flushed":         (*servertest.Redis).Flush,
		"restarted empty": (*servertest.Redis).RestartEmpty,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := servertest.NewRedis(t)
			a, b := newAudit(t, server.URL()), newAudit(t, server.URL())
			wantIntact(t, a, false) // never filled
			fill(t, a)
			wantIntact(t, a, true)
			wantIntact(t, b, true)
			if err := lose(server); err != nil {
				t.Fatal(err)
			}
			awaitAnswer(t, a)
			wantIntact(t, a, false)
			wantIntact(t, a, false)
			fill(t, a)
			wantIntact(t, a, true)
			awaitAnswer(t, b)
			wantIntact(t, b, false)
			fill(t, b)
			wantIntact(t, b, true)
			wantIntact(t, a, true)
		})
	}
}

// awaitAnswer waits until the way to a server that was restarted is open again.
func awaitAnswer(t *testing.T, a *Audit) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		if _, err := a.Mark(ctx, "", ""); err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatal("the server does not answer")
		}
	}
}

func TestIntact_RestartedWithItsData(t *testing.T) {
	t.Parallel()
	server := servertest.NewRedis(t)
	a := newAudit(t, server.URL())
	wantIntact(t, a, false)
	fill(t, a)
	if err := server.Restart(); err != nil {
		t.Fatal(err)
	}
	awaitAnswer(t, a)
	wantIntact(t, a, true)
}

// Who fills may die on the way, and the data may go once more meanwhile: it is
// not taken for filled.
func TestIntact_FillingThatDoesNotEnd(t *testing.T) {
	t.Parallel()
	server := servertest.NewRedis(t)
	dead, next := newAudit(t, server.URL()), newAudit(t, server.URL())
	wantIntact(t, dead, false)
	wantIntact(t, next, false)
	if err := server.Flush(); err != nil {
		t.Fatal(err)
	}
	fill(t, next)
	wantIntact(t, next, false)
	fill(t, next)
	wantIntact(t, next, true)
	wantIntact(t, newAudit(t, server.URL()), true)
}

// Each primary of a cluster has its markers.
func TestIntact_OnePrimaryOfACluster(t *testing.T) {
	t.Parallel()
	cluster := servertest.NewRedisCluster(t)
	a := newAudit(t, cluster.URL())
	wantIntact(t, a, false)
	fill(t, a)
	for i, node := range cluster.Nodes() {
		wantIntact(t, a, true)
		if err := node.Flush(); err != nil {
			t.Fatal(err)
		}
		got, err := a.Intact(t.Context())
		if err != nil || got {
			t.Errorf("node %d was emptied: got intact %v, %v, want it noticed", i, got, err)
		}
		fill(t, a)
	}
}

func TestSlot_AsTheServerHasIt(t *testing.T) {
	t.Parallel()
	c := servertest.NewRedisCluster(t).Nodes()[0].Client()
	for i := range 50 {
		tag := ledger + "/" + strconv.Itoa(i)
		want, err := c.ClusterKeySlot(t.Context(), "{"+tag+"}:marker").Result()
		if err != nil {
			t.Fatal(err)
		}
		if got := slot(tag); int64(got) != want {
			t.Errorf("slot of %s: got %d, want %d", tag, got, want)
		}
	}
}

// What one noticed is known to the next, for the longest of what was said.
func TestLost_IsKeptForALimitedTime(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(*testing.T) string{
		"server":  func(t *testing.T) string { return servertest.NewRedis(t).URL() },
		"cluster": func(t *testing.T) string { return servertest.NewRedisCluster(t).URL() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := open(t)
			a, b := newAudit(t, url), newAudit(t, url)
			want := func(a *Audit, lasts, atLeast, atMost time.Duration) {
				t.Helper()
				left, err := a.Lost(t.Context(), lasts)
				if err != nil || left < atLeast || left > atMost {
					t.Errorf("lost for %v: got %v left, %v, want %v to %v", lasts, left, err, atLeast, atMost)
				}
			}
			want(a, 0, 0, 0)
			want(a, time.Hour, time.Hour, time.Hour)
			want(b, 0, time.Minute, time.Hour)
			want(b, time.Minute, time.Minute+1, time.Hour)
			want(b, 2*time.Hour, 2*time.Hour, 2*time.Hour)
			want(New(client(t, url), "another"), 0, 0, 0)
		})
	}
}

func wantMark(t *testing.T, a *Audit, was, is, want string) {
	t.Helper()
	got, err := a.Mark(t.Context(), was, is)
	if err != nil {
		t.Fatal(err)
	}
	if got != want {
		t.Errorf("mark %q after %q: got %q, want %q", is, was, got, want)
	}
}

func TestMark_OnlyInThePlaceOfTheOneBefore(t *testing.T) {
	t.Parallel()
	server := servertest.NewRedis(t)
	a, b := newAudit(t, server.URL()), newAudit(t, server.URL())
	wantMark(t, a, "", "", "")
	wantMark(t, a, "", "1", "1")
	wantMark(t, a, "1", "2", "2")
	wantMark(t, a, "1", "2", "2") // its reply was lost
	wantMark(t, b, "1", "3", "2")
	wantMark(t, b, "", "3", "2")
	wantMark(t, b, "", "", "2")
	wantMark(t, New(client(t, server.URL()), "another"), "", "", "")
	if ttl := server.Client().TTL(t.Context(), "{"+ledger+"}:mark").Val(); ttl != -1 {
		t.Errorf("the mark ends in %v, want never", ttl)
	}
	if err := server.Flush(); err != nil {
		t.Fatal(err)
	}
	wantMark(t, b, "2", "3", "3")
}

// Of many that move the mark on at once one does.
func TestMark_AtOnce(t *testing.T) {
	t.Parallel()
	server := servertest.SharedRedis(t)
	a := New(client(t, server.URL()), t.Name())
	wantMark(t, a, "", "0", "0")
	var all sync.WaitGroup
	got := make([]string, 20)
	for i := range got {
		all.Go(func() {
			var err error
			if got[i], err = a.Mark(t.Context(), "0", strconv.Itoa(i+1)); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	for i := range got {
		if got[i] != got[0] || got[i] == "0" {
			t.Errorf("got the marks %q, want one and the same", got)
			break
		}
	}
}

// A replica that takes over brings marker and mark along.
func TestSentinel_Failover(t *testing.T) {
	t.Parallel()
	pair := servertest.NewRedisSentinel(t)
	a := newAudit(t, pair.URL())
	wantIntact(t, a, false)
	fill(t, a)
	wantMark(t, a, "", "1", "1")
	if err := pair.Primary().Client().Wait(t.Context(), 1, 5*time.Second).Err(); err != nil {
		t.Fatal(err)
	}
	if err := pair.KillPrimary(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if err := pair.WaitPromoted(ctx); err != nil {
		t.Fatal(err)
	}
	awaitAnswer(t, a)
	wantIntact(t, a, true)
	wantMark(t, a, "", "", "1")
	wantFaults(t, a)
}
