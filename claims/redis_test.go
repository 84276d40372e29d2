package claims_test

import (
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-4b260dfd/notifier/claims"
	"github.com/seed-4b260dfd/notifier/claims/claimstest"
	"github.com/seed-4b260dfd/notifier/redisscript"
	"github.com/seed-4b260dfd/notifier/servertest"
)

// Most of these tests wait for a real clock: more of them at once than there
// are processors are no load.
func TestMain(m *testing.M) {
	if err := flag.Set("test.parallel", "16"); err != nil {
		panic(err)
	}
	servertest.Main(m)
}

// slack is how far a test on a real server may be behind its own waits.
const slack = 600 * time.Millisecond

func TestRedis(t *testing.T) {
	t.Parallel()
	r := newRunner(t, servertest.SharedRedis(t).URL())
	runSuite(t, func(*testing.T) *redisscript.Runner { return r })
}

// The rights that deploy/ gives a node are enough.
func TestRedis_AsANode(t *testing.T) {
	t.Parallel()
	for name, url := range map[string]string{
		"standalone": servertest.NewRedis(t).AsNode(t, "../deploy/redis.conf"),
		"cluster":    servertest.NewRedisCluster(t).AsNode(t, "../deploy/redis.conf"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRunner(t, url)
			runSuite(t, func(*testing.T) *redisscript.Runner { return r })
		})
	}
}

func TestRedis_Cluster(t *testing.T) {
	t.Parallel()
	r := newRunner(t, servertest.NewRedisCluster(t).URL())
	runSuite(t, func(*testing.T) *redisscript.Runner { return r })
}

// Whatever the store promises, it promises over a network that loses every
// seventh answer, and the request instead now and then. Each rule has a network
// of its own: a loss cuts the connection, and with it all that is under way.
func TestRedis_LossyNetwork(t *testing.T) {
	t.Parallel()
	var losses atomic.Int64
	t.Cleanup(func() { // after the rules, which are parallel
		t.Logf("%d losses", losses.Load())
		if losses.Load() < 100 {
			t.Errorf("only %d losses", losses.Load())
		}
	})
	runSuite(t, func(t *testing.T) *redisscript.Runner {
		server := servertest.SharedRedis(t)
		proxy := servertest.NewProxy(t, server.Addr())
		stop, stopped := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(stopped)
			for n := 1; ; n++ {
				lose := proxy.DropReply
				if n%5 == 0 {
					lose = proxy.DropRequest
				}
				select {
				case <-lose(servertest.Contains("evalsha"), 7):
					losses.Add(1)
				case <-stop:
					return
				}
			}
		}()
		t.Cleanup(func() { close(stop); <-stopped })
		return newRunner(t, proxy.URL(server.URL()))
	})
}

func runSuite(t *testing.T, runner func(*testing.T) *redisscript.Runner) {
	claimstest.Run(t, func(t *testing.T, test func(*testing.T, claimstest.Subject)) {
		test(t, claimstest.Subject{
			Claims: claims.NewRedis(runner(t), rand.Text()),
			Pass:   func(d time.Duration) { <-time.After(d) },
			Slack:  slack,
		})
	})
}

// newRunner returns a runner over a client of its own.
func newRunner(tb testing.TB, url string) *redisscript.Runner {
	tb.Helper()
	client, err := redisscript.Open(url)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := client.Close(); err != nil {
			tb.Error(err)
		}
	})
	return redisscript.NewRunner(client)
}

