package main

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-4b260dfd/notifier"
	"github.com/seed-4b260dfd/notifier/channels/simulate"
)

// What goes wrong in a cell of the crash matrix.
const (
	killedBefore = "killed before"
	killedAfter  = "killed after"
	// replyLost: the provider takes the message and its answer is lost. For the
	// steps after the call the process is killed before the step on top.
	replyLost = "reply lost"
)

var crashFaults = [...]string{killedBefore, killedAfter, replyLost}

// crashCell is one row of the matrix: what is left when one delivery has met
// one fault at one step and all has come to rest.
type crashCell struct {
	order notifier.Order
	step  string
	fault string
	// none says why there is no such cell; the rest is empty then.
	none string

	effects  int // at the provider
	state    notifier.State
	reason   notifier.Reason
	possible int // possible_effects
	// timeline is each attempt as "fence outcome reason": the recorded cause of
	// everything above.
	timeline []string
}

const (
	beforeTheCall = "no provider has been asked yet"
	noPermit      = "send_first asks for no permit"
)

// crashMatrix is what must come of every fault. The reasons, by row:
//
// Killed before the commit of the acceptance there is nothing; the client has
// no answer and says it again. From there to the call a lapsed lease is all
// that is left: claim-first knows that nothing was sent, since no permit is
// there; send-first cannot know, so the attempt counts as a possible effect.
// From the permit on claim-first ends unknown, whether or not the provider was
// reached, and send-first repeats what it had not written down.
var crashMatrix = func() []crashCell {
	const cf, sf = notifier.OrderClaimFirst, notifier.OrderSendFirst
	const sent, unknown = notifier.StateSent, notifier.StateUnknown
	const none, lost, worker = notifier.ReasonNone, notifier.ReasonReplyLost, notifier.ReasonWorkerLost
	once := []string{"1 sent"}
	unsentOnce := []string{"1 not_sent lease_lapsed", "2 sent"}
	lapsedOnce := []string{"1 unknown lease_lapsed", "2 sent"}
	permitLapsed := []string{"1 unknown worker_lost"}
	lostOnce := []string{"1 unknown reply_lost"}
	return []crashCell{
		{order: cf, step: "accept", fault: killedBefore, effects: 1, state: sent, reason: none, possible: 1, timeline: once},
		{order: cf, step: "accept", fault: killedAfter, effects: 1, state: sent, reason: none, possible: 1, timeline: unsentOnce},
		{order: cf, step: "accept", fault: replyLost, none: beforeTheCall},
		{order: cf, step: "lease", fault: killedBefore, effects: 1, state: sent, reason: none, possible: 1, timeline: once},
		{order: cf, step: "lease", fault: killedAfter, effects: 1, state: sent, reason: none, possible: 1, timeline: unsentOnce},
		{order: cf, step: "lease", fault: replyLost, none: beforeTheCall},
		{order: cf, step: "claim", fault: killedBefore, effects: 1, state: sent, reason: none, possible: 1, timeline: unsentOnce},
		{order: cf, step: "claim", fault: killedAfter, effects: 1, state: sent, reason: none, possible: 1, timeline: unsentOnce},
		{order: cf, step: "claim", fault: replyLost, none: beforeTheCall},
		{order: cf, step: "caps", fault: killedBefore, effects: 1, state: sent, reason: none, possible: 1, timeline: unsentOnce},
		{order: cf, step: "caps", fault: killedAfter, effects: 1, state: sent, reason: none, possible: 1, timeline: unsentOnce},
		{order: cf, step: "caps", fault: replyLost, none: beforeTheCall},
		{order: cf, step: "permit", fault: killedBefore, effects: 1, state: sent, reason: none, possible: 1, timeline: unsentOnce},
		{order: cf, step: "permit", fault: killedAfter, effects: 0, state: unknown, reason: worker, possible: 1, timeline: permitLapsed},
		{order: cf, step: "permit", fault: replyLost, none: beforeTheCall},
		{order: cf, step: "call", fault: killedBefore, effects: 0, state: unknown, reason: worker, possible: 1, timeline: permitLapsed},
		{order: cf, step: "call", fault: killedAfter, effects: 1, state: unknown, reason: worker, possible: 1, timeline: permitLapsed},
		{order: cf, step: "call", fault: replyLost, effects: 1, state: unknown, reason: lost, possible: 1, timeline: lostOnce},
		{order: cf, step: "complete", fault: killedBefore, effects: 1, state: unknown, reason: worker, possible: 1, timeline: permitLapsed},
		{order: cf, step: "complete", fault: killedAfter, effects: 1, state: sent, reason: none, possible: 1, timeline: once},
		{order: cf, step: "complete", fault: replyLost, effects: 1, state: unknown, reason: worker, possible: 1, timeline: permitLapsed},
		{order: cf, step: "settle", fault: killedBefore, effects: 1, state: sent, reason: none, possible: 1, timeline: once},
		{order: cf, step: "settle", fault: killedAfter, effects: 1, state: sent, reason: none, possible: 1, timeline: once},
		{order: cf, step: "settle", fault: replyLost, effects: 1, state: unknown, reason: lost, possible: 1, timeline: lostOnce},

		{order: sf, step: "accept", fault: killedBefore, effects: 1, state: sent, reason: none, possible: 1, timeline: once},
		{order: sf, step: "accept", fault: killedAfter, effects: 1, state: sent, reason: none, possible: 2, timeline: lapsedOnce},
		{order: sf, step: "accept", fault: replyLost, none: beforeTheCall},
		{order: sf, step: "lease", fault: killedBefore, effects: 1, state: sent, reason: none, possible: 1, timeline: once},
		{order: sf, step: "lease", fault: killedAfter, effects: 1, state: sent, reason: none, possible: 2, timeline: lapsedOnce},
		{order: sf, step: "lease", fault: replyLost, none: beforeTheCall},
		{order: sf, step: "claim", fault: killedBefore, effects: 1, state: sent, reason: none, possible: 2, timeline: lapsedOnce},
		{order: sf, step: "claim", fault: killedAfter, effects: 1, state: sent, reason: none, possible: 2, timeline: lapsedOnce},
		{order: sf, step: "claim", fault: replyLost, none: beforeTheCall},
		{order: sf, step: "caps", fault: killedBefore, effects: 1, state: sent, reason: none, possible: 2, timeline: lapsedOnce},
		{order: sf, step: "caps", fault: killedAfter, effects: 1, state: sent, reason: none, possible: 2, timeline: lapsedOnce},
		{order: sf, step: "caps", fault: replyLost, none: beforeTheCall},
		{order: sf, step: "permit", fault: killedBefore, none: noPermit},
		{order: sf, step: "permit", fault: killedAfter, none: noPermit},
		{order: sf, step: "permit", fault: replyLost, none: noPermit},
		{order: sf, step: "call", fault: killedBefore, effects: 1, state: sent, reason: none, possible: 2, timeline: lapsedOnce},
		{order: sf, step: "call", fault: killedAfter, effects: 2, state: sent, reason: none, possible: 2, timeline: lapsedOnce},
		{order: sf, step: "call", fault: replyLost, effects: 2, state: sent, reason: none, possible: 2,
			timeline: []string{"1 unknown reply_lost", "2 sent"}},
		{order: sf, step: "complete", fault: killedBefore, effects: 2, state: sent, reason: none, possible: 2, timeline: lapsedOnce},
		{order: sf, step: "complete", fault: killedAfter, effects: 1, state: sent, reason: none, possible: 1, timeline: once},
		// The holder knew that the reply was lost, and died before it could say so.
		{order: sf, step: "complete", fault: replyLost, effects: 2, state: sent, reason: none, possible: 2, timeline: lapsedOnce},
		// In this order the tombstone comes before the outcome, and dies with the process.
		{order: sf, step: "settle", fault: killedBefore, effects: 2, state: sent, reason: none, possible: 2, timeline: lapsedOnce},
		{order: sf, step: "settle", fault: killedAfter, effects: 2, state: sent, reason: none, possible: 2, timeline: lapsedOnce},
		// A lost reply settles nothing here: it is the repeat that comes to this step.
		{order: sf, step: "settle", fault: replyLost, effects: 3, state: sent, reason: none, possible: 3,
			timeline: []string{"1 unknown reply_lost", "2 unknown lease_lapsed", "3 sent"}},
	}
}()

