package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/seed-4b260dfd/notifier"
	"github.com/seed-4b260dfd/notifier/channels/simulate"
)

// volley is several requests of one type, sent before the crash.
type volley struct {
	typ   string
	order notifier.Order
	sent  []*intent
	ended []*notifier.Notification
}

const (
	volleySize = 8
	// volleyAnswered is how many of a volley are answered before the crash.
	volleyAnswered = 2
)

// crash: the server dies with answers outstanding, and a new one goes on from
// what is on disk.
func (d *demo) crash(ctx context.Context) error {
	volleys := []*volley{
		{typ: priceDrop, order: notifier.OrderClaimFirst},
		{typ: weeklyDigest, order: notifier.OrderClaimFirst},
		{typ: orderShipped, order: notifier.OrderSendFirst},
	}
	if err := d.inFlight(ctx, volleys); err != nil {
		return err
	}
	if err := d.killAndRestart(ctx); err != nil {
		return err
	}
	for _, v := range volleys {
		var err error
		if v.ended, err = d.follow(ctx, true, v.sent...); err != nil {
			return err
		}
	}
	entries, err := d.log()
	if err != nil {
		return err
	}
	for _, v := range volleys {
		d.aftermath(v, entries)
	}
	return nil
}

// inFlight sends the volleys and returns when the providers have all of it and
// hold the answers of most of it.
func (d *demo) inFlight(ctx context.Context, volleys []*volley) error {
	var held []simulate.Fault
	for _, v := range volleys {
		for i := volleyAnswered; i < volleySize; i++ {
			_, hold := v.shot(i)
			held = append(held, hold)
		}
	}
	if err := d.setFaults(ctx, held...); err != nil {
		return err
	}
	before, err := d.log()
	if err != nil {
		return err
	}
	for _, v := range volleys {
		d.out.say(byClient, "%d × %s (%s)", volleySize, v.typ, v.order)
		for i := range volleySize {
			m, _ := v.shot(i)
			in, err := d.send(ctx, fmt.Sprintf("crash/%s/%d", v.typ, i), m)
			if err != nil {
				return err
			}
			v.sent = append(v.sent, in)
		}
	}
	err = d.until(ctx, "the providers have every request", func() (bool, error) {
		now, err := d.log()
		return len(now)-len(before) >= volleySize*len(volleys), err
	})
	if err != nil {
		return err
	}
	// What is answered is also written down before the crash.
	for _, v := range volleys {
		if _, err := d.follow(ctx, true, v.sent[:volleyAnswered]...); err != nil {
			return err
		}
	}
	d.out.say(byProvider, "has all %d, each took effect; the answers to %d are held back", volleySize*len(volleys), len(held))
	return nil
}

// shot is request number i of the volley, and the fault that holds its answer.
func (v *volley) shot(i int) (*request, simulate.Fault) {
	who := fmt.Sprintf("u_%s_%d", v.typ, i)
	push := simulate.Fault{Channel: "apns", Address: deviceOf(who), Kind: simulate.FaultDelay, Delay: time.Hour}
	switch v.typ {
	case weeklyDigest:
		address := who + "@example.com"
		return digest(address), simulate.Fault{Channel: "email", Address: address, Kind: simulate.FaultSlowDot, Delay: time.Hour}
	case orderShipped:
		return order(who, fmt.Sprint(2000+i)), push
	default:
		return drops(who), push
	}
}

func (d *demo) killAndRestart(ctx context.Context) error {
	if err := d.count(ctx, &d.counted); err != nil {
		return err
	}
	d.out.say(byServer, "process %d: kill -9", d.server.pid)
	d.server.kill()
	began := time.Now()
	if err := d.setFaults(ctx); err != nil {
		return err
	}
	if err := d.startServer(ctx); err != nil {
		return err
	}
	d.out.say(byServer, "process %d goes on from the same ledger, ready after %.2f s", d.server.pid, time.Since(began).Seconds())
	return nil
}

// aftermath tells what became of a volley.
func (d *demo) aftermath(v *volley, entries []simulate.Entry) {
	requests := map[string]int{}
	for i := range entries {
		requests[entries[i].Delivery]++
	}
	ends, total, most, least := map[string]int{}, 0, 0, len(entries)
	for _, n := range v.ended {
		s := &n.Deliveries[0]
		ends[fmt.Sprintf("%s; %s; possible effects: %d", withReason(string(s.State), s.Reason), attemptsLine(s), s.PossibleEffects)]++
		got := requests[s.ID.String()]
		total, most, least = total+got, max(most, got), min(least, got)
	}
	each := fmt.Sprintf("%d to %d", least, most)
	if least == most {
		each = fmt.Sprint(most)
	}
	d.out.say(byProvider, "%s (%s): %d messages, %d requests, %s of each", v.typ, v.order, len(v.ended), total, each)
	for _, end := range slices.Sorted(maps.Keys(ends)) {
		d.out.say(byLedger, "%d × %s", ends[end], end)
	}
	d.expectAftermath(v, requests)
}

// expectAftermath: what was held at the kill is unknown under claim-first and
// asked for once; under send-first it is asked for again, and sent.
func (d *demo) expectAftermath(v *volley, requests map[string]int) {
	for i, n := range v.ended {
		state, count := notifier.StateSent, 1
		if i >= volleyAnswered {
			switch v.order {
			case notifier.OrderClaimFirst:
				state = notifier.StateUnknown
			case notifier.OrderSendFirst:
				count = 2
			}
		}
		s := &n.Deliveries[0]
		d.expect(s.State == state && requests[s.ID.String()] == count, "%s %s is %s after %d requests, want %s after %d",
			v.typ, s.ID, s.State, requests[s.ID.String()], state, count)
	}
}
