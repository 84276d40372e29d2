package claims

import (
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"fmt"
	"strconv"
	"time"

	"github.com/seed-4b260dfd/notifier/redisscript"
)

// Redis keeps claims in Redis, for any number of processes: on one server,
// behind Sentinel, or on a cluster. Its clock is the server's, to a millisecond.
//
// What it knows may be lost at any time: a failover loses what the replica had
// not been sent, a restart what was not on disk. Two attempts may then both be
// granted the claim. A method whose error is redisscript.ErrUnreachable may
// have been executed all the same, and its repeat does no harm.
//
// Every call is one script on one key, decided in one step. A claim takes about
// 215 bytes of Redis until it ends; README has the arithmetic.
type Redis struct {
	run    *redisscript.Runner
	prefix string
}

// NewRedis returns a store whose keys begin with a prefix: stores with
// different prefixes know nothing of each other.
func NewRedis(r *redisscript.Runner, prefix string) *Redis {
	return &Redis{run: r, prefix: prefix}
}

var (
	//go:embed entry.lua
	entrySource string
	//go:embed acquire.lua
	acquireSource string
	//go:embed acquire_next.lua
	acquireNextSource string
	//go:embed renew.lua
	renewSource string
	//go:embed release.lua
	releaseSource string
	//go:embed settle.lua
	settleSource string

	acquireScript     = redisscript.New(entrySource + acquireSource)
	acquireNextScript = redisscript.New(entrySource + acquireNextSource)
	renewScript       = redisscript.New(entrySource + renewSource)
	releaseScript     = redisscript.New(entrySource + releaseSource)
	settleScript      = redisscript.New(entrySource + settleSource)
)

// Acquire takes the claim for ttl. An error says that nothing is known to have
// been decided; whatever stands in the way is an Answer.
func (r *Redis) Acquire(ctx context.Context, c Claim, ttl time.Duration) (Answer, error) {
	if err := begin(ctx, c.checkFor(ttl)); err != nil {
		return Answer{}, fmt.Errorf("acquire: %w", err)
	}
	reply, err := r.run.Run(ctx, acquireScript, []string{r.key(c.Key)}, c.Fence, c.Owner, millis(ttl))
	return answerOf("acquire", reply, err)
}

// AcquireNext takes the claim for ttl under a new fence: see Memory.AcquireNext.
// A fence is above every earlier one of its key for as long as Redis keeps
// what it is told, and for an hour after the claim has ended; later it still
// is, unless the server's clock, or that of the server that took over, is
// behind by more than has passed since.
func (r *Redis) AcquireNext(ctx context.Context, key, owner string, ttl time.Duration) (Answer, error) {
	if err := begin(ctx, Claim{Key: key, Fence: 1, Owner: owner}.checkFor(ttl)); err != nil {
		return Answer{}, fmt.Errorf("acquire: %w", err)
	}
	k := r.key(key)
	reply, err := r.run.Run(ctx, acquireNextScript, []string{k, k + ":f"}, owner, millis(ttl), millis(ttl+fenceKept))
	return answerOf("acquire", reply, err)
}

// Renew prolongs the claim to ttl from now, and reports whether it still is
// the caller's. A claim that has ended, or became a tombstone, is not renewed.
func (r *Redis) Renew(ctx context.Context, c Claim, ttl time.Duration) (bool, error) {
	if err := begin(ctx, c.checkFor(ttl)); err != nil {
		return false, fmt.Errorf("renew: %w", err)
	}
	reply, err := r.run.Run(ctx, renewScript, []string{r.key(c.Key)}, c.Fence, c.Owner, millis(ttl))
	if err != nil {
		return false, fmt.Errorf("renew: %w", err)
	}
	return reply == int64(1), nil
}

// Release gives the claim back untouched. It does nothing unless the claim is
// the caller's, and never takes a tombstone away.
func (r *Redis) Release(ctx context.Context, c Claim) error {
	if err := begin(ctx, c.check()); err != nil {
		return fmt.Errorf("release: %w", err)
	}
	if _, err := r.run.Run(ctx, releaseScript, []string{r.key(c.Key)}, c.Fence, c.Owner); err != nil {
		return fmt.Errorf("release: %w", err)
	}
	return nil
}

// Settle leaves a tombstone with the outcome for ttl: see Memory.Settle.
func (r *Redis) Settle(ctx context.Context, c Claim, outcome string, ttl time.Duration) error {
	if err := begin(ctx, c.checkSettle(outcome, ttl)); err != nil {
		return fmt.Errorf("settle: %w", err)
	}
	if _, err := r.run.Run(ctx, settleScript, []string{r.key(c.Key)}, c.Fence, c.Owner, outcome, millis(ttl)); err != nil {
		return fmt.Errorf("settle: %w", err)
	}
	return nil
}

// fenceKept is for how long after the end of a claim the fence is remembered.
const fenceKept = time.Hour

// digestBytes of a SHA-256 stand in for a key of any length: 120 bits, which
// are 20 characters and keep the name of a claim of a ledger below 61 bytes,
// where it would take 16 more.
const digestBytes = 15

// key names the claim in Redis. All of it is the hash tag, so that claims
// spread over a cluster, and what belongs to one claim stays together.
func (r *Redis) key(key string) string {
	sum := sha256.Sum256([]byte(key))
	return "{" + r.prefix + "/" + base64.RawURLEncoding.EncodeToString(sum[:digestBytes]) + "}"
}

// millis rounds up: a claim never ends earlier than it was asked to.
func millis(d time.Duration) int64 {
	return int64((d + time.Millisecond - 1) / time.Millisecond)
}

// answerOf reads the reply of a script that acquires.
func answerOf(verb string, reply any, err error) (Answer, error) {
	if err != nil {
		return Answer{}, fmt.Errorf("%s: %w", verb, err)
	}
	fields, _ := reply.([]any)
	if len(fields) != 4 && len(fields) != 6 {
		return Answer{}, fmt.Errorf("%s: the reply %v has not the form of an answer", verb, reply)
	}
	status, isStatus := fields[0].(int64)
	digits, isFence := fields[1].(string)
	by, isOwner := fields[2].(string)
	left, isLeft := fields[3].(int64)
	fence, err := strconv.ParseInt(digits, 10, 64)
	if !isStatus || !isFence || !isOwner || !isLeft || err != nil {
		return Answer{}, fmt.Errorf("%s: the reply %v has not the form of an answer", verb, reply)
	}
	a := Answer{Status: Status(status), By: by, Fence: fence, Left: time.Duration(left) * time.Millisecond}
	if len(fields) == 6 {
		a.Outcome, _ = fields[4].(string)
		age, _ := fields[5].(int64)
		// The server that settled it may have had another clock.
		a.Age = max(0, time.Duration(age)*time.Millisecond)
	}
	return a, nil
}
