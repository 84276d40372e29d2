package redisscript

import (
	"context"
	"errors"
	"net"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seed-4b260dfd/notifier/servertest"
)

func TestCluster_LostReply(t *testing.T) {
	t.Parallel()
	cluster := servertest.NewRedisCluster(t)
	proxies := map[string]*servertest.Proxy{}
	for _, n := range cluster.Nodes() {
		proxies[n.Addr()] = servertest.NewProxy(t, n.Addr())
	}
	o, err := options(cluster.URL())
	if err != nil {
		t.Fatal(err)
	}
	o.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, proxies[addr].Addr())
	}
	client := redis.NewUniversalClient(o)
	t.Cleanup(func() { _ = client.Close() })
	r := NewRunner(client)
	for i := range 20 { // all nodes know the script
		runs(t, r, "warm"+strconv.Itoa(i), "w")
	}
	home := nodeOf(t, r, "key")
	lost := proxies[home].DropReply(servertest.Contains("key"), 1)
	before := r.RoundTrips()
	runs(t, r, "key", "word")
	select {
	case <-lost:
	default:
		t.Fatal("nothing was lost")
	}
	if n := executions(t, client, "key"); n != 2 {
		t.Errorf("%d executions, want 2", n)
	}
	if trips := r.RoundTrips() - before; trips != 2 {
		t.Errorf("%d round trips, want 2: one for each time it was sent", trips)
	}
}

