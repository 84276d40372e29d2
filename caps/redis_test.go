package caps_test

import (
	"crypto/rand"
	"flag"
	"testing"
	"time"

	"github.com/seed-4b260dfd/notifier/caps"
	"github.com/seed-4b260dfd/notifier/caps/capstest"
	"github.com/seed-4b260dfd/notifier/redisscript"
	"github.com/seed-4b260dfd/notifier/servertest"
)

// The suite waits for a real clock and computes little: more of it goes on at
// once than there are processors.
func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", "32"); err != nil {
		panic(err)
	}
	servertest.Main(m)
}

// open returns caps of their own on a server, and the client behind them.
func open(tb testing.TB, url string) *caps.Redis {
	tb.Helper()
	client, err := redisscript.Open(url)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = client.Close() })
	return caps.NewRedis(redisscript.NewRunner(client), rand.Text())
}

// conform holds a server to the rules, each under a prefix of its own. Its
// clock is real: the suite waits.
func conform(t *testing.T, url string) {
	capstest.Run(t, func(t *testing.T, test func(*testing.T, capstest.Subject)) {
		test(t, capstest.Subject{
			Caps:  open(t, url),
			Pass:  func(d time.Duration) { <-time.After(d) },
			Slack: 1500 * time.Millisecond,
		})
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
	t.Run("with the rights of a node", func(t *testing.T) {
		t.Parallel()
		conform(t, servertest.NewRedis(t).AsNode(t, "../deploy/redis.conf"))
	})
}
