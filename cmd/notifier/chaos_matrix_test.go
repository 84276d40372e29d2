package main

import (
	"fmt"

	"github.com/seed-4b260dfd/notifier"
)

// What goes wrong in a cell of the chaos matrix, in three nodes over Postgres
// and Redis.
const (
	chaosKilledBefore   = "killed before"
	chaosKilledAfter    = "killed after"
	chaosPaused         = "paused past its lease"
	chaosProviderLost   = "provider reply lost"
	chaosRedisLost      = "redis reply lost"
	chaosPostgresLost   = "postgres reply lost"
	chaosCommitLost     = "commit reply lost"
	chaosRedisFlushed   = "redis flushed"
	chaosRedisEmpty     = "redis killed, back empty"
	chaosRedisFailover  = "redis failed over, newest lost"
	chaosPostgresKilled = "postgres killed, back"
)

var (
	chaosSteps  = [...]string{"accept", "lease", "claim", "caps", "permit", "call", "settle", "complete"}
	chaosFaults = [...]string{chaosKilledBefore, chaosKilledAfter, chaosPaused, chaosProviderLost, chaosRedisLost, chaosPostgresLost,
		chaosCommitLost, chaosRedisFlushed, chaosRedisEmpty, chaosRedisFailover, chaosPostgresKilled}
)

// chaosCell is one row: what is left when one delivery has met one fault at one
// step, and all who were paused have woken.
type chaosCell struct {
	order notifier.Order
	step  string
	fault string
	// none says why there is no such cell.
	none string
	// effects is how many requests the provider took, and state how it ended.
	effects int
	state   notifier.State
}

// lost is the messages that never came, repeated those that came once too often.
func (c *chaosCell) lost() int {
	if c.effects == 0 {
		return 1
	}
	return 0
}

func (c *chaosCell) repeated() int { return max(0, c.effects-1) }

func (c *chaosCell) String() string {
	row := fmt.Sprintf("%-11s %-8s %-30s →", c.order, c.step, c.fault)
	if c.none != "" {
		return row + " n/a: " + c.none
	}
	return fmt.Sprintf("%s effects %d, lost %d, repeated %d; %s", row, c.effects, c.lost(), c.repeated(), c.state)
}

// chaosExceptions are the cells that do not end with one effect, sent. All of
// them are a process that is gone for longer than its lease, or a lost answer,
// between the write that allows the call and the write of its outcome.
var chaosExceptions = map[string]chaosCell{
	// Claim-first: the permit is there and nobody knows how far its holder got.
	"claim_first permit killed after":        {effects: 0, state: notifier.StateUnknown},
	"claim_first call killed before":         {effects: 0, state: notifier.StateUnknown},
	"claim_first call killed after":          {effects: 1, state: notifier.StateUnknown},
	"claim_first complete killed before":     {effects: 1, state: notifier.StateUnknown},
	"claim_first call provider reply lost":   {effects: 1, state: notifier.StateUnknown},
	"claim_first call paused past its lease": {effects: 0, state: notifier.StateUnknown},
	// Send-first: it is sent again when nobody can say that it was sent.
	"send_first call killed after":            {effects: 2, state: notifier.StateSent},
	"send_first settle killed before":         {effects: 2, state: notifier.StateSent},
	"send_first call provider reply lost":     {effects: 2, state: notifier.StateSent},
	"send_first settle paused past its lease": {effects: 2, state: notifier.StateSent},
}

// chaosCells is the whole matrix, the cells that cannot be included.
func chaosCells() []chaosCell {
	var out []chaosCell
	for _, order := range []notifier.Order{notifier.OrderClaimFirst, notifier.OrderSendFirst} {
		for _, step := range chaosSteps {
			for _, fault := range chaosFaults {
				c := chaosCell{order: order, step: step, fault: fault, none: noChaos(order, step, fault), effects: 1, state: notifier.StateSent}
				if x, ok := chaosExceptions[fmt.Sprintf("%s %s %s", order, step, fault)]; ok {
					c.effects, c.state = x.effects, x.state
				}
				if c.none != "" {
					c.effects, c.state = 0, ""
				}
				out = append(out, c)
			}
		}
	}
	return out
}

// noChaos says why a cell cannot be; empty: it can.
func noChaos(order notifier.Order, step, fault string) string {
	if step == "permit" && order == notifier.OrderSendFirst {
		return noPermit
	}
	speaks := func(steps ...string) bool {
		for _, s := range steps {
			if s == step {
				return true
			}
		}
		return false
	}
	switch {
	case fault == chaosProviderLost && !speaks("call"):
		return "only the call speaks to the provider"
	case fault == chaosRedisLost && !speaks("claim", "caps", "settle") && step != "permit":
		return "this step does not speak to Redis"
	case fault == chaosPostgresLost && !speaks("accept", "lease", "permit", "complete"):
		return "this step does not speak to Postgres"
	case fault == chaosCommitLost && !speaks("complete"):
		return "this step commits with its one statement"
	}
	return ""
}
