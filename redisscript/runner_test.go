package redisscript

import (
	"context"
	"errors"
	"flag"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seed-4b260dfd/notifier/servertest"
)

// Most of these tests wait: more of them at once than there are processors are
// no load.
func TestMain(m *testing.M) {
	if err := flag.Set("test.parallel", "16"); err != nil {
		panic(err)
	}
	servertest.Main(m)
}

// count notes every time it is executed, and is safe to repeat but for that.
var count = New(`redis.call('INCR', KEYS[1]) return ARGV[1]`)

// unfit is how late an answer may come on a machine that is busy with more.
const unfit = time.Second

func newRunner(tb testing.TB, url string) *Runner {
	tb.Helper()
	client, err := Open(url)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = client.Close() })
	return NewRunner(client)
}

// runs executes count and wants its answer.
func runs(t *testing.T, r *Runner, key, word string) {
	t.Helper()
	got, err := r.Run(t.Context(), count, []string{key}, word)
	if err != nil || got != word {
		t.Fatalf("got %v, %v, want %s", got, err, word)
	}
}

func executions(t *testing.T, client redis.Cmdable, key string) int64 {
	t.Helper()
	n, err := client.Get(t.Context(), key).Int64()
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestRun_Replies(t *testing.T) {
	t.Parallel()
	r := newRunner(t, servertest.SharedRedis(t).URL())
	for source, want := range map[string]any{
		`return 'word'`: "word", `return 7`: int64(7), `return nil`: nil, `return false`: nil, `return ''`: "",
	} {
		got, err := r.Run(t.Context(), New(source), []string{t.Name()})
		if err != nil || got != want {
			t.Errorf("%s: got %v, %v, want %v", source, got, err, want)
		}
	}
	got, err := r.Run(t.Context(), New(`return {KEYS[1], KEYS[2], ARGV[1], #ARGV}`), []string{"{a}1", "{a}2"}, int64(1)<<62, "x")
	if fields, _ := got.([]any); err != nil || !slices.Equal(fields, []any{"{a}1", "{a}2", "4611686018427387904", int64(2)}) {
		t.Errorf("got %v, %v", got, err)
	}
}

func TestRun_ScriptsOwnErrorAtOnce(t *testing.T) {
	t.Parallel()
	r := newRunner(t, servertest.SharedRedis(t).URL())
	for _, source := range []string{`error('broken')`, `return redis.error_reply('ERR broken')`, `return redis.call('GET')`, `syntax error`} {
		before := r.RoundTrips()
		_, err := r.Run(t.Context(), New(source), []string{t.Name()})
		if err == nil || errors.Is(err, ErrUnreachable) {
			t.Errorf("%s: got %v, want the script's error", source, err)
		}
		if trips := r.RoundTrips() - before; trips > 2 { // by the digest, then with the source
			t.Errorf("%s: %d round trips", source, trips)
		}
	}
}

// A lost reply is made good by one more call, which Run makes and go-redis
// does not.
func TestRun_LostReply(t *testing.T) {
	t.Parallel()
	server := servertest.SharedRedis(t)
	proxy := servertest.NewProxy(t, server.Addr())
	r := newRunner(t, proxy.URL(server.URL()))
	runs(t, r, t.Name()+"/warm", "w")
	for i, lose := range []func(func([]byte) bool, int) <-chan struct{}{proxy.DropReply, proxy.DropRequest} {
		key := t.Name() + "/" + strconv.Itoa(i)
		lost := []<-chan struct{}{
			lose(servertest.Contains(key), 1), lose(servertest.Contains(key), 2), lose(servertest.Contains(key), 3),
		}
		before := r.RoundTrips()
		runs(t, r, key, "word")
		for _, l := range lost {
			select {
			case <-l:
			default:
				t.Fatal("nothing was lost")
			}
		}
		want := []int64{4, 1}[i]
		if n := executions(t, server.Client(), key); n != want {
			t.Errorf("%d executions, want %d", n, want)
		}
		if trips := r.RoundTrips() - before; trips != 4 {
			t.Errorf("%d round trips, want 4: one for each time it was sent", trips)
		}
	}
}

func TestRun_DeadUntilItIsBack(t *testing.T) {
	t.Parallel()
	server := servertest.NewRedis(t)
	r := newRunner(t, server.URL())
	runs(t, r, "a", "before")
	for name, fault := range map[string]struct{ begin, end func() error }{
		"paused": {server.Pause, server.Resume},
		"killed": {server.Kill, server.RestartEmpty}, // knows no script
	} {
		if err := fault.begin(); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		_, err := r.Run(t.Context(), count, []string{"a"}, "x")
		if took := time.Since(start); !errors.Is(err, ErrUnreachable) || took > patience+unfit {
			t.Fatalf("%s: got %v after %v, want %v within %v", name, err, took, ErrUnreachable, patience)
		}
		start = time.Now()
		for range 100 {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			if _, err := r.Run(ctx, count, []string{"a"}, "x"); !errors.Is(err, ErrUnreachable) {
				t.Fatalf("%s: got %v, want %v", name, err, ErrUnreachable)
			}
			cancel()
		}
		// One of them at most is the one that looks whether it is back.
		if took := time.Since(start); took > patience+unfit {
			t.Errorf("%s: 100 calls took %v", name, took)
		}
		if n := slowOf(t, r, 50); n > 1 {
			t.Errorf("%s: %d of 50 callers waited to see whether it is back, want 1", name, n)
		}
		if err := fault.end(); err != nil {
			t.Fatal(err)
		}
		awaitAnswer(t, r, "a")
	}
}

// slowOf has n callers call at once, when a probe is due, and returns how many
// were not turned away at once.
func slowOf(t *testing.T, r *Runner, n int) int64 {
	t.Helper()
	<-time.After(2 * probeEvery)
	var slow atomic.Int64
	var all sync.WaitGroup
	for range n {
		all.Go(func() {
			start := time.Now()
			_, _ = r.Run(t.Context(), count, []string{"a"}, "x")
			if time.Since(start) > patience/2 {
				slow.Add(1)
			}
		})
	}
	all.Wait()
	return slow.Load()
}

// awaitAnswer wants a runner to find by itself that its server is back.
func awaitAnswer(t *testing.T, r *Runner, key string) {
	t.Helper()
	retry := time.NewTicker(20 * time.Millisecond)
	defer retry.Stop()
	for start := time.Now(); ; <-retry.C {
		_, err := r.Run(t.Context(), count, []string{key}, "x")
		if err == nil {
			return
		}
		if !errors.Is(err, ErrUnreachable) || time.Since(start) > 20*time.Second {
			t.Fatalf("after %v: got %v", time.Since(start), err)
		}
	}
}

// A short interruption is within the patience: no caller hears of it.
func TestRun_OverARestart(t *testing.T) {
	t.Parallel()
	server := servertest.NewRedis(t)
	r := newRunner(t, server.URL())
	runs(t, r, "a", "before")
	if err := server.Kill(); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		_, err := r.Run(t.Context(), count, []string{"a"}, "x")
		done <- err
	}()
	if err := server.Restart(); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Errorf("got %v, want the interruption bridged", err)
	}
}

