package main

import (
	"fmt"
	"strings"

	"github.com/seed-4b260dfd/notifier"
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
