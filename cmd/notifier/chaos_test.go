package main

import (
	"crypto/sha256"
	"encoding/base64"
	"flag"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-4b260dfd/notifier"
	"github.com/seed-4b260dfd/notifier/channels/simulate"
	"github.com/seed-4b260dfd/notifier/servertest"
)

var update = flag.Bool("update", false, "write the file that the chaos matrix is compared with")

// chaosTable is the file that README links.
const chaosTable = "testdata/chaos.txt"

// arenas is how many cells are played at the same time, each in an arena of its
// own; those with a failover take turns in one.
const arenas = 4

// Three nodes over real stores: each order × each step × each fault, asserted
// from the provider's log.
func TestChaosMatrix(t *testing.T) {
	t.Parallel()
	bin := buildBinary(t, "faultpoint")
	sim := startProviders(t)
	cells := chaosCells()
	got := make([]string, len(cells))
	loseProviderReplies(sim, cells)
	plain, failover := make(chan int, len(cells)), make(chan int, len(cells))
	for i := range cells {
		switch {
		case cells[i].none != "":
			got[i] = cells[i].String()
		case cells[i].fault == chaosRedisFailover:
			failover <- i
		default:
			plain <- i
		}
	}
	close(plain)
	close(failover)
	t.Run("arena", func(t *testing.T) {
		for n := range arenas + 1 {
			from := plain
			if n == arenas {
				from = failover
			}
			t.Run(fmt.Sprint(n), func(t *testing.T) {
				t.Parallel()
				var a *arena
				for i := range from {
					if a == nil {
						faults := t.TempDir()
						a = newArena(t, bin, sim, n == arenas, "NOTIFIER_FAULT_DIR="+faults)
						a.faults = faults
					}
					c := &cells[i]
					played := a.play(c, i)
					if got[i] = played.String(); got[i] != c.String() {
						t.Errorf("not what the matrix says:\n got %s\nwant %s", got[i], c)
					}
				}
				if a != nil {
					a.sound()
				}
			})
		}
	})
	table := "order step fault → effects, lost, repeated; state\n" + strings.Join(got, "\n") + "\n"
	t.Logf("\n%s", table)
	if *update {
		if err := os.WriteFile(filepath.FromSlash(chaosTable), []byte(table), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(filepath.FromSlash(chaosTable))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), table); diff != "" {
		t.Errorf("%s is not what was played (run with -update):\n%s", chaosTable, diff)
	}
}

// loseProviderReplies has the provider lose the first answer of the cells that
// want it, and refuse with "later" those whose return is to be committed.
func loseProviderReplies(sim *simulate.Server, cells []chaosCell) {
	var faults []simulate.Fault
	for i := range cells {
		m := message{To: to(sim, "apns", i)}
		f := simulate.Fault{Channel: "apns", Address: m.address(), Times: 1}
		switch cells[i].fault {
		case chaosProviderLost:
			f.Kind = simulate.FaultDropReply
		case chaosCommitLost:
			f.Kind, f.Status, f.Reason = simulate.FaultStatus, http.StatusTooManyRequests, "TooManyRequests"
		default:
			continue
		}
		faults = append(faults, f)
	}
	sim.SetFaults(faults)
}

// play runs a cell to rest and returns what came of it.
func (a *arena) play(c *chaosCell, n int) *chaosCell {
	t := a.t
	typ := string(c.order)
	if held(c.fault) {
		typ += "_long"
	}
	m := message{Key: fmt.Sprintf("%s-%s-%d", c.order, c.step, n), Type: typ, Recipient: fmt.Sprintf("u_%d", n),
		To: to(a.sim, "apns", n), Data: map[string]string{"text": "hello"}}
	began := time.Now()
	id := a.strikeAt(c, m, n)
	note := a.ended(id)
	if s := a.stoppedNow(); s != nil {
		a.wake(s)
		note = a.ended(id) // with the word of the one that woke
	}
	a.restartDead()
	entries := effectsOf(a.sim, map[string]bool{m.address(): true})
	for _, b := range checkLog(entries, []notifier.Notification{note}) {
		t.Errorf("%s: %s", c, b)
	}
	got := &chaosCell{order: c.order, step: c.step, fault: c.fault, state: note.State}
	for _, e := range entries {
		if e.TookEffect {
			got.effects++
		}
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Logf("%s took %s", c, took.Round(time.Second))
	}
	return got
}

