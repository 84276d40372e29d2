package caps

import (
	"crypto/rand"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seed-4b260dfd/notifier/redisscript"
	"github.com/seed-4b260dfd/notifier/servertest"
)

// inside is a store together with a look at its keys.
type inside struct {
	*testing.T
	*Redis
	client redis.UniversalClient
}

func newInside(t *testing.T, url string) *inside {
	t.Helper()
	client, err := redisscript.Open(url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return &inside{t, NewRedis(redisscript.NewRunner(client), rand.Text()), client}
}

// spends returns when, by the server's clock, the unit was spent.
func (in *inside) spends(unit, holder string, on ...Cap) time.Time {
	in.Helper()
	d, at, err := in.spend(in.Context(), unit, holder, on)
	if err != nil || !d.Granted {
		in.Fatalf("spend: got %+v, %v, want it granted", d, err)
	}
	return time.UnixMicro(at)
}

func (in *inside) fills(c Cap, unit string, at time.Time) {
	in.Helper()
	if err := in.Fill(in.Context(), c, unit, "h", at); err != nil {
		in.Fatal(err)
	}
}

// ends wants the cap's key to expire at the end of the millisecond.
func (in *inside) ends(c Cap, want time.Time) {
	in.Helper()
	got, err := in.client.PExpireTime(in.Context(), in.keys([]Cap{c})[0]).Result()
	if err != nil {
		in.Fatal(err)
	}
	if late := got - time.Duration(want.UnixNano()); late < 0 || late >= time.Millisecond {
		in.Fatalf("the key expires %v after %v, want it up to 1ms after", late, want)
	}
}

// members wants so many members in the cap's key: one for the span, and two for
// a unit with one holder; none when there is no key.
func (in *inside) holds(c Cap, want int64) {
	in.Helper()
	if got := in.members(c); got != want {
		in.Fatalf("got %d members, want %d", got, want)
	}
}

func (in *inside) members(c Cap) int64 {
	in.Helper()
	n, err := in.client.ZCard(in.Context(), in.keys([]Cap{c})[0]).Result()
	if err != nil {
		in.Fatal(err)
	}
	return n
}

// over says whether a time has come on the server's clock: on a machine with
// other work a short window may be over before anybody has looked into it.
func (in *inside) over(at time.Time) bool {
	in.Helper()
	now, err := in.client.Time(in.Context()).Result()
	if err != nil {
		in.Fatal(err)
	}
	return !now.Before(at)
}

// A key expires when the last of its units has left the longest window that
// was counted there, whatever put the unit there and in whichever order.
func TestRedis_KeysExpire(t *testing.T) {
	t.Parallel()
	needsServer(t)
	in := newInside(t, servertest.SharedRedis(t).URL())
	fresh := 0
	scope := func() (short, long Cap) {
		fresh++
		short = Cap{Name: "short", Key: strconv.Itoa(fresh), Limit: 9, Window: time.Minute}
		long = short
		long.Window = time.Hour
		return short, long
	}
	short, long := scope()
	in.ends(short, in.spends("u1", "h", short).Add(time.Minute))
	in.ends(short, in.spends("u2", "h", long).Add(time.Hour))
	in.ends(short, in.spends("u3", "h", short).Add(time.Hour)) // u2 must stay

	ago := time.Now().Truncate(time.Microsecond).Add(-40 * time.Second)
	short, long = scope()
	in.fills(short, "u1", ago)
	in.ends(short, ago.Add(time.Minute))
	in.fills(short, "u2", ago.Add(10*time.Second))
	in.fills(short, "u3", ago)
	in.ends(short, ago.Add(70*time.Second)) // u2 is the last
	in.fills(long, "u4", ago.Add(-time.Minute))
	if left := in.client.PTTL(t.Context(), in.keys([]Cap{short})[0]).Val(); left < 59*time.Minute {
		t.Errorf("%v are left, though units count for an hour now", left)
	}
	at := in.spends("u5", "h", short)
	in.fills(short, "u6", ago)
	in.ends(short, at.Add(time.Hour))
}

// A scope keeps what counts, and no more.
func TestRedis_KeepsWhatCounts(t *testing.T) {
	t.Parallel()
	needsServer(t)
	in := newInside(t, servertest.SharedRedis(t).URL())
	c := Cap{Name: "c", Key: "k", Limit: 9, Window: time.Hour}
	refund := func(unit, holder string) {
		t.Helper()
		if err := in.Refund(t.Context(), unit, holder, []Cap{c}); err != nil {
			t.Fatal(err)
		}
	}
	in.fills(c, "u1", time.Now().Add(-c.Window)) // too old
	in.holds(c, 0)
	in.spends("u2", "h", c)
	in.spends("u2", "h2", c)
	in.spends("u3", "h", c)
	in.holds(c, 6)
	in.fills(c, "u1", time.Now().Add(-c.Window))
	in.holds(c, 6)
	refund("u2", "h")
	in.holds(c, 5)
	refund("u2", "h2")
	in.holds(c, 3)
	refund("u3", "h")
	in.holds(c, 0)
}

// Of a busy scope each spend drops the units that have left.
func TestRedis_BusyScopeKeepsWhatCounts(t *testing.T) {
	t.Parallel()
	needsServer(t)
	in := newInside(t, servertest.SharedRedis(t).URL())
	c := Cap{Name: "c", Key: "k", Limit: 500, Window: 50 * time.Millisecond}
	var times []time.Time
	for i := range 400 {
		now := in.spends(strconv.Itoa(i), "h", c)
		times = append(times, now)
		gone, _ := slices.BinarySearchFunc(times, now.Add(-c.Window).Add(time.Microsecond), time.Time.Compare)
		if n := in.members(c); n != int64(1+2*(len(times)-gone)) && !in.over(now.Add(c.Window)) {
			t.Fatalf("got %d members, want %d", n, 1+2*(len(times)-gone))
		}
	}
	if d := times[len(times)-1].Sub(times[0]); d < 2*c.Window {
		// A machine so quick that nothing has left yet: wait and look again.
		<-time.After(c.Window)
		now := in.spends("last", "h", c)
		if n := in.members(c); n != 3 && !in.over(now.Add(c.Window)) {
			t.Fatalf("got %d members, want 3", n)
		}
	}
}

// The prefix and the slot choose the node; neither can break the hash tag.
func TestRedis_Keys(t *testing.T) {
	t.Parallel()
	on := []Cap{{Key: "a", Slot: "s}{"}, {Key: "b", Slot: "s}{"}}
	for _, prefix := range []string{"", "id", "{id}", "a}b{c", "}"} {
		keys := NewRedis(nil, prefix).keys(on)
		tag, rest, ok := strings.Cut(keys[0], "}")
		if !ok || tag[0] != '{' || strings.ContainsAny(tag[1:]+rest, "{}") || !strings.HasPrefix(keys[1], tag+"}") || keys[0] == keys[1] {
			t.Errorf("%q: got the keys %q", prefix, keys)
		}
	}
	other := NewRedis(nil, "id").keys([]Cap{{Key: "a", Slot: "another"}})
	if same := NewRedis(nil, "id").keys(on)[0]; other[0] == same {
		t.Errorf("two slots give one key, %q", same)
	}
}
