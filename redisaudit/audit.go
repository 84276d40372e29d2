// Package redisaudit watches over the Redis that keeps claims and caps: how it
// is set, whether it has lost its data, and a mark of the ledger's that it
// keeps.
//
// It promises that data which was lost as a whole is noticed by every process
// that looks, and stays noticed until one of them has filled it again, whatever
// happens to that one meanwhile; and that it was lost stays known, to those that
// start later too, for as long as who noticed it says. It does not notice single keys that went: a
// failover that loses the newest writes looks like none. And it mends nothing.
package redisaudit

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/seed-4b260dfd/notifier/redisscript"
)

// Audit looks at one Redis: a server, a pair behind Sentinel, or a cluster. It
// may be used concurrently.
type Audit struct {
	client redis.UniversalClient
	run    *redisscript.Runner
	ledger string
	// markers are the keys of the markers.
	markers []string

	mu sync.Mutex
	// seen is the marker, by its key, that this process takes for whole, and
	// missed the one that it met at the last Intact instead.
	seen, missed map[string]string
}

// New returns an audit of what is kept for a ledger. The client is one of
// redisscript.Open, and the caller's to close.
func New(client redis.UniversalClient, ledgerID string) *Audit {
	_, cluster := client.(*redis.ClusterClient)
	return &Audit{
		client: client, run: redisscript.NewRunner(client), ledger: ledgerID, markers: markerKeys(ledgerID, cluster),
		seen: map[string]string{}, missed: map[string]string{},
	}
}

// forbidden says that a server does not let us ask how it is set.
const forbidden = "how it is set cannot be checked: it does not allow INFO"

// Audit says how each server that takes writes is set that takes something from
// what rests on it, in words for people, in a fixed order.
func (a *Audit) Audit(ctx context.Context) ([]string, error) {
	var mu sync.Mutex
	var faults []string
	one := func(ctx context.Context, c *redis.Client) error {
		text, err := c.Info(ctx).Result()
		if err != nil && !refused(err) {
			return fmt.Errorf("ask Redis at %s how it is set: %w", c.Options().Addr, err)
		}
		found := []string{forbidden}
		if err == nil {
			found = judge(info(text))
		}
		mu.Lock()
		defer mu.Unlock()
		faults = append(faults, found...)
		return nil
	}
	var err error
	switch c := a.client.(type) {
	case *redis.ClusterClient:
		err = c.ForEachMaster(ctx, one)
	case *redis.Client:
		err = one(ctx, c)
	default:
		err = fmt.Errorf("a client of the type %T cannot be audited", c)
	}
	if err != nil {
		return nil, err
	}
	slices.Sort(faults)
	return slices.Compact(faults), nil
}

// judge says what is wrong in a server's own account of itself. INFO has all of
// it, and is allowed where CONFIG GET is not.
func judge(is map[string]string) (faults []string) {
	if is["role"] != "master" {
		faults = append(faults, "it is a replica and takes no writes: name its primary, or the sentinels, in the URL")
	}
	if p := is["maxmemory_policy"]; p != "noeviction" {
		faults = append(faults, fmt.Sprintf("maxmemory-policy is %s: when memory is short it forgets claims and caps at random; set noeviction", word(p)))
	}
	switch {
	case is["aof_enabled"] != "1":
		faults = append(faults, "appendonly is not on: a restart forgets claims and caps; set appendonly yes")
	case is["aof_last_write_status"] != "ok":
		faults = append(faults, "its last write to the append-only file failed: look at its disk")
	}
	return faults
}

// word is a value for people.
func word(value string) string {
	if value == "" {
		return "not known"
	}
	return value
}

// refused reports whether a server does not let us ask.
func refused(err error) bool { return strings.HasPrefix(err.Error(), "NOPERM") }

// info reads the reply of INFO: a name and its value to each line.
func info(text string) map[string]string {
	is := map[string]string{}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			is[name] = value
		}
	}
	return is
}
