package delivery_test

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/seed-4b260dfd/notifier"
	"github.com/seed-4b260dfd/notifier/channels"
	"github.com/seed-4b260dfd/notifier/delivery"
)

// withLimits sets the limits of the account that the tests send through.
func withLimits(set func(*delivery.Account)) option {
	return func(c *delivery.Config, _ map[string]string) {
		shop := c.Accounts[notifier.ChannelAPNs]["shop"]
		set(&shop)
		c.Accounts[notifier.ChannelAPNs]["shop"] = shop
	}
}

// patient outlasts any outage of a test.
const patient = "order: send_first\nchannels: [{channel: apns}]\nexpires_after: 1h\nlease: 10s\n" +
	"data: {n: {required: true}}\nretry: {initial: 10ms, factor: 1, max: 10ms, max_attempts: 100, max_unknown: 100}\n"

// outage has the provider answer every call with a result until it is over.
func (w *world) outage(res channels.Result) (over *atomic.Bool) {
	over = new(atomic.Bool)
	w.provider.mu.Lock()
	defer w.provider.mu.Unlock()
	w.provider.answer = func(context.Context, int, *channels.Call) channels.Result {
		if over.Load() {
			return channels.Result{Outcome: notifier.OutcomeSent}
		}
		return res
	}
	return over
}

// What an outage makes of a backlog: few claim-first deliveries are lost, no
// send-first one ends by it, and those that wait are left where they are.
func TestBreaker_Outage(t *testing.T) {
	t.Parallel()
	const slots, after, each = 8, 3, 60
	const probe = 100 * time.Millisecond
	for _, tc := range []struct {
		name string
		res  channels.Result
		why  notifier.Reason
	}{
		{"500", result(notifier.OutcomeUnknown, notifier.ReasonProviderError), notifier.ReasonBreaker},
		{"dial refused", result(notifier.OutcomeNotSent, notifier.ReasonUnreachable), notifier.ReasonBreaker},
		{"bad key", result(notifier.OutcomeNotSent, notifier.ReasonBadCredentials), notifier.ReasonBadCredentials},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			reg := prometheus.NewRegistry()
			w := newWorld(t, withPolicy("alert", patient), withRegistry(reg), withLimits(func(a *delivery.Account) {
				a.MaxInFlight, a.Breaker = slots, delivery.Breaker{After: after, Probe: probe}
			}))
			over := w.outage(tc.res)
			var nudges, alerts []notifier.ID
			for i := range each {
				nudges = append(nudges, w.accept(request("nudge", "n"+key(i))).ID)
				alerts = append(alerts, w.accept(request("alert", "a"+key(i))).ID)
			}
			until(t, "the breaker is open", func() bool { return gauge(t, reg, "notifier_breaker_state") > 0 })
			if !slices.Contains(w.degraded(), "account:apns.shop") {
				t.Error("the account is not among what is degraded")
			}
			began, before := time.Now(), w.provider.requests()
			until(t, "five probes", func() bool { return w.provider.requests() >= before+slots+5 })
			probes := int(time.Since(began)/probe) + 1
			until(t, "one is shown to wait for the breaker", func() bool {
				d := w.shown(nudges[each-1])
				return d.State == notifier.StatePending && d.Reason == tc.why && d.NextAttemptAt == nil
			})
			over.Store(true)
			unknown, fences := 0, 0
			for _, id := range nudges {
				d := w.settled(id)
				if d.State == notifier.StateUnknown {
					unknown++
				} else if d.State != notifier.StateSent {
					t.Errorf("%s ended %s %s, want sent or unknown", d.ID, d.State, d.Reason)
				}
				fences += int(d.Attempts[len(d.Attempts)-1].Fence)
			}
			for _, id := range alerts {
				d := w.settled(id)
				if d.State != notifier.StateSent {
					t.Errorf("%s ended %s %s, want sent", d.ID, d.State, d.Reason)
				}
				fences += int(d.Attempts[len(d.Attempts)-1].Fence)
			}
			// The last calls may have been judged after the last look at the clock.
			if most := slots + after + probes + 2; unknown > most {
				t.Errorf("%d claim-first deliveries are unknown, want at most %d", unknown, most)
			}
			if slices.Contains(w.degraded(), "account:apns.shop") || gauge(t, reg, "notifier_breaker_state") != 0 {
				t.Error("the breaker is not closed after all was sent")
			}
			// One lease for each request, and the few, no more than there are slots, that each probe looked through.
			if most := w.provider.requests() + (probes+6)*slots; fences > most {
				t.Errorf("%d leases, want at most %d: what waits is left alone", fences, most)
			}
			t.Logf("%d requests, %d unknown, %d leases for %d deliveries", w.provider.requests(), unknown, fences, 2*each)
		})
	}
}

