package main

import (
	"context"
	"fmt"
	"slices"

	"github.com/seed-4b260dfd/notifier"
	"github.com/seed-4b260dfd/notifier/channels/simulate"
)

// judgement is the ledger's word beside the providers' log, at rest.
type judgement struct {
	notifications []*notifier.Notification
	all           []*compared
	byID          map[string]*compared
	requests      int
	// strays are requests that no delivery of the ledger explains.
	strays []string
	// made is what the client did; counted is what the servers counted.
	made    totals
	counted totals
	astray  []string
	scenes  int
}

// compared is a delivery with its lines of the log.
type compared struct {
	*notifier.DeliveryState
	typ      string
	order    notifier.Order
	requests []*simulate.Entry
}

func (c *compared) effects() (n int) {
	for _, e := range c.requests {
		if e.TookEffect {
			n++
		}
	}
	return n
}

// mayTakeEffect are the requests that were not refused with "later".
func (c *compared) mayTakeEffect() (may []*simulate.Entry) {
	for _, e := range c.requests {
		if e.MayTakeEffect {
			may = append(may, e)
		}
	}
	return may
}

// attempt is the ledger's word on a fence. The word of an owner that was
// fenced off counts as well: it is recorded.
func (c *compared) attempt(fence int64) *notifier.AttemptView {
	i := slices.IndexFunc(c.Attempts, func(a notifier.AttemptView) bool { return a.Fence == fence })
	if i < 0 {
		return nil
	}
	return &c.Attempts[i]
}

func (c *compared) String() string { return fmt.Sprintf("%s %s %s", c.typ, c.Channel, c.ID) }

// ruling is one part of the promise, and where it does not hold.
type ruling struct {
	rule string
	// of is how much was looked at, such as "19 deliveries".
	of     string
	broken []string
}

func (r *ruling) breaks(format string, args ...any) {
	r.broken = append(r.broken, fmt.Sprintf(format, args...))
}

// gather reads everything once more, now that all of it has ended.
func (d *demo) gather(ctx context.Context) (*judgement, error) {
	j := &judgement{byID: map[string]*compared{}, counted: d.counted, astray: d.astray, scenes: d.played}
	if err := d.count(ctx, &j.counted); err != nil {
		return nil, err
	}
	for _, in := range d.intents {
		n, err := d.notification(ctx, in.id)
		if err != nil {
			return nil, err
		}
		j.notifications = append(j.notifications, n)
		j.made.accepted++
		j.made.repeats += float64(in.repeats)
		for i := range n.Deliveries {
			c := &compared{DeliveryState: &n.Deliveries[i], typ: n.Type, order: n.Order}
			j.all, j.byID[c.ID.String()] = append(j.all, c), c
		}
	}
	entries, err := d.log()
	if err != nil {
		return nil, err
	}
	j.requests = len(entries)
	for i := range entries {
		e := &entries[i]
		if c := j.byID[e.Delivery]; c != nil {
			c.requests = append(c.requests, e)
			continue
		}
		j.strays = append(j.strays, fmt.Sprintf("%s %q: the ledger does not know it", e.Channel, e.Delivery))
	}
	return j, nil
}

// rulings is the whole verdict.
func (j *judgement) rulings() []*ruling {
	return []*ruling{j.claimFirst(), j.sendFirst(), j.repeats(), j.once(), j.joins(), j.sent(), j.possible(), j.ended(), j.counts(), j.told()}
}

func (j *judgement) of(order notifier.Order) (some []*compared) {
	for _, c := range j.all {
		if c.order == order {
			some = append(some, c)
		}
	}
	return some
}

// claimFirst: per notification, channel and address at most one request that
// may take effect. It is counted by what the provider was asked for, whatever
// the ledger thinks.
func (j *judgement) claimFirst() *ruling {
	some := j.of(notifier.OrderClaimFirst)
	r := &ruling{rule: "claim_first: at most one effect each", of: count(len(some), "delivery")}
	type effect struct {
		id               notifier.ID
		channel, address string
	}
	asked, took := map[effect]int{}, map[effect]int{}
	for _, c := range some {
		for _, e := range c.mayTakeEffect() {
			at := effect{c.ID.Notification, e.Channel, e.Address}
			if asked[at]++; e.TookEffect {
				took[at]++
			}
			if asked[at] > 1 {
				r.breaks("%s: %d effects of %d requests", c, took[at], asked[at])
			}
		}
	}
	return r
}

// sendFirst: at least one effect, or the ledger's word why there is none.
func (j *judgement) sendFirst() *ruling {
	some := j.of(notifier.OrderSendFirst)
	r := &ruling{rule: "send_first: at least one effect each, or a recorded reason", of: count(len(some), "delivery")}
	for _, c := range some {
		if c.effects() > 0 {
			continue
		}
		switch c.State {
		case notifier.StateRejected, notifier.StateSuppressed, notifier.StateExpired, notifier.StateDead, notifier.StateCancelled, notifier.StateUnknown:
			if c.Reason == notifier.ReasonNone {
				r.breaks("%s: no effect, and %s without a reason", c, c.State)
			}
		case notifier.StateSent, notifier.StateDelivered, notifier.StatePending, notifier.StateSending:
			r.breaks("%s: no effect, and the ledger says %s", c, c.State)
		}
	}
	return r
}