// held says that the fault is made while the delivery holds at its step: the
// lease must outlast that.
func held(fault string) bool {
	switch fault {
	case chaosRedisFlushed, chaosRedisEmpty, chaosRedisFailover, chaosPostgresKilled:
		return true
	}
	return false
}

// strikeAt sends the message, has the fault meet it at its step, and returns its id.
func (a *arena) strikeAt(c *chaosCell, m message, n int) string {
	t := a.t
	var lost <-chan struct{}
	var armed string
	switch {
	case c.fault == chaosKilledBefore:
		armed = a.arm(m.Key, c.step+".before", "kill")
	case c.fault == chaosKilledAfter:
		armed = a.arm(m.Key, c.step+".after", "kill")
	case c.fault == chaosPaused:
		armed = a.arm(m.Key, c.step+".before", "stop")
	case c.fault == chaosPostgresLost:
		lost = a.toLedger.DropReply(servertest.Contains(statementOf[c.step]), 1)
	case c.fault == chaosCommitLost:
		// The return of a throttled attempt is a transaction of several statements.
		lost = a.toLedger.DropReply(servertest.Contains("commit"), 1)
	case c.fault == chaosRedisLost && c.step == "caps":
		lost = a.toRedis.DropReply(servertest.Contains("/cap/"), 1)
	case c.fault == chaosRedisLost:
		lost = a.toRedis.DropReply(servertest.Contains(claimOf(m)), nthWord(c))
	case held(c.fault):
		armed = a.arm(m.Key, c.step+".before", "hold")
		if c.fault == chaosRedisFailover {
			if err := a.pair.HoldReplica(); err != nil {
				t.Fatal(err)
			}
		}
	}
	answered := make(chan error, 1)
	var id string
	go func() {
		var err error
		id, err = a.say(m, n)
		answered <- err
	}()
	if armed != "" {
		a.struck(armed)
	}
	switch c.fault {
	case chaosKilledBefore, chaosKilledAfter:
		a.dead()
		a.restartDead()
	case chaosRedisFlushed:
		_ = a.redis.Flush()
	case chaosRedisEmpty:
		_, _ = a.redis.Kill(), a.redis.RestartEmpty()
	case chaosRedisFailover:
		_ = a.pair.KillPrimary()
		if err := a.pair.WaitPromoted(t.Context()); err != nil {
			t.Fatal(err)
		}
	case chaosPostgresKilled:
		_, _ = a.postgres.Immediate(), a.postgres.Restart()
	}
	if held(c.fault) {
		a.release(armed)
	}
	if err := <-answered; err != nil {
		t.Fatal(err)
	}
	if lost != nil {
		select {
		case <-lost:
		case <-time.After(patience):
			t.Fatalf("%s: no reply was lost", c)
		}
	}
	if c.fault == chaosRedisFailover {
		if err := a.pair.Rejoin(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	return id
}

// claimOf is how Redis knows the claim of a message.
func claimOf(m message) string {
	sum := sha256.Sum256([]byte(notifier.EffectKey("default", m.Key, notifier.ChannelAPNs, m.address())))
	return base64.RawURLEncoding.EncodeToString(sum[:15])
}

// statementOf is what the statement of a step has in it and no other.
var statementOf = map[string]string{
	"accept":   "INSERT INTO idem",
	"lease":    "SET status = 1",
	"permit":   "SET status = 2",
	"complete": "s.attempt_reason",
}

// nthWord is the how-manieth word to Redis about the claim a step's is.
func nthWord(c *chaosCell) int {
	switch {
	case c.step == "claim":
		return 1
	case c.step == "permit", c.order == notifier.OrderSendFirst:
		return 2
	}
	return 3
}

// stoppedNow is a node that has stopped itself, or nil.
func (a *arena) stoppedNow() *server {
	for _, s := range a.nodes {
		if processState(s.cmd.Process.Pid) == "T" {
			return s
		}
	}
	return nil
}
