package api

import (
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed-4b260dfd/notifier"
)

// The resource is written by hand: it is the answer to every request, and
// reflection over it costs as much as reading the request does. A test holds it
// to what package json makes of the same value, field by field.

// object appends members to a JSON object.
type object struct {
	b    []byte
	some bool
}

func (o *object) name(name string) {
	if o.some {
		o.b = append(o.b, ',')
	}
	o.some = true
	o.b = append(o.b, '"')
	o.b = append(o.b, name...)
	o.b = append(o.b, '"', ':')
}

func (o *object) text(name, s string) {
	o.name(name)
	o.b = quoted(o.b, s)
}

func (o *object) int(name string, n int64) {
	o.name(name)
	o.b = strconv.AppendInt(o.b, n, 10)
}

func (o *object) bool(name string, v bool) {
	o.name(name)
	o.b = strconv.AppendBool(o.b, v)
}

func (o *object) time(name string, t time.Time) {
	o.name(name)
	o.b = append(t.AppendFormat(append(o.b, '"'), time.RFC3339Nano), '"')
}

// maybe is time, or null.
func (o *object) maybe(name string, t *time.Time) {
	if t == nil {
		o.name(name)
		o.b = append(o.b, "null"...)
		return
	}
	o.time(name, *t)
}

// quoted appends a JSON string. What is not UTF-8 in it is replaced.
func quoted(b []byte, s string) []byte {
	b, _ = jsontext.AppendQuote(b, s)
	return b
}

// list appends a JSON array.
func list[T any](b []byte, all []T, one func([]byte, *T) []byte) []byte {
	b = append(b, '[')
	for i := range all {
		if i > 0 {
			b = append(b, ',')
		}
		b = one(b, &all[i])
	}
	return append(b, ']')
}

func appendNotification(b []byte, n *notifier.Notification) []byte {
	o := object{b: append(b, '{')}
	o.text("id", n.ID.String())
	o.text("key", n.Key)
	o.text("type", n.Type)
	o.text("recipient", n.Recipient)
	o.text("state", string(n.State))
	o.name("counts")
	o.b = appendCounts(o.b, n.Counts)
	o.text("order", string(n.Order))
	o.text("policy_version", n.PolicyVersion)
	o.time("accepted_at", n.AcceptedAt)
	if !n.SendAt.IsZero() {
		o.time("send_at", n.SendAt)
	}
	o.time("expires_at", n.ExpiresAt)
	o.int("repeats", int64(n.Repeats))
	o.name("deliveries")
	o.b = list(o.b, n.Deliveries, appendDelivery)
	if len(n.Ignored) > 0 {
		o.name("ignored")
		o.b = list(o.b, n.Ignored, func(b []byte, s *string) []byte { return quoted(b, *s) })
	}
	return append(o.b, '}')
}

func appendCounts(b []byte, counts map[notifier.State]int) []byte {
	o := object{b: append(b, '{')}
	if len(counts) == 1 { // as with every answer to an acceptance
		for state, n := range counts {
			o.int(string(state), int64(n))
		}
		return append(o.b, '}')
	}
	for _, state := range slices.Sorted(maps.Keys(counts)) {
		o.int(string(state), int64(counts[state]))
	}
	return append(o.b, '}')
}

func appendDelivery(b []byte, d *notifier.DeliveryState) []byte {
	o := object{b: append(b, '{')}
	o.text("id", d.ID.String())
	o.text("channel", string(d.Channel))
	o.text("account", d.Account)
	o.text("address", d.Address)
	o.text("state", string(d.State))
	o.text("reason", string(d.Reason))
	o.int("possible_effects", int64(d.PossibleEffects))
	o.maybe("next_attempt_at", d.NextAttemptAt)
	o.text("collapse_id", d.CollapseID)
	if d.Segments != 0 {
		o.int("segments", int64(d.Segments))
	}
	o.name("attempts")
	o.b = list(o.b, d.Attempts, appendAttempt)
	return append(o.b, '}')
}

func appendAttempt(b []byte, a *notifier.AttemptView) []byte {
	o := object{b: append(b, '{')}
	o.int("fence", a.Fence)
	o.maybe("started_at", a.StartedAt)
	o.maybe("finished_at", a.FinishedAt)
	o.text("outcome", a.Outcome)
	o.text("reason", string(a.Reason))
	o.text("provider_status", a.ProviderStatus)
	o.text("provider_id", a.ProviderID)
	o.text("worker", a.Worker)
	o.bool("late", a.Late)
	return append(o.b, '}')
}
