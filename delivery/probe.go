package delivery

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/seed-4b260dfd/notifier"
	"github.com/seed-4b260dfd/notifier/channels"
)

var errShut = errors.New("the account makes no calls now")

// candidates is how many due deliveries of a lane are looked through for a
// send-first one. The others are handed back, which is two writes each.
const candidates = 64

// probe leases for an account whose breaker is open and lets one delivery
// through: a send-first one before a claim-first one, which a provider that
// still fails would make unknown for good.
func (e *Engine) probe(ctx context.Context, a *account) (sleep time.Duration, again bool, err error) {
	if a.paused.Load() {
		return pollEvery, false, nil
	}
	lanes, sleep := a.waiting(time.Now())
	if len(lanes) == 0 {
		return sleep, false, nil
	}
	if wait, ok := a.pacedProbe(time.Now()); !ok {
		if s := a.lacking(); s != nil {
			e.refill(ctx, a, s)
			return 0, true, nil
		}
		return wait, false, nil
	}
	var found []*work
	var chosen *work
	for _, p := range lanes {
		n := a.takeUpTo(p, candidates)
		if n == 0 {
			break
		}
		leased, since, err := e.lease(a, p, n)
		a.fillFor(p, n, len(leased), true)
		if err != nil && chosen == nil {
			return 0, false, err
		}
		for i := range leased {
			w := newWork(e, a, &leased[i], since)
			if found = append(found, w); chosen == nil || chosen.lease.Order != notifier.OrderSendFirst && w.lease.Order == notifier.OrderSendFirst {
				chosen = w
			}
		}
		if err != nil || chosen != nil && chosen.lease.Order == notifier.OrderSendFirst {
			break
		}
	}
	if chosen == nil {
		return sleep, false, nil
	}
	chosen.probe = true
	a.breaker.begin()
	for _, w := range found {
		e.start(w) // all but one are refused at once, and handed back
	}
	return pollEvery, false, nil
}

// shut reports whether the account makes no call for this delivery now.
func (w *work) shut(now time.Time) bool {
	b := &w.account.breaker
	return b.throttled(now) || !w.probe && b.now() != breakerClosed
}

// heard takes in what the call says about the account.
func (w *work) heard(res *channels.Result) {
	a, now := w.account, time.Now()
	if w.lease.Tries == 0 {
		a.budget.note(w.started)
	}
	if res.AccountWide && res.Outcome == notifier.OutcomeNotSent && a.breaker.throttle(res.RetryAfter, now) {
		w.e.log.Warn("a provider asks an account to slow down", "channel", string(a.kind), "account", a.name,
			"for", time.Duration(a.breaker.quiet.Load()-now.UnixNano()).Round(time.Millisecond), "answer", res.ProviderStatus)
	}
	w.judged = judge(res) != saysNothing
	if a.breaker.note(res, w.probe, now) {
		e := w.e
		switch why, _ := a.breaker.hold(now); why {
		case notifier.ReasonBreaker, notifier.ReasonBadCredentials:
			e.log.Warn("the breaker of an account opened", "channel", string(a.kind), "account", a.name, "reason", string(why), "answer", res.ProviderStatus)
		default:
			e.log.Info("the breaker of an account closed", "channel", string(a.kind), "account", a.name)
		}
	}
	if w.probe {
		a.poke()
	}
}

// endProbe gives the probe to another delivery when this one came to no call.
func (w *work) endProbe() {
	if w.probe && !w.judged {
		w.account.breaker.abandon(time.Now())
		w.account.poke()
	}
}

// withheld says that this is a retry which the account's budget has no room for.
func (w *work) withheld() bool {
	if w.lease.Tries == 0 || w.probe {
		return false
	}
	wait, ok := w.account.budget.take(time.Now())
	if ok {
		return false
	}
	w.e.metrics.budgetExhausted.WithLabelValues(string(w.account.kind), w.account.name).Inc()
	w.giveBack(notifier.Return{Reason: notifier.ReasonBackoff, After: wait})
	return true
}

// shutAccounts are the accounts whose breaker is not closed, for /readyz.
func (e *Engine) shutAccounts() (parts []string) {
	for key, a := range e.accounts {
		if a.breaker.now() != breakerClosed {
			parts = append(parts, "account:"+string(key.channel)+"."+key.name)
		}
	}
	slices.Sort(parts)
	return parts
}

var breakerDesc = prometheus.NewDesc("notifier_breaker_state", "State of each account's breaker on this node: 0 closed, 1 half-open, 2 open.", []string{"channel", "account"}, nil)

// breakerCollector shows the breakers as they are when they are scraped.
type breakerCollector struct{ e *Engine }

// Describe implements prometheus.Collector.
func (breakerCollector) Describe(ch chan<- *prometheus.Desc) { ch <- breakerDesc }

// Collect implements prometheus.Collector.
func (c breakerCollector) Collect(ch chan<- prometheus.Metric) {
	for key, a := range c.e.accounts {
		ch <- prometheus.MustNewConstMetric(breakerDesc, prometheus.GaugeValue, float64(a.breaker.now()), string(key.channel), key.name)
	}
}