// repeats: under send-first, too, a request is followed by another only when
// nobody can know what came of it, and the ledger says so.
func (j *judgement) repeats() *ruling {
	r, n := &ruling{rule: "send_first: the same id, after an attempt recorded as unknown"}, 0
	for _, c := range j.of(notifier.OrderSendFirst) {
		may := c.mayTakeEffect()
		slices.SortStableFunc(may, func(a, b *simulate.Entry) int { return int(a.Fence - b.Fence) })
		for i := 1; i < len(may); i++ {
			n++
			a := c.attempt(may[i-1].Fence)
			if may[i].EffectKey != may[0].EffectKey || may[i].BodyHash != may[0].BodyHash {
				r.breaks("%s: request %d has another id or other content than the first", c, may[i].Fence)
			}
			if a == nil || a.Outcome != notifier.OutcomeUnknown.String() || a.Reason == notifier.ReasonNone {
				r.breaks("%s: request %d was repeated and is not recorded as unknown", c, may[i-1].Fence)
			}
		}
	}
	r.of = count(n, "repeat")
	return r
}

// once: a lease makes one request.
func (j *judgement) once() *ruling {
	r := &ruling{rule: "no attempt made two of them", of: count(j.requests, "request")}
	for _, c := range j.all {
		seen := map[int64]bool{}
		for _, e := range c.requests {
			if seen[e.Fence] {
				r.breaks("%s: two requests of attempt %d", c, e.Fence)
			}
			seen[e.Fence] = true
		}
	}
	return r
}

// joins: nothing reaches a provider that the ledger does not know.
func (j *judgement) joins() *ruling {
	r := &ruling{rule: "each is an attempt in the ledger", of: count(j.requests, "request"), broken: j.strays}
	for _, c := range j.all {
		for _, e := range c.requests {
			if c.attempt(e.Fence) == nil {
				r.breaks("%s: the ledger has no attempt %d", c, e.Fence)
			}
		}
	}
	return r
}

// sent: what the ledger calls sent has reached the provider.
func (j *judgement) sent() *ruling {
	r, n := &ruling{rule: "each has its effect at the provider"}, 0
	for _, c := range j.all {
		for _, a := range c.Attempts {
			if a.Outcome != notifier.OutcomeSent.String() {
				continue
			}
			n++
			if !slices.ContainsFunc(c.requests, func(e *simulate.Entry) bool { return e.Fence == a.Fence && e.TookEffect }) {
				r.breaks("%s: attempt %d is sent, and the provider has no effect of it", c, a.Fence)
			}
		}
	}
	r.of = count(n, "sent attempt")
	return r
}

// possible: what the ledger says may have arrived is never too little.
func (j *judgement) possible() *ruling {
	r := &ruling{rule: "none had more effects than the ledger calls possible", of: count(len(j.all), "delivery")}
	for _, c := range j.all {
		if n := c.effects(); n > c.PossibleEffects {
			r.breaks("%s: %d effects, of which the ledger calls %d possible", c, n, c.PossibleEffects)
		}
	}
	return r
}

// ended: every delivery has its one outcome.
func (j *judgement) ended() *ruling {
	r := &ruling{rule: "each has ended in one outcome", of: count(len(j.all), "delivery")}
	for _, c := range j.all {
		if !c.State.Finished() {
			r.breaks("%s: it is still %s", c, c.State)
		}
	}
	return r
}

// counts: what the client did, what the ledger kept and what the servers
// counted, those that were killed included, is the same.
func (j *judgement) counts() *ruling {
	kept := totals{accepted: float64(len(j.notifications))}
	for _, n := range j.notifications {
		kept.repeats += float64(n.Repeats)
	}
	r := &ruling{rule: "client, ledger and metrics agree on them and on the repeats caught", of: count(len(j.notifications), "intent")}
	for _, o := range []struct {
		who string
		totals
	}{{"the client made", j.made}, {"the metrics say", totals{j.counted.accepted, j.counted.repeats, 0}}} {
		if o.totals != kept {
			r.breaks("%s %.0f and %.0f, the ledger has %.0f and %.0f", o.who, o.accepted, o.repeats, kept.accepted, kept.repeats)
		}
	}
	if n := j.counted.failedAssertions; n > 0 {
		r.breaks("the servers counted %.0f failed assertions", n)
	}
	return r
}

// told: each scene came out as it is told.
func (j *judgement) told() *ruling {
	return &ruling{rule: "each came out as it is told", of: count(j.scenes, "scene"), broken: j.astray}
}
