package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/seed-4b260dfd/notifier"
	"github.com/seed-4b260dfd/notifier/channels/simulate"
	"github.com/seed-4b260dfd/notifier/ledger/postgres"
	"github.com/seed-4b260dfd/notifier/servertest"
)

// arena is three nodes over a Postgres and a Redis of their own, whose replies
// can be lost, for one cell of the chaos matrix after the other.
type arena struct {
	*cluster
	t   *testing.T
	sim *simulate.Server
	// faults is the folder that tells the fault points what to do.
	faults   string
	postgres *servertest.Postgres
	toLedger *servertest.Proxy
	// redis and toRedis, or with a failover pair, which no proxy can stand
	// before since its sentinels name the servers.
	redis   *servertest.Redis
	toRedis *servertest.Proxy
	pair    *servertest.Sentinel
	ledger  *postgres.Ledger
}

func newArena(t *testing.T, bin string, sim *simulate.Server, failover bool, env ...string) *arena {
	t.Helper()
	a := &arena{t: t, sim: sim, postgres: servertest.NewPostgres(t)}
	database := a.postgres.Database(t)
	a.toLedger = servertest.NewProxy(t, a.postgres.Addr())
	var claims string
	if failover {
		a.pair = servertest.NewRedisSentinel(t)
		claims = a.pair.URL()
	} else {
		a.redis = servertest.NewRedis(t)
		a.toRedis = servertest.NewProxy(t, a.redis.Addr())
		claims = a.toRedis.URL(a.redis.URL())
	}
	policies := map[string]string{}
	for _, order := range []notifier.Order{notifier.OrderClaimFirst, notifier.OrderSendFirst} {
		policies[string(order)] = chaosPolicy(order, "1s")
		policies[string(order)+"_long"] = chaosPolicy(order, "20s")
	}
	dir := installation(t, sim, 0, policies)
	a.cluster = newCluster(t, bin, dir, 3, database, a.toLedger.URL(database), claims, env...)
	for _, s := range a.nodes {
		s.client = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 2 * time.Second}
	}
	var err error
	if a.ledger, err = postgres.Open(t.Context(), database); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.ledger.Close)
	return a
}

// chaosPolicy is a policy with the shortest waits. Its cap shows that no unit
// is lost or counted twice: claim-first has one and needs it for the attempt
// that takes a dead one's place; send-first counts what may have arrived.
func chaosPolicy(order notifier.Order, lease string) string {
	limit := 1
	if order == notifier.OrderSendFirst {
		limit = 4
	}
	return fmt.Sprintf("order: %s\ndescription: For a test.\nchannels: [{channel: apns, template: note, send_timeout: 1s}]\n"+
		"data: {text: {required: true}}\nlease: %s\nexpires_after: 1h\n"+
		"retry: {initial: 50ms, factor: 1, max: 50ms, max_attempts: 20, max_unknown: 20}\n"+
		"caps: [{name: hourly-%s-%s, per: [recipient], limit: %d, window: 1h}]\n", order, lease, strings.ReplaceAll(string(order), "_", "-"), lease, limit)
}

// arm puts a fault at a step of the delivery with a key.
func (a *arena) arm(key, point, what string) string {
	a.t.Helper()
	if point == "lease.before" {
		key = "any" // nobody knows yet which delivery it will be
	}
	name := filepath.Join(a.faults, key+"."+point)
	if err := os.WriteFile(name, []byte(what), 0o600); err != nil {
		a.t.Fatal(err)
	}
	return name
}

func exists(name string) bool {
	_, err := os.Stat(name)
	return err == nil
}

// struck waits until an armed fault has struck.
func (a *arena) struck(name string) {
	a.t.Helper()
	eventually(a.t, name+" strikes", func() bool { return exists(name + ".struck") })
}

// release lets go of what holds at an armed fault.
func (a *arena) release(name string) {
	a.t.Helper()
	if err := os.WriteFile(name+".go", nil, 0o600); err != nil {
		a.t.Fatal(err)
	}
}

// say sends a message, as a client does: with the same key to the next node
// while there is no answer.
func (a *arena) say(m message, first int) (id string, err error) {
	ctx, cancel := context.WithTimeout(a.t.Context(), 2*patience)
	defer cancel()
	for n := first; ctx.Err() == nil; n++ {
		id, _, err = a.nodes[n%len(a.nodes)].post(m)
		if !errors.Is(err, errNoAnswer) {
			return id, err
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
		}
	}
	return "", fmt.Errorf("%s was not answered: %w", m.Key, err)
}

// ended waits until a notification's only delivery has ended.
func (a *arena) ended(id string) notifier.Notification {
	a.t.Helper()
	nid, err := notifier.ParseID(id)
	if err != nil {
		a.t.Fatal(err)
	}
	var n *notifier.Notification
	eventually(a.t, id+" has ended", func() bool {
		got, err := a.ledger.Notification(context.Background(), "default", nid)
		n = got
		return err == nil && n.State != notifier.StatePending
	})
	return *n
}

// restartDead starts the nodes that have died.
func (a *arena) restartDead() {
	a.t.Helper()
	for _, s := range a.nodes {
		select {
		case <-s.exited:
			s.start()
		default:
		}
	}
}

// dead waits until a node has died.
func (a *arena) dead() {
	a.t.Helper()
	eventually(a.t, "a node dies", func() bool {
		return slices.ContainsFunc(a.nodes, func(s *server) bool {
			select {
			case <-s.exited:
				return true
			default:
				return false
			}
		})
	})
}

// wake has a stopped node go on, and when it is well again end all that it had
// begun: it is told to drain, and started anew.
func (a *arena) wake(s *server) {
	a.t.Helper()
	if err := s.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		a.t.Fatal(err)
	}
	eventually(a.t, "a node that was woken is well", func() bool { return statusOf(strings.TrimPrefix(s.url(), "http://")+"/readyz") == http.StatusOK })
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		a.t.Fatal(err)
	}
	select {
	case <-s.exited:
	case <-time.After(patience):
		a.t.Fatalf("a node that was woken did not end in %s\n%s", patience, s.logTail())
	}
	s.start()
}

// processState is the letter of a process's state, as ps has it.
func processState(pid int) string {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return ""
	}
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	return fields[0]
}
