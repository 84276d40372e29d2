package rates

import (
	"context"
	"crypto/rand"
	_ "embed"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed-4b260dfd/notifier/redisscript"
)

const (
	// nodeLife is how long a node counts that has not asked again.
	nodeLife = 30 * time.Second
	// strangers is how many nodes are assumed where none was ever counted.
	strangers = 4
)

// Redis keeps paces in Redis, for any number of processes. Each call is one
// script over one key, by Redis's own clock.
//
// Without Redis each process goes on by a share of its own: the pace divided by
// the processes that were counted when it was last asked, those that took slots
// within half a minute, or by four where it never was. All together keep to the
// pace then if no process has been added since. When Redis goes or comes back,
// slots of both kinds may meet for as long as Ahead.
type Redis struct {
	run *redisscript.Runner
	// head is what all keys start with, within the hash tag.
	head string
	node string
	turn atomic.Int64
	own  *Memory

	mu    sync.Mutex
	nodes map[string]int64
}

// NewRedis returns the paces that are kept under a prefix, for one ledger. Each
// process has one of its own.
func NewRedis(r *redisscript.Runner, prefix string) *Redis {
	return &Redis{run: r, head: "{" + untagged.Replace(prefix) + "/rate/", node: rand.Text(), own: NewMemory(), nodes: map[string]int64{}}
}

// untagged keeps a prefix, or a key, from closing the hash tag.
var untagged = strings.NewReplacer("{", "(", "}", ")")

//go:embed take.lua
var takeSource string

var takeScript = redisscript.New(takeSource)

// Take hands out up to n slots, or none and the time to ask again. That Redis is
// away is no error: the slots are then this process's share.
func (r *Redis) Take(ctx context.Context, p Pace, n int) (Slots, error) {
	if err := begin(ctx, p, n); err != nil {
		return Slots{}, err
	}
	every := micros(p.Every)
	reply, err := r.run.Run(ctx, takeScript, []string{r.head + untagged.Replace(p.Key) + "}"},
		r.node, r.turn.Add(1), every, n, Ahead.Microseconds(), nodeLife.Microseconds())
	switch {
	case errors.Is(err, redisscript.ErrUnreachable):
		return r.own.take(p.Key, every*r.share(p.Key), n), nil
	case err != nil:
		return Slots{}, fmt.Errorf("take slots of %q: %w", p.Key, err)
	}
	granted, from, nodes, err := read(reply)
	if err != nil {
		return Slots{}, fmt.Errorf("take slots of %q: %w", p.Key, err)
	}
	r.mu.Lock()
	r.nodes[p.Key] = nodes
	r.mu.Unlock()
	return slots(granted, from, every), nil
}

// share is by how many the pace is divided without Redis.
func (r *Redis) share(key string) int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	if n := r.nodes[key]; n > 0 {
		return n
	}
	return strangers
}

// read takes the script's reply apart.
func read(reply any) (granted int, from, nodes int64, err error) {
	list, ok := reply.([]any)
	var n [3]int64
	for i := 0; ok && i < len(n); i++ {
		if len(list) != len(n) {
			ok = false
			break
		}
		n[i], ok = list[i].(int64)
	}
	if !ok {
		return 0, 0, 0, fmt.Errorf("got the reply %v, want three integers", reply)
	}
	return int(n[0]), n[1], n[2], nil
}