// nodeOf returns the address of the node that has a key.
func nodeOf(t *testing.T, r *Runner, key string) string {
	t.Helper()
	node, err := r.cluster.MasterForKey(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	return node.Options().Addr
}

// A slot that moves, or is about to, costs no call its answer.
func TestCluster_SlotMoves(t *testing.T) {
	t.Parallel()
	cluster := servertest.NewRedisCluster(t)
	r := newRunner(t, cluster.URL())
	runs(t, r, "key", "before")
	from, to := cluster.Nodes()[0], cluster.Nodes()[1]
	for _, n := range cluster.Nodes() {
		if n.Addr() == nodeOf(t, r, "key") {
			from = n
		}
	}
	if from == to {
		to = cluster.Nodes()[2]
	}
	slot := slotOf(t, from, "key")
	fromID, toID := id(t, from), id(t, to)
	do := func(on *servertest.Redis, words ...any) { order(t, on, words...) }
	do(from, "del", "key")
	do(to, "cluster", "setslot", slot, "importing", fromID)
	do(from, "cluster", "setslot", slot, "migrating", toID)
	runs(t, r, "key", "asked elsewhere")
	for _, n := range []*servertest.Redis{to, from} {
		do(n, "cluster", "setslot", slot, "node", toID)
	}
	runs(t, r, "key", "moved")
	if n := executions(t, to.Client(), "key"); n != 2 {
		t.Errorf("%d executions at the new place, want 2", n)
	}
}

func slotOf(t *testing.T, on *servertest.Redis, key string) int64 {
	t.Helper()
	slot, err := on.Client().ClusterKeySlot(t.Context(), key).Result()
	if err != nil {
		t.Fatal(err)
	}
	return slot
}

func id(t *testing.T, of *servertest.Redis) string {
	t.Helper()
	id, err := of.Client().Do(t.Context(), "cluster", "myid").Text()
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func order(t *testing.T, on *servertest.Redis, words ...any) {
	t.Helper()
	if err := on.Client().Do(t.Context(), words...).Err(); err != nil {
		t.Fatal(err)
	}
}

// A node that is dead tells nobody who has taken its slots: who asks for one is
// answered by the new owner all the same, long before go-redis looks by itself.
func TestCluster_SlotsOfADeadNode(t *testing.T) {
	t.Parallel()
	cluster := servertest.NewRedisCluster(t, "--cluster-require-full-coverage", "no")
	r := newRunner(t, cluster.URL())
	runs(t, r, "key", "before")
	var dead *servertest.Redis
	var alive []*servertest.Redis
	for _, n := range cluster.Nodes() {
		if n.Addr() == nodeOf(t, r, "key") {
			dead = n
		} else {
			alive = append(alive, n)
		}
	}
	slot, heir := slotOf(t, dead, "key"), id(t, alive[0])
	if err := dead.Kill(); err != nil {
		t.Fatal(err)
	}
	for _, n := range alive {
		order(t, n, "cluster", "setslot", slot, "node", heir)
	}
	start := time.Now()
	runs(t, r, "key", "after")
	if took := time.Since(start); took > patience {
		t.Errorf("it took %v, want at most %v", took, patience)
	}
}

// A dead node takes its own keys out, and holds up nothing else.
func TestCluster_OneNodeDead(t *testing.T) {
	t.Parallel()
	cluster := servertest.NewRedisCluster(t, "--cluster-require-full-coverage", "no")
	r := newRunner(t, cluster.URL())
	runs(t, r, "warm", "w")
	dead := cluster.Nodes()[0]
	var gone, alive []string
	for i := 0; len(gone) < 10 || len(alive) < 10; i++ {
		key := "key" + strconv.Itoa(i)
		runs(t, r, key, "before")
		if nodeOf(t, r, key) == dead.Addr() {
			gone = append(gone, key)
		} else {
			alive = append(alive, key)
		}
	}
	if err := dead.Pause(); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for _, key := range gone {
		all.Go(func() {
			if _, err := r.Run(t.Context(), count, []string{key}, "x"); !errors.Is(err, ErrUnreachable) {
				t.Errorf("%s: got %v, want %v", key, err, ErrUnreachable)
			}
		})
	}
	start := time.Now()
	for _, key := range alive {
		runs(t, r, key, "x")
	}
	if took := time.Since(start); took > unfit {
		t.Errorf("%d calls to living nodes took %v", len(alive), took)
	}
	all.Wait()
	for _, key := range alive {
		runs(t, r, key, "x")
	}
	if err := dead.Resume(); err != nil {
		t.Fatal(err)
	}
	awaitAnswer(t, r, gone[0])
}

// A cluster that is dead when the process starts is found once it is there.
func TestCluster_DeadAtFirst(t *testing.T) {
	t.Parallel()
	cluster := servertest.NewRedisCluster(t)
	for _, n := range cluster.Nodes() {
		if err := n.Kill(); err != nil {
			t.Fatal(err)
		}
	}
	r := newRunner(t, cluster.URL())
	for range 2 {
		start := time.Now()
		if _, err := r.Run(t.Context(), count, []string{"a"}, "x"); !errors.Is(err, ErrUnreachable) {
			t.Fatalf("got %v, want %v", err, ErrUnreachable)
		}
		if took := time.Since(start); took > patience+unfit {
			t.Errorf("it took %v to say so, want at most %v", took, patience)
		}
	}
	for _, n := range cluster.Nodes() {
		if err := n.Restart(); err != nil {
			t.Fatal(err)
		}
	}
	awaitAnswer(t, r, "a")
}

func TestSentinel_Failover(t *testing.T) {
	t.Parallel()
	pair := servertest.NewRedisSentinel(t)
	r := newRunner(t, pair.URL())
	runs(t, r, "a", "before")
	for range 2 { // there and back
		if err := pair.KillPrimary(); err != nil {
			t.Fatal(err)
		}
		if _, err := r.Run(t.Context(), count, []string{"a"}, "x"); err != nil && !errors.Is(err, ErrUnreachable) {
			t.Errorf("while there is no primary: got %v, want %v or an answer", err, ErrUnreachable)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		if err := pair.WaitPromoted(ctx); err != nil {
			t.Fatal(err)
		}
		awaitAnswer(t, r, "a")
		if err := pair.Rejoin(ctx); err != nil {
			t.Fatal(err)
		}
	}
}
