package main

import (
	"fmt"
	"slices"

	"github.com/seed-4b260dfd/notifier"
	"github.com/seed-4b260dfd/notifier/channels/simulate"
)

// broken is one way in which the providers' log and the ledger do not fit.
type broken struct {
	// rule is the number of the rule, as checkLog lists them.
	rule     string
	delivery string
	what     string
}

func (b broken) String() string { return fmt.Sprintf("%s %s: %s", b.rule, b.delivery, b.what) }

// checkLog holds the providers' log against what the ledger says of all the
// notifications that were accepted, when both are at rest:
//
//	J1  no (delivery, fence) stands twice in the log
//	J2  claim-first: at most one request that may take effect per delivery
//	J3  claim-first: that request was made under the fence whose permit the ledger knows
//	J4  sent: at least one request, under a sent attempt exactly that one; suppressed,
//	    expired, cancelled, dead, and whatever shows no possible effect: none
//	J5  send-first: every request that was followed by another has a recorded reason
//	J6  every request joins a delivery and an attempt of the ledger
//	J7  the sums: requests = sent + rejected + those of unknown (claim-first);
//	    requests − deliveries reached ≤ attempts that license a repeat (send-first)
//	rest every delivery has ended
func checkLog(entries []simulate.Entry, notifications []notifier.Notification) []broken {
	c := logCheck{byID: map[string]*logged{}}
	for i := range notifications {
		n := &notifications[i]
		for j := range n.Deliveries {
			d := &logged{order: n.Order, DeliveryState: &n.Deliveries[j]}
			c.byID[d.ID.String()] = d
			c.all = append(c.all, d)
		}
	}
	for i := range entries {
		c.join(&entries[i])
	}
	for _, d := range c.all {
		c.delivery(d)
		switch d.order {
		case notifier.OrderClaimFirst:
			c.claimFirst(d)
		case notifier.OrderSendFirst:
			c.sendFirst(d)
		default:
			c.fail("J6", d, "its order is %q", d.order)
		}
	}
	c.sums()
	return c.found
}

// logged is a delivery with its lines of the log.
type logged struct {
	order notifier.Order
	*notifier.DeliveryState
	// lines are the requests that may have taken effect.
	lines []*simulate.Entry
	// refused are those that the provider answered with "later".
	refused []*simulate.Entry
}

// attempt is the ledger's word on a fence.
func (d *logged) attempt(fence int64) *notifier.AttemptView {
	for i := range d.Attempts {
		if a := &d.Attempts[i]; a.Fence == fence && !a.Late {
			return a
		}
	}
	return nil
}

// newest is the delivery's last attempt.
func (d *logged) newest() (fence int64) {
	for i := range d.Attempts {
		fence = max(fence, d.Attempts[i].Fence)
	}
	return fence
}

type logCheck struct {
	byID  map[string]*logged
	all   []*logged
	found []broken
}

func (c *logCheck) fail(rule string, d *logged, format string, args ...any) {
	c.found = append(c.found, broken{rule, d.ID.String(), fmt.Sprintf(format, args...)})
}

func (c *logCheck) join(e *simulate.Entry) {
	d := c.byID[e.Delivery]
	if d == nil {
		c.found = append(c.found, broken{"J6", e.Delivery, "the ledger does not know the delivery"})
		return
	}
	if d.attempt(e.Fence) == nil {
		c.fail("J6", d, "the ledger has no attempt under fence %d", e.Fence)
	}
	if slices.ContainsFunc(append(slices.Clone(d.lines), d.refused...), func(o *simulate.Entry) bool { return o.Fence == e.Fence }) {
		c.fail("J1", d, "fence %d is there twice", e.Fence)
	}
	if e.MayTakeEffect {
		d.lines = append(d.lines, e)
	} else {
		d.refused = append(d.refused, e)
	}
}