// Servers that answer everything with a refusal decide nothing.
func TestRun_Refusals(t *testing.T) {
	t.Parallel()
	secret := servertest.NewRedis(t)
	if err := secret.Client().ConfigSet(t.Context(), "requirepass", "hunter2").Err(); err != nil {
		t.Fatal(err)
	}
	replica := servertest.NewRedis(t, "--replicaof", "127.0.0.1 1")
	full := servertest.NewRedis(t, "--maxmemory", "1")
	wrong := strings.Replace(secret.URL(), "redis://", "redis://:hunter3@", 1)
	for name, url := range map[string]string{
		"no password": secret.URL(), "wrong password": wrong, "replica": replica.URL(), "full": full.URL(),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRunner(t, url)
			got, err := r.Run(t.Context(), count, []string{"a"}, "x")
			if !errors.Is(err, ErrUnreachable) || strings.Contains(err.Error(), "hunter") {
				t.Errorf("got %v, %v, want %v", got, err, ErrUnreachable)
			}
		})
	}
}

// Who gives up gets the context's error at once, and the others their answers.
func TestRun_OneGivesUp(t *testing.T) {
	t.Parallel()
	server := servertest.SharedRedis(t)
	proxy := servertest.NewProxy(t, server.Addr())
	r := newRunner(t, proxy.URL(server.URL()))
	runs(t, r, t.Name(), "warm")
	proxy.Blackhole(true)
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for i := range 40 {
		all.Go(func() {
			if i%2 == 0 {
				if _, err := r.Run(ctx, count, []string{t.Name()}, i); !errors.Is(err, context.Canceled) {
					t.Errorf("got %v, want %v", err, context.Canceled)
				}
				return
			}
			if got, err := r.Run(t.Context(), count, []string{t.Name()}, i); err != nil || got != strconv.Itoa(i) {
				t.Errorf("got %v, %v, want %d", got, err, i)
			}
		})
	}
	cancel()
	proxy.Blackhole(false)
	all.Wait()
	late, stop := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer stop()
	proxy.Blackhole(true)
	_, err := r.Run(late, count, []string{t.Name()}, "x")
	if !errors.Is(err, ErrUnreachable) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("past a deadline: got %v, want %v and %v", err, ErrUnreachable, context.DeadlineExceeded)
	}
}

// While replies take their time, calls gather.
func TestRun_ManyCallsShareRoundTrips(t *testing.T) {
	t.Parallel()
	server := servertest.SharedRedis(t)
	proxy := servertest.NewProxy(t, server.Addr())
	r := newRunner(t, proxy.URL(server.URL()))
	runs(t, r, t.Name(), "warm")
	proxy.Delay(2 * time.Millisecond)
	const callers, calls = 100, 20
	var all sync.WaitGroup
	for i := range callers {
		all.Go(func() {
			for j := range calls {
				word := strconv.Itoa(i*calls + j)
				if got, err := r.Run(t.Context(), count, []string{t.Name()}, word); err != nil || got != word {
					t.Errorf("got %v, %v, want %s", got, err, word)
				}
			}
		})
	}
	all.Wait()
	t.Logf("%d calls in %d round trips", callers*calls, r.RoundTrips())
	if most := int64(callers * calls / 10); r.RoundTrips() > most {
		t.Errorf("%d round trips for %d calls, want at most %d", r.RoundTrips(), callers*calls, most)
	}
	// A machine that stands still for as long as a reply is waited for makes a
	// trip to be repeated; more than two would be calls that are sent twice.
	n := executions(t, server.Client(), t.Name())
	if n < callers*calls+1 || n > callers*calls+1+2*callsPerTrip {
		t.Errorf("%d executions, want %d", n, callers*calls+1)
	}
}