// point is the fault point at which the process dies; empty: it lives on.
func (c *crashCell) point() string {
	switch {
	case c.fault == killedAfter:
		return c.step + ".after"
	case c.fault == replyLost && c.step == "call":
		return ""
	}
	return c.step + ".before"
}

func (c *crashCell) String() string {
	row := fmt.Sprintf("%-11s %-8s %-13s →", c.order, c.step, c.fault)
	if c.none != "" {
		return row + " n/a: " + c.none
	}
	return fmt.Sprintf("%s %d, %s; possible %d; %s", row, c.effects,
		strings.TrimSpace(string(c.state)+" "+string(c.reason)), c.possible, strings.Join(c.timeline, ", "))
}

// codeSteps reads the steps that the engine has, in their order, each with
// the suffixes that it has a fault point for.
func codeSteps(t *testing.T) (steps []string, points map[string]bool) {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), filepath.Join("..", "..", "delivery", "step.go"), nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	points = map[string]bool{}
	ast.Inspect(f, func(n ast.Node) bool {
		lit, ok := n.(*ast.BasicLit)
		if !ok || lit.Kind != token.STRING {
			return true
		}
		point, err := strconv.Unquote(lit.Value)
		step, _, dotted := strings.Cut(point, ".")
		if err != nil || !dotted {
			t.Fatalf("step %s is not of the form step.before", lit.Value)
		}
		if points[point] = true; !slices.Contains(steps, step) {
			steps = append(steps, step)
		}
		return true
	})
	return steps, points
}