// A probe is a send-first delivery if there is one, however many claim-first
// ones are due before it.
func TestBreaker_ProbesWithSendFirst(t *testing.T) {
	t.Parallel()
	reg := prometheus.NewRegistry()
	w := newWorld(t, withPolicy("alert", patient), withRegistry(reg), withLimits(func(a *delivery.Account) {
		a.MaxInFlight, a.Breaker = 8, delivery.Breaker{After: 1, Probe: 300 * time.Millisecond}
	}))
	over := w.outage(result(notifier.OutcomeUnknown, notifier.ReasonTimeOut))
	first := w.accept(request("nudge", "first"))
	until(t, "the breaker is open", func() bool { return gauge(t, reg, "notifier_breaker_state") == 2 })
	var waiting []notifier.ID
	for i := range 5 {
		waiting = append(waiting, w.accept(request("nudge", key(i))).ID)
	}
	alert := w.accept(request("alert", "alert"))
	until(t, "two probes", func() bool { return w.provider.requests() >= 3 })
	over.Store(true)
	if d := w.settled(alert.ID); d.State != notifier.StateSent || len(d.Attempts) < 2 {
		t.Errorf("the send-first delivery ended %s after %d attempts, want sent after the probes", d.State, len(d.Attempts))
	}
	if d := w.settled(first.ID); d.State != notifier.StateUnknown {
		t.Errorf("the first ended %s, want unknown: it opened the breaker", d.State)
	}
	for _, id := range waiting {
		if d := w.settled(id); d.State != notifier.StateSent {
			t.Errorf("%s ended %s %s, want sent: it was no probe", d.ID, d.State, d.Reason)
		}
	}
}

// A provider that asks an account to slow down is not asked again meanwhile, by
// any delivery of it.
func TestThrottle_OfTheWholeAccount(t *testing.T) {
	t.Parallel()
	const quiet = 400 * time.Millisecond
	w := newWorld(t, withLimits(func(a *delivery.Account) { a.MaxInFlight = 4 }))
	var mu [2]atomic.Int64 // when it was said, and when the next call came
	w.provider.answer = func(context.Context, int, *channels.Call) channels.Result {
		now := time.Now().UnixNano()
		if mu[0].CompareAndSwap(0, now) {
			return channels.Result{Outcome: notifier.OutcomeNotSent, Reason: notifier.ReasonThrottled, RetryAfter: quiet, AccountWide: true}
		}
		mu[1].CompareAndSwap(0, now)
		return channels.Result{Outcome: notifier.OutcomeSent}
	}
	first := w.accept(request("nudge", "first"))
	until(t, "the first is told so", func() bool { return w.shown(first.ID).Reason == notifier.ReasonThrottled })
	var ids []notifier.ID
	for i := range 20 {
		ids = append(ids, w.accept(request("nudge", key(i))).ID)
	}
	if d := w.shown(ids[19]); d.State == notifier.StatePending && (d.Reason != notifier.ReasonThrottled || d.NextAttemptAt == nil) {
		t.Errorf("a delivery that waits is shown as %s, next attempt %v; want throttled and a time", d.Reason, d.NextAttemptAt)
	}
	for _, id := range append(ids, first.ID) {
		if d := w.settled(id); d.State != notifier.StateSent || d.PossibleEffects != 1 {
			t.Errorf("%s ended %s with %d possible effects, want sent with one", d.ID, d.State, d.PossibleEffects)
		}
	}
	if got := time.Duration(mu[1].Load() - mu[0].Load()); got < quiet {
		t.Errorf("the next call came after %v, want %v or more", got, quiet)
	}
	if got := w.provider.requests(); got != 22 {
		t.Errorf("got %d requests, want 22: one for each, and the first again", got)
	}
}

// Retries beyond the budget wait, and that they do uses none of their attempts.
func TestRetryBudget_HoldsBackAndUsesNoAttempt(t *testing.T) {
	t.Parallel()
	const n = 14 // a burst of ten, one for ten first attempts, and three that wait a second each
	reg := prometheus.NewRegistry()
	two := "order: send_first\nchannels: [{channel: apns}]\nexpires_after: 1h\nlease: 10s\n" +
		"data: {n: {required: true}}\nretry: {initial: 10ms, factor: 1, max: 10ms, max_attempts: 2, max_unknown: 2}\n"
	w := newWorld(t, withRegistry(reg), withPolicy("alert", two), withLimits(func(a *delivery.Account) { a.RetryBudget = 0.1 }))
	w.provider.answer = script(result(notifier.OutcomeUnknown, notifier.ReasonReplyLost))
	began := time.Now()
	var ids []notifier.ID
	for i := range n {
		ids = append(ids, w.accept(request("alert", key(i))).ID)
	}
	for _, id := range ids {
		if d := w.settled(id); d.State != notifier.StateSent || len(d.Attempts) != 2 {
			t.Errorf("%s ended %s after %d attempts, want sent after two", d.ID, d.State, len(d.Attempts))
		}
	}
	if got := w.provider.requests(); got != 2*n {
		t.Errorf("got %d requests, want %d", got, 2*n)
	}
	if took := time.Since(began); took < 2*time.Second {
		t.Errorf("all retries were made within %v, want the last of them after more than two seconds", took)
	}
	if got := counter(t, reg, "notifier_retry_budget_exhausted_total", "shop"); got < 3 {
		t.Errorf("got %v retries held back, want three or more", got)
	}
}
