package caps

import (
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"fmt"
	"strings"
	"time"

	"github.com/seed-4b260dfd/notifier/redisscript"
)

// Redis keeps caps in Redis, standalone, behind Sentinel or in a Cluster, for
// any number of processes. Every call is one script over the keys of one slot,
// and Redis's own clock is the only one that is asked.
//
// A cap is exact for as long as Redis keeps its data: what a failover or an
// empty restart loses is not counted until it has been filled again. A clock of
// Redis that is set back makes units count for longer, one that is set ahead
// for less long.
//
// Every key expires when its last unit has left its window.
type Redis struct {
	run *redisscript.Runner
	// head is what all keys start with, within the hash tag.
	head string
}

// NewRedis returns the caps that are kept under a prefix, for one ledger.
func NewRedis(r *redisscript.Runner, prefix string) *Redis {
	return &Redis{run: r, head: "{" + untagged.Replace(prefix) + "/cap/"}
}

// untagged keeps a prefix from closing the hash tag.
var untagged = strings.NewReplacer("{", "(", "}", ")")

var (
	//go:embed spend.lua
	spendSource string
	//go:embed shares.lua
	sharesSource string
	//go:embed refund.lua
	refundSource string
	//go:embed fill.lua
	fillSource string

	spendScript  = redisscript.New(spendSource)
	sharesScript = redisscript.New(sharesSource)
	refundScript = redisscript.New(refundSource)
	fillScript   = redisscript.New(fillSource)
)

// longest bounds windows, so that the arithmetic of the scripts stays exact.
// Nobody waits for so long.
const longest = 10 * 365 * 24 * time.Hour

// Spend spends one unit on all of the caps, or on none when one of them is
// full. A unit that counts already takes no further room: the holder joins it,
// or is known, and its time moves to now. An error says that nothing is known:
// it may be spent. The same call again finds it, and so does Refund.
func (r *Redis) Spend(ctx context.Context, unit, holder string, caps []Cap) (Decision, error) {
	d, _, err := r.spend(ctx, unit, holder, caps)
	return d, err
}

// spend returns also when, by Redis's clock in microseconds, it was decided.
func (r *Redis) spend(ctx context.Context, unit, holder string, caps []Cap) (Decision, int64, error) {
	if err := begin(ctx, check(unit, holder, caps)); err != nil {
		return Decision{}, 0, fmt.Errorf("spend: %w", err)
	}
	if len(caps) == 0 {
		return Decision{Granted: true}, 0, nil
	}
	u, share := members(unit, holder)
	args := make([]any, 0, 2+2*len(caps))
	args = append(args, u, share)
	for _, c := range caps {
		args = append(args, c.Limit, micros(c.Window))
	}
	reply, err := r.run.Run(ctx, spendScript, r.keys(caps), args...)
	if err != nil {
		return Decision{}, 0, fmt.Errorf("spend: %w", err)
	}
	n, err := integers(reply, 3)
	switch {
	case err != nil:
		return Decision{}, 0, fmt.Errorf("spend: %w", err)
	case n[0] == 0:
		return Decision{Granted: true}, n[2], nil
	case n[0] < 0 || n[0] > int64(len(caps)):
		return Decision{}, 0, fmt.Errorf("spend: denied by cap %d of %d", n[0], len(caps))
	}
	return Decision{Denied: caps[n[0]-1].Name, After: time.Duration(n[1]) * time.Microsecond}, n[2], nil
}

// Refund takes the holder's share in the unit away from all of the caps, for
// an attempt that provably reached nobody. The unit is free again when no other
// holder is left. It looks first and then names what it saw: a copy of it that
// is delayed in the network takes nothing away from a later spend.
func (r *Redis) Refund(ctx context.Context, unit, holder string, caps []Cap) error {
	_, err := r.refund(ctx, unit, holder, caps)
	return err
}

func (r *Redis) refund(ctx context.Context, unit, holder string, caps []Cap) (int64, error) {
	if err := begin(ctx, check(unit, holder, caps)); err != nil {
		return 0, fmt.Errorf("refund: %w", err)
	}
	if len(caps) == 0 {
		return 0, nil
	}
	u, share := members(unit, holder)
	keys := r.keys(caps)
	reply, err := r.run.Run(ctx, sharesScript, keys, share)
	if err != nil {
		return 0, fmt.Errorf("refund: look: %w", err)
	}
	seen, ok := reply.([]any)
	if !ok || len(seen) != len(keys) {
		return 0, fmt.Errorf("refund: look: got %v, want %d scores", reply, len(keys))
	}
	at, err := r.run.Run(ctx, refundScript, keys, append([]any{u, share}, seen...)...)
	if err != nil {
		return 0, fmt.Errorf("refund: %w", err)
	}
	now, _ := at.(int64)
	return now, nil
}

// Fill puts back what a record says was spent at a time, whether or not there
// is room: it did happen. A time to come counts as now; one that has left the
// window changes nothing, and neither does one before the same holder's own.
// The time is taken as it is: the clock that it was read from and that of Redis
// are expected to agree.
func (r *Redis) Fill(ctx context.Context, c Cap, unit, holder string, at time.Time) error {
	return r.FillAll(ctx, []Spent{{Cap: c, Unit: unit, Holder: holder, At: at}})
}

// keys returns the caps' keys. The hash tag, 24 bits of the slot, only says
// where they are kept; 96 bits of the cap's key tell scopes apart.
func (r *Redis) keys(caps []Cap) []string {
	keys := make([]string, len(caps))
	slot := sha256.Sum256([]byte(caps[0].Slot))
	tag := r.head + base64.RawURLEncoding.EncodeToString(slot[:3]) + "}"
	for i, c := range caps {
		sum := sha256.Sum256([]byte(c.Key))
		keys[i] = tag + base64.RawURLEncoding.EncodeToString(sum[:12])
	}
	return keys
}

// members names a unit by 96 bits, and a holder's share in it by 64 more.
func members(unit, holder string) (u, share string) {
	us, hs := sha256.Sum256([]byte(unit)), sha256.Sum256([]byte(holder))
	return string(us[:12]), string(us[:12]) + string(hs[:8])
}

// micros rounds a window up: a unit counts for its whole length.
func micros(window time.Duration) int64 {
	return (min(window, longest) + time.Microsecond - 1).Microseconds()
}

// integers returns a script's reply as so many integers.
func integers(reply any, n int) ([]int64, error) {
	list, ok := reply.([]any)
	if !ok || len(list) != n {
		return nil, fmt.Errorf("got the reply %v, want %d integers", reply, n)
	}
	all := make([]int64, n)
	for i, x := range list {
		if all[i], ok = x.(int64); !ok {
			return nil, fmt.Errorf("got the reply %v, want %d integers", reply, n)
		}
	}
	return all, nil
}
