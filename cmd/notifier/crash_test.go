package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-4b260dfd/notifier"
	"github.com/seed-4b260dfd/notifier/channels/simulate"
)

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