// Each script, its reply lost: the repeat gives the answer that was lost and
// leaves behind what one call leaves.
func TestRedis_LostReplyOfEach(t *testing.T) {
	t.Parallel()
	server := servertest.SharedRedis(t)
	proxy := servertest.NewProxy(t, server.Addr())
	near, far := newRunner(t, server.URL()), newRunner(t, proxy.URL(server.URL()))
	for name, steps := range lossCases() {
		run := func(r *redisscript.Runner, lossy bool) (answers []any) {
			prefix := rand.Text()
			s := claims.NewRedis(r, prefix)
			for i, do := range steps {
				var lost <-chan struct{}
				if lossy && i == len(steps)-1 {
					lost = proxy.DropReply(servertest.Contains(prefix), 1)
				}
				answers = append(answers, do(t, s))
				select {
				case <-lost:
				default:
					if lost != nil {
						t.Errorf("%s: no reply was lost", name)
					}
				}
			}
			// What is there afterwards, to a newer attempt.
			return append(answers, acquire(claim(9, "z"))(t, s))
		}
		want, got := run(near, false), run(far, true)
		for i := range want {
			if got[i] != want[i] {
				t.Errorf("%s: answer %d: got %+v, want %+v", name, i, got[i], want[i])
			}
		}
	}
}

// lossCases are calls of which the last one loses its reply.
func lossCases() map[string][]step {
	first, second := claim(1, "a"), claim(2, "b")
	return map[string][]step{
		"acquire":       {acquire(first)},
		"acquire held":  {acquire(first), acquire(second)},
		"acquire stale": {acquire(second), acquire(first)},
		"acquire done":  {settle(first, "sent"), acquire(second)},
		"next":          {next("a")},
		"next held":     {acquire(first), next("b")},
		"renew":         {acquire(first), renew(first)},
		"renew lost":    {acquire(second), renew(first)},
		"release":       {acquire(first), release(first)},
		"release other": {acquire(second), release(first)},
		"settle":        {acquire(first), settle(first, "sent")},
		"settle over":   {settle(first, "unknown"), settle(second, "sent")},
		"settle under":  {settle(second, "sent"), settle(first, "unknown")},
	}
}

// step makes one call, and returns what can be compared of its answer.
type step func(t *testing.T, s *claims.Redis) any

func claim(fence int64, owner string) claims.Claim {
	return claims.Claim{Key: "effect", Fence: fence, Owner: owner}
}

func rounded(t *testing.T, a claims.Answer, err error) any {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
	if a.Fence > 1e12 {
		a.Fence = 0 // of a clock
	}
	a.Left, a.Age = a.Left.Round(time.Minute), a.Age.Round(time.Minute)
	return a
}

func acquire(c claims.Claim) step {
	return func(t *testing.T, s *claims.Redis) any {
		t.Helper()
		a, err := s.Acquire(t.Context(), c, time.Hour)
		return rounded(t, a, err)
	}
}

func next(owner string) step {
	return func(t *testing.T, s *claims.Redis) any {
		t.Helper()
		a, err := s.AcquireNext(t.Context(), "effect", owner, time.Hour)
		return rounded(t, a, err)
	}
}

func renew(c claims.Claim) step {
	return func(t *testing.T, s *claims.Redis) any {
		t.Helper()
		ours, err := s.Renew(t.Context(), c, 2*time.Hour)
		if err != nil {
			t.Error(err)
		}
		return ours
	}
}

func release(c claims.Claim) step {
	return func(t *testing.T, s *claims.Redis) any {
		t.Helper()
		if err := s.Release(t.Context(), c); err != nil {
			t.Error(err)
		}
		return nil
	}
}

func settle(c claims.Claim, outcome string) step {
	return func(t *testing.T, s *claims.Redis) any {
		t.Helper()
		if err := s.Settle(t.Context(), c, outcome, 3*time.Hour); err != nil {
			t.Error(err)
		}
		return nil
	}
}

