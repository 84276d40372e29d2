package rates_test

import (
	"crypto/rand"
	"testing"
	"time"

	"github.com/seed-4b260dfd/notifier/rates"
	"github.com/seed-4b260dfd/notifier/rates/ratestest"
	"github.com/seed-4b260dfd/notifier/redisscript"
	"github.com/seed-4b260dfd/notifier/servertest"
)

func TestMain(m *testing.M) { servertest.Main(m) }

// open returns a process's way to the paces under a prefix.
func open(tb testing.TB, url, prefix string) *rates.Redis {
	tb.Helper()
	client, err := redisscript.Open(url)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = client.Close() })
	return rates.NewRedis(redisscript.NewRunner(client), prefix)
}

func conform(t *testing.T, url string) {
	ratestest.Run(t, func(t *testing.T, test func(*testing.T, ratestest.Subject)) {
		prefix := rand.Text()
		test(t, ratestest.Subject{Rates: open(t, url, prefix), Other: open(t, url, prefix), Pass: func(d time.Duration) { <-time.After(d) }})
	})
}

func TestRedis(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("-short leaves out what needs a server")
	}
	t.Run("standalone", func(t *testing.T) {
		t.Parallel()
		conform(t, servertest.SharedRedis(t).URL())
	})
	t.Run("cluster", func(t *testing.T) {
		t.Parallel()
		conform(t, servertest.NewRedisCluster(t).URL())
	})
}

// A call whose reply was lost is answered what it was given then: nothing is
// taken a second time.
func TestRedis_LostReplyTakesOnce(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("-short leaves out what needs a server")
	}
	server := servertest.SharedRedis(t)
	proxy := servertest.NewProxy(t, server.Addr())
	prefix := rand.Text()
	p := rates.Pace{Key: "k", Every: time.Hour}
	// The script is known to the server, so that the loss meets the call itself.
	if _, err := open(t, server.URL(), "another").Take(t.Context(), p, 1); err != nil {
		t.Fatal(err)
	}
	lost := proxy.DropReply(servertest.Contains(prefix), 1)
	got, err := open(t, proxy.URL(server.URL()), prefix).Take(t.Context(), p, 1)
	if err != nil || got.N != 1 {
		t.Fatalf("got %+v, %v, want the one slot", got, err)
	}
	select {
	case <-lost:
	default:
		t.Fatal("no reply was lost")
	}
	if got, err := open(t, server.URL(), prefix).Take(t.Context(), p, 1); err != nil || got.N != 0 {
		t.Errorf("another process: got %+v, %v, want none", got, err)
	}
}

// Without Redis each process goes by its share, and none by more.
func TestRedis_SharesWithoutRedis(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("-short leaves out what needs a server")
	}
	server := servertest.NewRedis(t)
	p := rates.Pace{Key: "k", Every: 10 * time.Millisecond}
	var nodes []*rates.Redis
	for range 3 {
		nodes = append(nodes, open(t, server.URL(), "ledger"))
	}
	newcomer := open(t, server.URL(), "ledger")
	for range 2 { // by the second round the first has heard of all
		for _, n := range nodes {
			if _, err := n.Take(t.Context(), p, 1); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := server.Stop(); err != nil {
		t.Fatal(err)
	}
	for i, n := range append(nodes, newcomer) {
		want := 3 * p.Every
		if n == newcomer {
			want = 4 * p.Every
		}
		if got, err := n.Take(t.Context(), p, 2); err != nil || got.N != 2 || got.Every != want {
			t.Errorf("node %d: got %+v, %v, want two slots %v apart", i, got, err, want)
		}
	}
}

// What is kept is one key for each pace, and it goes when nobody asks any more.
func TestRedis_KeysExpire(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("-short leaves out what needs a server")
	}
	server := servertest.NewRedis(t)
	if _, err := open(t, server.URL(), "ledger}").Take(t.Context(), rates.Pace{Key: "apns/{shop}", Every: 40 * time.Second}, 1); err != nil {
		t.Fatal(err)
	}
	client := server.Client()
	keys, err := client.Keys(t.Context(), "*").Result()
	if err != nil || len(keys) != 1 || keys[0] != "{ledger)/rate/apns/(shop)}" {
		t.Fatalf("got the keys %q, %v, want one for the pace", keys, err)
	}
	if ttl, err := client.TTL(t.Context(), keys[0]).Result(); err != nil || ttl < time.Minute || ttl > 2*time.Minute {
		t.Errorf("it expires in %v, %v, want more than a minute: its next slot must be remembered", ttl, err)
	}
}