// delivery checks what holds for both orders.
func (c *logCheck) delivery(d *logged) {
	effects := 0
	for _, e := range d.lines {
		if e.TookEffect {
			effects++
		}
	}
	if effects > d.PossibleEffects {
		c.fail("J4", d, "%d effects, possible_effects %d", effects, d.PossibleEffects)
	}
	for _, a := range d.Attempts {
		if a.Outcome != notifier.OutcomeSent.String() {
			continue
		}
		if !slices.ContainsFunc(d.lines, func(e *simulate.Entry) bool { return e.Fence == a.Fence && e.TookEffect }) {
			c.fail("J4", d, "its attempt %d is sent and the provider has no effect of it", a.Fence)
		}
	}
	switch d.State {
	case notifier.StateSent, notifier.StateDelivered:
		if effects == 0 {
			c.fail("J4", d, "%s without an effect", d.State)
		}
	case notifier.StateSuppressed, notifier.StateExpired, notifier.StateCancelled, notifier.StateDead:
		if len(d.lines) > d.PossibleEffects {
			c.fail("J4", d, "%s with %d requests, possible_effects %d", d.State, len(d.lines), d.PossibleEffects)
		}
	case notifier.StateRejected, notifier.StateUnknown:
	case notifier.StatePending, notifier.StateSending:
		c.fail("rest", d, "it is still %s", d.State)
	}
}

func (c *logCheck) claimFirst(d *logged) {
	if len(d.lines) > 1 {
		c.fail("J2", d, "%d requests that may take effect", len(d.lines))
	}
	for _, e := range d.lines {
		a := d.attempt(e.Fence)
		if a == nil {
			continue // J6
		}
		if a.Outcome == notifier.OutcomeNotSent.String() || a.Fence != d.newest() {
			c.fail("J3", d, "a request under fence %d, of which the ledger says %s %s", e.Fence, a.Outcome, a.Reason)
		}
	}
	ended := d.State == notifier.StateSent || d.State == notifier.StateRejected || d.State == notifier.StateUnknown
	if !ended && len(d.lines) > 0 {
		c.fail("J4", d, "%s with %d requests", d.State, len(d.lines))
	}
}

func (c *logCheck) sendFirst(d *logged) {
	for _, e := range d.lines {
		last := !slices.ContainsFunc(d.lines, func(o *simulate.Entry) bool { return o.Fence > e.Fence })
		if a := d.attempt(e.Fence); !last && a != nil && !licenses(a) {
			c.fail("J5", d, "fence %d was followed by a further request; its attempt says %s %s", e.Fence, a.Outcome, a.Reason)
		}
	}
}

// licenses says whether an attempt's end is leave to make a further one that
// may be a repeat.
func licenses(a *notifier.AttemptView) bool {
	return a.Outcome == notifier.OutcomeUnknown.String() && a.Reason != notifier.ReasonNone
}

// sums compares the counts; it finds what joins one by one cannot.
func (c *logCheck) sums() {
	requests, reached, licensed := map[notifier.Order]int{}, map[notifier.Order]int{}, 0
	certain, unknown := 0, 0
	for _, d := range c.all {
		requests[d.order] += len(d.lines)
		if len(d.lines) > 0 {
			reached[d.order]++
		}
		switch {
		case d.order == notifier.OrderSendFirst:
			for i := range d.Attempts {
				if licenses(&d.Attempts[i]) {
					licensed++
				}
			}
		case d.State == notifier.StateUnknown:
			unknown++
		case d.State == notifier.StateSent || d.State == notifier.StateRejected:
			certain++
		}
	}
	if seen := requests[notifier.OrderClaimFirst] - certain; seen < 0 || seen > unknown {
		c.found = append(c.found, broken{"J7", "claim_first", fmt.Sprintf("%d requests, %d sent or rejected, %d unknown",
			requests[notifier.OrderClaimFirst], certain, unknown)})
	}
	if repeats := requests[notifier.OrderSendFirst] - reached[notifier.OrderSendFirst]; repeats > licensed {
		c.found = append(c.found, broken{"J7", "send_first", fmt.Sprintf("%d repeats, %d attempts that license one", repeats, licensed)})
	}
}