// Whoever gives the engine a new step says here what a crash there comes to.
func TestCrashMatrix_HasARowForEveryStep(t *testing.T) {
	t.Parallel()
	steps, points := codeSteps(t)
	if len(steps) < 8 {
		t.Fatalf("the engine has the steps %v; there are at least eight", steps)
	}
	want := map[string]bool{}
	for _, order := range []notifier.Order{notifier.OrderClaimFirst, notifier.OrderSendFirst} {
		for _, step := range steps {
			for _, fault := range crashFaults {
				want[fmt.Sprintf("%s %s %s", order, step, fault)] = true
			}
		}
	}
	got := map[string]bool{}
	for i := range crashMatrix {
		c := &crashMatrix[i]
		got[fmt.Sprintf("%s %s %s", c.order, c.step, c.fault)] = true
		if p := c.point(); c.none == "" && p != "" && !points[p] {
			t.Errorf("%s: the engine has no fault point %s", c, p)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" || len(crashMatrix) != len(want) {
		t.Errorf("%d rows, want %d; the difference (-want +got):\n%s", len(crashMatrix), len(want), diff)
	}
}

// crashChannels is where every cell is played: the row is the same for all.
var crashChannels = [...]string{"apns", "email", "webhook"}

func TestCrashMatrix(t *testing.T) {
	t.Parallel()
	bin := buildBinary(t, "faultpoint")
	sim := startProviders(t)
	loseReplies(sim)
	rows := make([][len(crashChannels)]string, len(crashMatrix))
	t.Run("cell", func(t *testing.T) {
		for i := range crashMatrix {
			c := &crashMatrix[i]
			if c.none != "" {
				continue
			}
			for j, channel := range crashChannels {
				t.Run(fmt.Sprintf("%s/%s/%s/%s", c.order, c.step, strings.ReplaceAll(c.fault, " ", "_"), channel), func(t *testing.T) {
					t.Parallel()
					got := c.play(t, bin, sim, channel, i)
					if rows[i][j] = got.String(); rows[i][j] != c.String() {
						t.Errorf("not what the matrix says:\n got %s\nwant %s", got, c)
					}
				})
			}
		}
	})
	played, none := 0, 0
	var table strings.Builder
	for i := range crashMatrix {
		if crashMatrix[i].none != "" {
			none++
			fmt.Fprintln(&table, crashMatrix[i].String())
			continue
		}
		played++
		// A row that differs by channel is printed as often as it differs.
		for _, row := range slices.Compact(slices.Sorted(slices.Values(rows[i][:]))) {
			fmt.Fprintln(&table, row)
		}
	}
	t.Logf("order step fault → effects, state (%d cells played on each of %v, %d n/a)\n%s", played, crashChannels, none, table.String())
}

// loseReplies has the providers lose the first answer of every cell that wants it.
func loseReplies(sim *simulate.Server) {
	var faults []simulate.Fault
	for i := range crashMatrix {
		if c := &crashMatrix[i]; c.fault != replyLost || c.none != "" {
			continue
		}
		for _, channel := range crashChannels {
			m := message{To: to(sim, channel, i)}
			faults = append(faults, simulate.Fault{Channel: channel, Address: m.address(), Times: 1, Kind: simulate.FaultDropReply})
		}
	}
	sim.SetFaults(faults)
}

// play runs the cell to rest and returns what came of it. The cap shows that
// no unit is lost: claim-first has one, and needs it for the attempt that
// takes the dead one's place; send-first counts what may have arrived.
func (c *crashCell) play(t *testing.T, bin string, sim *simulate.Server, channel string, n int) *crashCell {
	capped := 1
	if c.order == notifier.OrderSendFirst {
		capped = 3
	}
	dir := installation(t, sim, 0, map[string]string{"note": quickPolicy(c.order, capped)})
	s := newServer(t, bin, dir, "NOTIFIER_FAULT="+c.point(), "NOTIFIER_FAULT_KEY=victim", "NOTIFIER_FAULT_ONCE="+filepath.Join(dir, "struck"))
	s.start()
	m := message{Key: "victim-1", Type: "note", Recipient: "u_1", To: to(sim, channel, n), Data: map[string]string{"text": "hello"}}
	id := s.sendThrough(m, c.point() != "")
	notes := s.settled([]string{id})
	// The cells share the providers, and no address is used twice.
	entries := slices.DeleteFunc(sim.Effects(), func(e simulate.Entry) bool { return e.Address != m.address() })
	s.checkPromise(entries, notes)
	return c.outcome(t, entries, notes)
}

// outcome is the row as it was played.
func (c *crashCell) outcome(t *testing.T, entries []simulate.Entry, notes []notifier.Notification) *crashCell {
	t.Helper()
	if len(notes[0].Deliveries) != 1 {
		t.Fatalf("%d deliveries, want 1", len(notes[0].Deliveries))
	}
	d := &notes[0].Deliveries[0]
	got := &crashCell{order: notes[0].Order, step: c.step, fault: c.fault, state: d.State, reason: d.Reason, possible: d.PossibleEffects}
	for _, e := range entries {
		if e.TookEffect {
			got.effects++
		}
	}
	for _, a := range d.Attempts {
		got.timeline = append(got.timeline, strings.TrimSpace(fmt.Sprintf("%d %s %s", a.Fence, a.Outcome, a.Reason)))
	}
	return got
}

// The matrix has to be able to fail: without the permit a claim-first message
// whose sender dies after the call is sent again, and the checks say so.
func TestCrashMatrix_SeesAMissingPermit(t *testing.T) {
	t.Parallel()
	bin := buildBinary(t, "faultpoint", "mutant_no_permit")
	sim := startProviders(t)
	dir := installation(t, sim, 0, map[string]string{"note": quickPolicy(notifier.OrderClaimFirst, 0)})
	s := newServer(t, bin, dir, "NOTIFIER_FAULT=call.after", "NOTIFIER_FAULT_KEY=victim", "NOTIFIER_FAULT_ONCE="+filepath.Join(dir, "struck"))
	s.start()
	m := message{Key: "victim-1", Type: "note", Recipient: "u_1", To: to(sim, "apns", 1), Data: map[string]string{"text": "hello"}}
	notes := s.settled([]string{s.sendThrough(m, true)})
	found := checkLog(sim.Effects(), notes)
	for _, rule := range []string{"J2", "J3"} {
		if !slices.ContainsFunc(found, func(b broken) bool { return b.rule == rule }) {
			t.Errorf("a build without the permit passes rule %s; the checks found %v", rule, found)
		}
	}
}

// What a kill costs claim-first is bounded: the permits of one micro-batch and
// the calls on the wire, however much is in flight. Here a hundred messages
// come at once, and the process dies with a permit in its hand.
func TestCrash_PermitsOpenAtTheKill(t *testing.T) {
	t.Parallel()
	// inTheProcess is for calls that had passed their gate, and whose bytes had
	// not left: no provider can tell them from those that had not.
	const messages, victim, inTheProcess = 100, 40, 8
	const permitBatch = 32 // as the engine has it
	bin := buildBinary(t, "faultpoint")
	sim := startProviders(t)
	sim.SetFaults([]simulate.Fault{{Channel: "apns", Kind: simulate.FaultDelay, Delay: 50 * time.Millisecond}})
	dir := installation(t, sim, 0, map[string]string{"note": quickPolicy(notifier.OrderClaimFirst, 0)})
	s := newServer(t, bin, dir, "NOTIFIER_FAULT=permit.after", "NOTIFIER_FAULT_KEY=victim", "NOTIFIER_FAULT_ONCE="+filepath.Join(dir, "struck"))
	s.start()
	ids, errs := make([]string, messages), make([]error, messages)
	var senders sync.WaitGroup
	for i := range messages {
		key := fmt.Sprintf("other-%d", i)
		if i == victim {
			key = "victim"
		}
		m := message{Key: key, Type: "note", Recipient: fmt.Sprintf("u_%d", i), To: to(sim, "apns", i), Data: map[string]string{"text": "hello"}}
		senders.Go(func() { ids[i], errs[i] = s.send(m) })
	}
	s.awaitDeath()
	open := openLeases(t, s.ledger())
	s.start()
	senders.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	notes := s.settled(ids)
	entries := sim.Effects()
	s.checkPromise(entries, notes)
	permitted, called := map[string]bool{}, 0
	for _, l := range open {
		if l.permitted {
			permitted[l.id] = true
		}
	}
	for _, e := range entries {
		if permitted[e.Delivery] {
			called++
		}
	}
	unknown := map[string]bool{}
	for _, d := range deliveriesOf(notes, "note") {
		if d.State == notifier.StateUnknown {
			unknown[d.ID.String()] = true
		}
	}
	if diff := cmp.Diff(permitted, unknown); diff != "" {
		t.Errorf("not the deliveries whose permit the kill met are unknown (-permit +unknown):\n%s", diff)
	}
	if lost := len(permitted) - called; lost < 1 || lost > permitBatch+inTheProcess {
		t.Errorf("%d permits were open and not called, want 1 to %d", lost, permitBatch+inTheProcess)
	}
	t.Logf("%d permits open at the kill, %d of them called; %d of %d messages sent", len(permitted), called, messages-len(unknown), messages)
}
