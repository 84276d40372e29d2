package delivery

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/seed-4b260dfd/notifier"
	"github.com/seed-4b260dfd/notifier/channels"
)

// The hops at which a repeat is caught, and the causes of a possible repeat.
const (
	hopAPI           = "api"
	hopClaim         = "claim"
	causeReplyLost   = "reply_lost"
	causeLeaseLapsed = "lease_lapsed"
	causeRewound     = "ledger_rewound"
)

type metrics struct {
	accepted, repeats, mismatches, attempts, finished *prometheus.CounterVec
	possibleRepeats, leasesLapsed, lateOutcomes       *prometheus.CounterVec
	capsDenied, capsUncounted, assertionsFailed       *prometheus.CounterVec
	budgetExhausted                                   *prometheus.CounterVec
	repeatAge, acceptToSend, sendSeconds              *prometheus.HistogramVec
}

// ageBuckets reach past the longest window in which a repeat is recognised.
var ageBuckets = []float64{1, 10, 60, 600, 3600, 6 * 3600, 86400, 3 * 86400, 7 * 86400, 14 * 86400, 31 * 86400}

func newMetrics(reg prometheus.Registerer, r Reader) (*metrics, error) {
	var all []prometheus.Collector
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "notifier_" + name, Help: help}, labels)
		all = append(all, c)
		return c
	}
	histogram := func(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
		h := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "notifier_" + name, Help: help, Buckets: buckets}, labels)
		all = append(all, h)
		return h
	}
	calls := prometheus.ExponentialBuckets(0.001, 2, 18)
	m := &metrics{
		accepted:         counter("accepted_total", "Notifications accepted.", "type"),
		repeats:          counter("repeats_total", "Repeats caught.", "hop", "type"),
		mismatches:       counter("fingerprint_mismatches_total", "Keys used again for another request.", "type"),
		attempts:         counter("attempts_total", "Provider calls.", "channel", "account", "outcome", "reason"),
		finished:         counter("finished_total", "Deliveries that ended.", "type", "channel", "state", "reason"),
		possibleRepeats:  counter("possible_repeats_total", "Attempts after one that may have arrived.", "type", "channel", "cause"),
		leasesLapsed:     counter("leases_lapsed_total", "Leases and permits that ended without a word from their owner.", "type", "order"),
		lateOutcomes:     counter("late_outcomes_total", "Answers of owners that had been fenced off.", "channel"),
		capsDenied:       counter("caps_denied_total", "Deliveries that a cap suppressed or deferred.", "cap"),
		capsUncounted:    counter("caps_uncounted_total", "Attempts made while their cap could not be asked.", "cap"),
		budgetExhausted:  counter("retry_budget_exhausted_total", "Retries that were put off because there were too many.", "channel", "account"),
		assertionsFailed: counter("assertions_failed_total", "Things that must never happen. Must stay 0.", "assertion"),
		repeatAge:        histogram("repeat_age_seconds", "Age of the first copy when a repeat was caught.", ageBuckets, "hop"),
		acceptToSend:     histogram("accept_to_send_seconds", "From acceptance, or send_at, to the first byte.", calls, "type"),
		sendSeconds:      histogram("send_seconds", "Length of provider calls.", calls, "channel", "account"),
	}
	for _, a := range allAssertions {
		m.assertionsFailed.WithLabelValues(string(a))
	}
	all = append(all, &backlogCollector{ledger: r})
	for _, c := range all {
		if err := reg.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

func (m *metrics) repeat(hop, typ string) { m.repeats.WithLabelValues(hop, typ).Inc() }

// attempt counts one provider call. saw is nil when nothing left.
func (m *metrics) attempt(l *notifier.Leased, res channels.Result, started time.Time, saw *looked) {
	ch, account := string(l.Lane.Channel), l.Lane.Account
	m.attempts.WithLabelValues(ch, account, res.Outcome.String(), string(res.Reason)).Inc()
	m.sendSeconds.WithLabelValues(ch, account).Observe(time.Since(started).Seconds())
	if saw != nil && l.Tries == 0 {
		m.acceptToSend.WithLabelValues(l.Type).Observe(max(0, saw.at.Sub(l.SendAt).Seconds()))
	}
}

// backlogCollector turns the ledger's backlog into gauges when they are
// scraped, at most every few seconds.
type backlogCollector struct {
	ledger Reader

	mu       sync.Mutex
	at       time.Time
	backlog  []notifier.Backlog
	unknowns []notifier.Unknowns
}

var (
	deliveriesDesc = prometheus.NewDesc("notifier_deliveries", "Deliveries that have not ended, and those that ended unknown.", []string{"channel", "state", "reason"}, nil)
	oldestDueDesc  = prometheus.NewDesc("notifier_oldest_due_seconds", "How long the oldest due delivery has waited.", []string{"channel"}, nil)
	unknownDesc    = prometheus.NewDesc("notifier_unknown_deliveries", "Deliveries that ended unknown and are not settled.", []string{"type"}, nil)
	unknownAgeDesc = prometheus.NewDesc("notifier_unknown_oldest_seconds", "Age of the oldest unknown outcome that is not settled.", []string{"type"}, nil)
)

const (
	backlogFresh   = 5 * time.Second
	backlogTimeout = 5 * time.Second
)

// Describe implements prometheus.Collector.
func (b *backlogCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{deliveriesDesc, oldestDueDesc, unknownDesc, unknownAgeDesc} {
		ch <- d
	}
}

// Collect implements prometheus.Collector. Without a ledger to read it tells
// the last figures it had.
func (b *backlogCollector) Collect(ch chan<- prometheus.Metric) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if time.Since(b.at) > backlogFresh {
		b.read()
	}
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	oldest := map[notifier.Channel]float64{}
	for _, x := range b.backlog {
		gauge(deliveriesDesc, float64(x.Count), string(x.Channel), string(x.State), string(x.Reason))
		if !x.OldestDue.IsZero() {
			oldest[x.Channel] = max(oldest[x.Channel], time.Since(x.OldestDue).Seconds())
		}
	}
	for c, s := range oldest {
		gauge(oldestDueDesc, s, string(c))
	}
	for _, u := range b.unknowns {
		gauge(unknownDesc, float64(u.Count), u.Type)
		gauge(unknownAgeDesc, time.Since(u.Oldest).Seconds(), u.Type)
	}
}

func (b *backlogCollector) read() {
	ctx, cancel := context.WithTimeout(context.Background(), backlogTimeout)
	defer cancel()
	b.at = time.Now()
	if got, err := b.ledger.Backlog(ctx); err == nil {
		b.backlog = got
	}
	if got, err := b.ledger.Unknowns(ctx); err == nil {
		b.unknowns = got
	}
}
