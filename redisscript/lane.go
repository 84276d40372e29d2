package redisscript

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// tripsAtOnce is how many pipelines of a lane are under way together. The
	// second one lets work go on while a slow reply is awaited; each further one
	// would make all of them smaller, and a pipeline costs more than a call.
	tripsAtOnce = 2
	// callsPerTrip bounds what one lost connection makes to be repeated.
	callsPerTrip = 512
	// probeEvery is how often a server that is out is asked whether it is back.
	probeEvery = 250 * time.Millisecond
)

// lane is the way to one server: what waits for a pipeline to it, and whether
// it is out. The nodes of a cluster have a lane each, so that one that is dead
// does not hold up the calls to the others.
type lane struct {
	mu    sync.Mutex
	queue []*call
	trips int

	// out is why the server is taken to be out: nil when it is not.
	out     error
	probeAt time.Time
	probing bool
}

// call is one try of a script.
type call struct {
	ctx    context.Context
	until  time.Time
	words  []any
	answer chan answer // buffered: nobody may be waiting any more
}

type answer struct {
	value any
	err   error
}

// admit reports whether a call may be tried: when the server is out, one at a
// time, and each only after a while. The caller of a probe ends it.
func (l *lane) admit(now time.Time) (probe bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.out == nil:
		return false, nil
	case l.probing || now.Before(l.probeAt):
		return false, l.out
	}
	l.probing = true
	return true, nil
}

// endProbe lets the next one probe.
func (l *lane) endProbe() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.probing = false
}

// note remembers whether the server decided something, or why it is out.
func (l *lane) note(out error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.out = out
	if out != nil {
		l.probeAt = time.Now().Add(probeEvery)
	}
}

// enqueue adds a call, and reports whether another pipeline is to be started.
func (l *lane) enqueue(c *call) (start bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.queue = append(l.queue, c)
	if l.trips == tripsAtOnce {
		return false
	}
	l.trips++
	return true
}

// take returns what the next pipeline carries: what has gathered meanwhile and
// is still wanted. When there is nothing, the pipeline's place is given up.
func (l *lane) take() []*call {
	// Whoever is about to call comes along: this costs nothing when nobody is.
	runtime.Gosched()
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	var batch []*call
	n := 0
	for ; n < len(l.queue) && len(batch) < callsPerTrip; n++ {
		if c := l.queue[n]; c.ctx.Err() == nil && now.Before(c.until) {
			batch = append(batch, c)
		}
	}
	l.queue = l.queue[n:]
	if len(l.queue) == 0 {
		l.queue = nil // with the room of its largest moment
	}
	if batch == nil {
		l.trips--
	}
	return batch
}

// carry sends pipelines for as long as there are calls.
func (r *Runner) carry(l *lane) {
	for batch := l.take(); batch != nil; batch = l.take() {
		r.trip(batch)
	}
}

// trip sends one pipeline and hands out its replies. Its context is nobody's:
// one caller who gives up does not disturb the others.
func (r *Runner) trip(batch []*call) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	pipe := r.client.Pipeline()
	cmds := make([]sentOnce, len(batch))
	for i, c := range batch {
		cmds[i] = sentOnce{redis.NewCmd(ctx, c.words...)}
		_ = pipe.Process(ctx, cmds[i]) // only queues
	}
	r.trips.Add(1)
	_, fault := pipe.Exec(ctx)
	for i, c := range batch {
		c.answer <- reply(cmds[i], fault)
	}
}

// reply tells what came of a command in a pipeline that had a fault, or none.
func reply(cmd sentOnce, fault error) answer {
	value, err := cmd.Result()
	switch {
	case errors.Is(err, redis.Nil):
		return answer{}
	case err != nil:
		return answer{err: err}
	case value == nil && fault != nil:
		return answer{err: fault}
	case value == nil:
		return answer{err: errNoReply}
	}
	return answer{value: value}
}
