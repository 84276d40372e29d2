package claims_test

import (
	"crypto/rand"
	"testing"
	"time"

	"github.com/seed-4b260dfd/notifier/claims"
	"github.com/seed-4b260dfd/notifier/claims/claimstest"
	"github.com/seed-4b260dfd/notifier/redisscript"
	"github.com/seed-4b260dfd/notifier/servertest"
)

func TestMain(m *testing.M) { servertest.Main(m) }

// slack is how far a test on a real server may be behind its own waits.
const slack = 600 * time.Millisecond

func TestRedis(t *testing.T) {
	t.Parallel()
	runSuite(t, newRunner(t, servertest.SharedRedis(t).URL()))
}

func runSuite(t *testing.T, r *redisscript.Runner) {
	claimstest.Run(t, func(t *testing.T, test func(*testing.T, claimstest.Subject)) {
		test(t, claimstest.Subject{
			Claims: claims.NewRedis(r, rand.Text()),
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
