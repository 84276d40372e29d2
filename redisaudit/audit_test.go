package redisaudit

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seed-4b260dfd/notifier/redisscript"
	"github.com/seed-4b260dfd/notifier/servertest"
)

func TestMain(m *testing.M) { servertest.Main(m) }

const ledger = "7c1b6f0e-4a53-4b43-9d0a-1f4f5d4f7a11"

func client(t *testing.T, url string) redis.UniversalClient {
	t.Helper()
	c, err := redisscript.Open(url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func newAudit(t *testing.T, url string) *Audit {
	t.Helper()
	return New(client(t, url), ledger)
}

func order(t *testing.T, c redis.UniversalClient, words ...any) {
	t.Helper()
	if err := c.Do(t.Context(), words...).Err(); err != nil {
		t.Fatal(err)
	}
}

// wantFaults wants as many faults, each with a word in it.
func wantFaults(t *testing.T, a *Audit, words ...string) {
	t.Helper()
	got, err := a.Audit(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != len(words) {
		t.Fatalf("got %d faults, want %d: %q", len(got), len(words), got)
	}
	for _, word := range words {
		if !slices.ContainsFunc(got, func(fault string) bool { return strings.Contains(fault, word) }) {
			t.Errorf("got %q, want one that says %q", got, word)
		}
	}
}

func TestAudit_Settings(t *testing.T) {
	t.Parallel()
	server := servertest.NewRedis(t)
	a := newAudit(t, server.URL())
	wantFaults(t, a)
	order(t, server.Client(), "config", "set", "maxmemory-policy", "allkeys-lru")
	wantFaults(t, a, "allkeys-lru")
	order(t, server.Client(), "config", "set", "appendonly", "no")
	wantFaults(t, a, "allkeys-lru", "appendonly")
	order(t, server.Client(), "config", "set", "maxmemory-policy", "noeviction")
	order(t, server.Client(), "config", "set", "appendonly", "yes")
	wantFaults(t, a)
}

// A replica is seen as one, and so is a user who may not look.
func TestAudit_RoleAndRights(t *testing.T) {
	t.Parallel()
	primary, replica := servertest.NewRedis(t), servertest.NewRedis(t)
	host, port, _ := strings.Cut(primary.Addr(), ":")
	order(t, replica.Client(), "replicaof", host, port)
	wantFaults(t, newAudit(t, replica.URL()), "replica")

	order(t, primary.Client(), "acl", "setuser", "node", "on", ">secret", "~*", "+@all", "-info", "-config")
	wantFaults(t, newAudit(t, "redis://node:secret@"+primary.Addr()), "cannot be checked")
}

func TestAudit_EveryPrimaryOfACluster(t *testing.T) {
	t.Parallel()
	cluster := servertest.NewRedisCluster(t)
	a := newAudit(t, cluster.URL())
	wantFaults(t, a)
	order(t, cluster.Nodes()[2].Client(), "config", "set", "maxmemory-policy", "volatile-ttl")
	wantFaults(t, a, "volatile-ttl")
}

func TestAudit_ServerAway(t *testing.T) {
	t.Parallel()
	server := servertest.NewRedis(t)
	a := newAudit(t, server.URL())
	if err := server.Kill(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	if faults, err := a.Audit(ctx); err == nil {
		t.Errorf("got %q of a server that is dead, want an error", faults)
	}
	if intact, err := a.Intact(ctx); err == nil {
		t.Errorf("got intact %v of a server that is dead, want an error", intact)
	}
}

// The rights that deploy/ gives a node are enough, and not more: it cannot
// empty the server, nor look around in it.
func TestAudit_AsANode(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(*testing.T) string{
		"standalone": func(t *testing.T) string { return servertest.NewRedis(t).AsNode(t, "../deploy/redis.conf") },
		"cluster":    func(t *testing.T) string { return servertest.NewRedisCluster(t).AsNode(t, "../deploy/redis.conf") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := open(t)
			a := newAudit(t, url)
			wantFaults(t, a)
			wantIntact(t, a, false)
			fill(t, a)
			wantIntact(t, a, true)
			wantMark(t, a, "", "1", "1")
			if _, err := a.Lost(t.Context(), time.Minute); err != nil {
				t.Error(err)
			}
			c := client(t, url)
			for _, words := range [][]any{
				{"flushall"}, {"flushdb"}, {"config", "get", "maxmemory"}, {"config", "set", "maxmemory-policy", "allkeys-lru"},
				{"keys", "*"}, {"scan", "0"}, {"get", "another"}, {"set", "another", "1"}, {"replicaof", "no", "one"},
				{"shutdown"}, {"acl", "list"}, {"script", "flush"}, {"client", "list"}, {"publish", "x", "y"},
			} {
				if err := c.Do(t.Context(), words...).Err(); err == nil || !strings.HasPrefix(err.Error(), "NOPERM") {
					t.Errorf("%v: got %v, want NOPERM", words, err)
				}
			}
		})
	}
}
