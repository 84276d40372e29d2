// Package redisscript runs Lua scripts on Redis that are safe to repeat: on one
// server, behind Sentinel, or on a cluster.
//
// It promises that Run answers with what the script returned, however many
// replies were lost on the way; or within two seconds with ErrUnreachable, and
// then at once until Redis is back. To keep that it repeats: a script given to
// it may be executed several times, also after Run has returned, and must give
// the same answer and leave the same state as if executed once. go-redis itself
// repeats nothing here: what is sent again is sent by Run, and only while its
// caller waits.
//
// Calls that come while a pipeline is under way share the next one, so under
// load many calls cost one round trip, and none waits for company.
//
// It does not promise that Redis keeps what it was told, nor that two calls are
// executed in the order in which they were made, unless the second was made
// after the first had returned.
package redisscript

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// patience is how long Run tries.
	patience = 2 * time.Second
	// shortestWait and longestWait bound the waits between two tries.
	shortestWait = 5 * time.Millisecond
	longestWait  = 200 * time.Millisecond
)

// Runner runs scripts on one Redis. Its methods may be called concurrently.
type Runner struct {
	client  redis.UniversalClient
	cluster *redis.ClusterClient // nil when client is none
	trips   atomic.Int64

	// home is the lane of a single server, and that of a cluster of which
	// nothing is known yet.
	home  *lane
	known atomic.Bool
	mu    sync.Mutex
	nodes map[string]*lane
}

// NewRunner returns a runner over a client that Open returned. The client stays
// the caller's to close.
func NewRunner(client redis.UniversalClient) *Runner {
	cluster, _ := client.(*redis.ClusterClient)
	return &Runner{client: client, cluster: cluster, home: &lane{}, nodes: make(map[string]*lane)}
}

// RoundTrips returns how many pipelines were sent. On a cluster a pipeline that
// goes to several nodes at once counts as one.
func (r *Runner) RoundTrips() int64 { return r.trips.Load() }

// Run executes a script and returns what it returned, in the types of go-redis:
// string, int64, []any, or nil. The keys must share a slot. When Redis cannot
// be asked, errors.Is(err, ErrUnreachable); when the script itself failed, the
// error is the server's; when ctx ended first, it is that of ctx.
func (r *Runner) Run(ctx context.Context, s *Script, keys []string, args ...any) (any, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	l := r.laneOf(ctx, keys)
	probe, out := l.admit(time.Now())
	if out != nil {
		return nil, unreachable(out)
	}
	if probe {
		defer l.endProbe()
	}
	until := time.Now().Add(patience)
	withSource := false
	for wait := shortestWait; ; wait = min(2*wait, longestWait) {
		value, err := r.try(ctx, l, until, s.command(withSource, keys, args))
		switch {
		case err != nil && ctx.Err() != nil:
			return nil, ended(ctx, err)
		case err != nil && unknownScript(err) && !withSource:
			withSource = true // nothing was executed
			continue
		case err == nil || !undecided(err):
			r.decided(l)
			return value, err
		}
		pause := wait/2 + rand.N(wait/2)
		if errors.Is(err, redis.ErrClosed) || time.Now().Add(pause).After(until) {
			l.note(err)
			return nil, unreachable(err)
		}
		r.lookAgain(ctx)
		if !sleep(ctx, pause) {
			return nil, ended(ctx, err)
		}
		l = r.laneOf(ctx, keys) // the slot may have moved meanwhile
	}
}

// try makes one call, in a pipeline with others.
func (r *Runner) try(ctx context.Context, l *lane, until time.Time, words []any) (any, error) {
	c := &call{ctx: ctx, until: until, words: words, answer: make(chan answer, 1)}
	if l.enqueue(c) {
		go r.carry(l)
	}
	over := time.NewTimer(time.Until(until))
	defer over.Stop()
	select {
	case a := <-c.answer:
		return a.value, a.err
	case <-ctx.Done():
		return nil, errNoReply
	case <-over.C:
		return nil, errNoReply
	}
}

// laneOf returns the way to the server that has the keys, as far as is known
// without asking.
func (r *Runner) laneOf(ctx context.Context, keys []string) *lane {
	if r.cluster == nil || len(keys) == 0 || !r.known.Load() {
		return r.home
	}
	node, err := r.cluster.MasterForKey(ctx, keys[0])
	if err != nil {
		return r.home
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	addr := node.Options().Addr
	l := r.nodes[addr]
	if l == nil {
		l = &lane{}
		r.nodes[addr] = l
	}
	return l
}

// decided notes that a server answered: a cluster's slots are known from then on.
func (r *Runner) decided(l *lane) {
	l.note(nil)
	r.known.Store(true)
}

// lookAgain has a cluster's slots looked up anew, in the background: a dead
// node does not say who has taken its slots.
func (r *Runner) lookAgain(ctx context.Context) {
	if r.cluster != nil {
		r.cluster.ReloadState(ctx)
	}
}

// ended is the error of a call whose context ended after it had met cause. A
// deadline that passed for want of an answer is a sign of Redis, too.
func ended(ctx context.Context, cause error) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return fmt.Errorf("%w: %w (%w)", ErrUnreachable, ctx.Err(), cause)
	}
	return ctx.Err()
}

// sleep waits, and reports whether ctx lasted.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