// Every key belongs to the prefix, is one hash tag, and ends.
func TestRedis_Keys(t *testing.T) {
	t.Parallel()
	server := servertest.NewRedis(t)
	s := claims.NewRedis(newRunner(t, server.URL()), "ledger")
	for _, do := range []step{acquire(claim(1, "a")), renew(claim(1, "a")), settle(claim(1, "a"), "sent")} {
		do(t, s)
	}
	if _, err := s.AcquireNext(t.Context(), "another", "a", time.Hour); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Acquire(t.Context(), claims.Claim{Key: "short", Fence: 1, Owner: "a"}, 1); err != nil { // rounded up
		t.Fatal(err)
	}
	client := server.Client()
	keys, err := client.Keys(t.Context(), "*").Result()
	if err != nil || len(keys) < 3 {
		t.Fatalf("got %q, %v", keys, err)
	}
	for _, k := range keys {
		tag, rest, tagged := strings.Cut(k, "}")
		if !strings.HasPrefix(tag, "{ledger/") || !tagged || rest != "" && rest != ":f" {
			t.Errorf("the key %q has not the form {ledger/…}", k)
		}
		if left := client.PTTL(t.Context(), k).Val(); left == -1 {
			t.Errorf("the key %q never ends", k)
		}
	}
}

// A server whose clock is behind the last fence counts on from it.
func TestRedis_AcquireNextOverAClockThatIsBehind(t *testing.T) {
	t.Parallel()
	server := servertest.SharedRedis(t)
	prefix := rand.Text()
	s := claims.NewRedis(newRunner(t, server.URL()), prefix)
	next("a")(t, s)
	keys, err := server.Client().Keys(t.Context(), "{"+prefix+"/*:f").Result()
	if err != nil || len(keys) != 1 {
		t.Fatalf("the last fence is in %q, %v", keys, err)
	}
	ahead := time.Now().Add(24 * time.Hour).UnixMicro()
	if err := server.Client().Set(t.Context(), keys[0], ahead, time.Hour).Err(); err != nil {
		t.Fatal(err)
	}
	// The claim ends.
	if err := server.Client().Del(t.Context(), strings.TrimSuffix(keys[0], ":f")).Err(); err != nil {
		t.Fatal(err)
	}
	a, err := s.AcquireNext(t.Context(), "effect", "b", time.Hour)
	if err != nil || a.Fence != ahead+1 {
		t.Errorf("got %+v, %v, want fence %d", a, err, ahead+1)
	}
}

func TestRedis_Unreachable(t *testing.T) {
	t.Parallel()
	server := servertest.NewRedis(t)
	s := claims.NewRedis(newRunner(t, server.URL()), "ledger")
	acquire(claim(1, "a"))(t, s)
	if err := server.Kill(); err != nil {
		t.Fatal(err)
	}
	_, acquired := s.Acquire(t.Context(), claim(2, "b"), time.Hour)
	_, next := s.AcquireNext(t.Context(), "effect", "b", time.Hour)
	_, renewed := s.Renew(t.Context(), claim(1, "a"), time.Hour)
	for _, err := range []error{
		acquired, next, renewed, s.Release(t.Context(), claim(1, "a")), s.Settle(t.Context(), claim(1, "a"), "sent", time.Hour),
	} {
		if !errors.Is(err, redisscript.ErrUnreachable) {
			t.Errorf("got %v, want %v", err, redisscript.ErrUnreachable)
		}
	}
	if err := server.Restart(); err != nil {
		t.Fatal(err)
	}
	awaitAnswer(t, s)
	a, err := s.Acquire(t.Context(), claim(2, "b"), time.Hour)
	if err != nil || a.Status != claims.StatusHeld {
		t.Errorf("after a restart with its data: got %+v, %v, want it held", a, err)
	}
	if err := server.RestartEmpty(); err != nil {
		t.Fatal(err)
	}
	awaitAnswer(t, s)
	if a, err = s.Acquire(t.Context(), claim(2, "b"), time.Hour); err != nil || a.Status != claims.StatusGranted {
		t.Errorf("after a restart without its data: got %+v, %v, want it granted", a, err)
	}
}

// awaitAnswer wants the store to find by itself that its server is back.
func awaitAnswer(t *testing.T, s *claims.Redis) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	retry := time.NewTicker(20 * time.Millisecond)
	defer retry.Stop()
	for {
		_, err := s.Renew(ctx, claim(7, "nobody"), time.Second)
		if err == nil {
			return
		}
		if ctx.Err() != nil {
			t.Fatal(err)
		}
		<-retry.C
	}
}
