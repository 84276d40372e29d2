package caps

import (
	"crypto/rand"
	"crypto/sha1"
	"encoding/hex"
	"testing"
	"time"

	"github.com/seed-4b260dfd/notifier/redisscript"
	"github.com/seed-4b260dfd/notifier/servertest"
)

// lossy is a store behind a network that loses what it is told to lose.
type lossy struct {
	*testing.T
	*Redis
	proxy *servertest.Proxy
}

func newLossy(t *testing.T) *lossy {
	t.Helper()
	t.Parallel()
	needsServer(t)
	server := servertest.SharedRedis(t)
	p := servertest.NewProxy(t, server.Addr())
	client, err := redisscript.Open(p.URL(server.URL()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	l := &lossy{t, NewRedis(redisscript.NewRunner(client), rand.Text()), p}
	// The server learns the scripts, so that what is lost is their execution.
	warm := Cap{Name: "warm", Key: "warm", Limit: 9, Window: time.Minute}
	l.spends("warm", "h", Decision{Granted: true}, warm)
	l.refunds("warm", "h", warm)
	l.fills(warm, time.Now())
	return l
}

// losing loses the reply of the next execution of a script during a call.
func (l *lossy) losing(source string, call func()) {
	l.Helper()
	sum := sha1.Sum([]byte(source))
	lost := l.proxy.DropReply(servertest.Contains(hex.EncodeToString(sum[:])), 1)
	call()
	select {
	case <-lost:
	default:
		l.Fatal("no reply was lost")
	}
}

func (l *lossy) spends(unit, holder string, want Decision, on ...Cap) {
	l.Helper()
	got, err := l.Spend(l.Context(), unit, holder, on)
	if after := want.After - got.After; after >= 0 && after < time.Second {
		got.After = want.After
	}
	if err != nil || got != want {
		l.Fatalf("spend %s by %s: got %+v, %v, want %+v", unit, holder, got, err, want)
	}
}

func (l *lossy) refunds(unit, holder string, on ...Cap) {
	l.Helper()
	if err := l.Refund(l.Context(), unit, holder, on); err != nil {
		l.Fatalf("refund %s by %s: %v", unit, holder, err)
	}
}

func (l *lossy) fills(c Cap, at time.Time) {
	l.Helper()
	if err := l.Fill(l.Context(), c, "filled", "h", at); err != nil {
		l.Fatalf("fill: %v", err)
	}
}

var (
	once    = Cap{Name: "once", Key: "once", Slot: "s", Limit: 1, Window: time.Minute}
	twice   = Cap{Name: "twice", Key: "twice", Slot: "s", Limit: 2, Window: time.Minute}
	granted = Decision{Granted: true}
	denied  = Decision{Denied: "once", After: time.Minute}
)

func TestRedis_LostReplyOfSpend(t *testing.T) {
	l := newLossy(t)
	// The last room is taken by the execution whose reply is lost: the repeat
	// must find that it is ours.
	l.losing(spendSource, func() { l.spends("u1", "h", granted, once, twice) })
	l.losing(spendSource, func() { l.spends("u1", "h2", granted, once, twice) })
	l.losing(spendSource, func() { l.spends("u2", "h", denied, twice, once) })
	l.spends("u2", "h", granted, twice) // the denials have spent nothing
	l.spends("u3", "h", Decision{Denied: "twice", After: time.Minute}, twice)
}

func TestRedis_LostReplyOfRefund(t *testing.T) {
	for name, source := range map[string]string{"look": sharesSource, "refund": refundSource} {
		t.Run(name, func(t *testing.T) {
			l := newLossy(t)
			l.spends("u1", "h", granted, once, twice)
			l.spends("u1", "h2", granted, once, twice)
			l.losing(source, func() { l.refunds("u1", "h", once, twice) })
			l.spends("u2", "h", denied, once, twice) // h2 still has its share
			l.losing(source, func() { l.refunds("u1", "h2", once, twice) })
			l.spends("u2", "h", granted, once, twice)
			l.spends("u3", "h", denied, once)
			l.spends("u3", "h", granted, twice)
		})
	}
}

func TestRedis_LostReplyOfFill(t *testing.T) {
	l := newLossy(t)
	l.losing(fillSource, func() { l.fills(once, time.Now().Add(-20*time.Second)) })
	l.spends("u1", "h", Decision{Denied: "once", After: 40 * time.Second}, once)
	l.refunds("filled", "h", once)
	l.spends("u1", "h", granted, once)
}

// A request that is lost on its way was not executed, and is made again.
func TestRedis_LostRequest(t *testing.T) {
	l := newLossy(t)
	sum := sha1.Sum([]byte(spendSource))
	lost := l.proxy.DropRequest(servertest.Contains(hex.EncodeToString(sum[:])), 1)
	l.spends("u1", "h", granted, once)
	<-lost
	l.spends("u2", "h", denied, once)
}

// A copy of a refund that arrives when its unit has been spent anew, by the
// next attempt, takes nothing away: the cap would be exceeded.
func TestRedis_DelayedCopyOfRefund(t *testing.T) {
	l := newLossy(t)
	l.spends("u1", "h", granted, once)
	u, share := members("u1", "h")
	keys := l.keys([]Cap{once})
	seen, err := l.run.Run(t.Context(), sharesScript, keys, share)
	if err != nil {
		t.Fatal(err)
	}
	l.refunds("u1", "h", once)
	l.spends("u1", "h", granted, once)
	if _, err := l.run.Run(t.Context(), refundScript, keys, append([]any{u, share}, seen.([]any)...)...); err != nil {
		t.Fatal(err)
	}
	l.spends("u2", "h", denied, once)
}
