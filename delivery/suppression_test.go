package delivery_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/seed-4b260dfd/notifier"
	"github.com/seed-4b260dfd/notifier/channels"
	"github.com/seed-4b260dfd/notifier/delivery"
)

func (w *world) suppress(s notifier.Suppression) notifier.Suppression {
	w.t.Helper()
	s.Tenant = "default"
	got, err := w.engine.Suppress(w.t.Context(), s)
	if err != nil {
		w.t.Fatal(err)
	}
	return got
}

func (w *world) unsuppress(id string) {
	w.t.Helper()
	if _, err := w.engine.Unsuppress(w.t.Context(), "default", id, "ann", "a mistake"); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) suppressions() []notifier.Suppression {
	w.t.Helper()
	got, err := w.engine.Suppressions(w.t.Context(), notifier.SuppressionFilter{Tenant: "default", Limit: 1000})
	if err != nil {
		w.t.Fatal(err)
	}
	return got
}

// to is a request to one address, registered at a time.
func to(typ, key, address string, registered time.Time) notifier.Request {
	r := request(typ, key)
	r.To[notifier.ChannelAPNs] = []notifier.Address{{Value: address, RegisteredAt: registered}}
	return r
}

var suppressedEnd = ending{State: notifier.StateSuppressed, Reason: notifier.ReasonSuppression}

func TestSuppression_NoCallAndNoCap(t *testing.T) {
	t.Parallel()
	const capped = "channels: [{channel: apns}]\nexpires_after: 1h\nlease: 10s\ndata: {n: {required: true}}\n" +
		"caps: [{name: one, per: [recipient], limit: 1, window: 1h, then: suppress}]\n"
	for _, order := range []string{"claim_first", "send_first"} {
		t.Run(order, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, withPolicy("capped", "order: "+order+"\n"+capped))
			address := w.suppress(notifier.Suppression{Address: notifier.Address{Value: "x"}})
			person := w.suppress(notifier.Suppression{Recipient: "u_1", Type: "capped"})
			w.suppress(notifier.Suppression{Recipient: "u_1", Type: "nudge"})
			for i, over := range []string{address.ID, person.ID} {
				got := w.ending(w.settled(w.accept(to("capped", key(i), "x", time.Time{})).ID))
				if d := cmp.Diff(suppressedEnd, got); d != "" {
					t.Errorf("(-want +got):\n%s", d)
				}
				w.unsuppress(over)
			}
			// No unit of the cap was used, and nothing holds any more.
			got := w.ending(w.settled(w.accept(to("capped", "free", "x", time.Time{})).ID))
			if d := cmp.Diff(ending{notifier.StateSent, "", 1, 1}, got); d != "" {
				t.Errorf("undone (-want +got):\n%s", d)
			}
		})
	}
}

// One that comes between two attempts ends the delivery, and what may have
// arrived before stays counted.
func TestSuppression_BetweenAttempts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.provider.answer = func(ctx context.Context, n int, c *channels.Call) channels.Result {
		if n == 1 {
			w.suppress(notifier.Suppression{Recipient: "u_1"})
		}
		return result(notifier.OutcomeUnknown, notifier.ReasonReplyLost)
	}
	got := w.ending(w.settled(w.accept(request("alert", "k")).ID))
	if d := cmp.Diff(ending{notifier.StateSuppressed, notifier.ReasonSuppression, 1, 1}, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func TestInvalidation_OnlyByThatOutcome(t *testing.T) {
	t.Parallel()
	died := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	gone := channels.Result{Outcome: notifier.OutcomeInvalidAddress, Reason: notifier.ReasonInvalidAddress, ProviderStatus: "410 Unregistered", InvalidSince: died}
	undated := gone
	undated.InvalidSince = time.Time{}
	busy := channels.Result{Outcome: notifier.OutcomeNotSent, Reason: notifier.ReasonThrottled, RetryAfter: time.Millisecond}
	for _, tc := range []struct {
		name       string
		res        channels.Result
		registered time.Time
		want       int
	}{
		{"410, registered before", gone, died.Add(-time.Hour), 1},
		{"410, registered just then", gone, died, 1},
		{"410, registration unknown", gone, time.Time{}, 1},
		{"410, registered after", gone, died.Add(time.Millisecond), 0},
		{"dead, no time given", undated, died, 1},
		{"dead, no time given, registered after the call", undated, time.Now().Add(time.Hour), 0},
		{"bad payload", result(notifier.OutcomeRejected, notifier.ReasonBadContent), time.Time{}, 0},
		{"refused, by the address alone", result(notifier.OutcomeRejected, notifier.ReasonInvalidAddress), time.Time{}, 0},
		{"500", result(notifier.OutcomeUnknown, notifier.ReasonProviderError), time.Time{}, 0},
		{"429", busy, time.Time{}, 0},
	} {
		for _, typ := range []string{"nudge", "alert"} {
			t.Run(tc.name+", "+typ, func(t *testing.T) {
				t.Parallel()
				w := newWorld(t)
				w.provider.answer = script(tc.res)
				d := w.settled(w.accept(to(typ, "k", "x", tc.registered)).ID)
				if tc.res.Outcome == notifier.OutcomeInvalidAddress && d.State != notifier.StateRejected {
					t.Errorf("got %s, want it rejected", d.State)
				}
				list := w.suppressions()
				if len(list) != tc.want {
					t.Fatalf("got %+v, want %d", list, tc.want)
				}
				for _, s := range list {
					if s.Address.Value != "x" || s.Channel != notifier.ChannelAPNs || s.Type != "" || s.Cause != notifier.CauseInvalidAddress || s.By != notifier.ByProvider {
						t.Errorf("got %+v", s)
					}
					for _, part := range []string{"410 Unregistered", d.ID.String()} {
						if !strings.Contains(s.Evidence, part) {
							t.Errorf("the evidence is %q, want %q in it", s.Evidence, part)
						}
					}
					if !tc.res.InvalidSince.IsZero() && (!s.Since.Equal(died) || !strings.Contains(s.Evidence, "dead since 2026-01-02T03:04:05Z")) {
						t.Errorf("got it dead since %v, %q", s.Since, s.Evidence)
					}
				}
			})
		}
	}
}

// The second notification makes no call, but for an address that is registered
// anew, and one that is given free.
func TestInvalidation_HoldsUntilRegisteredAnew(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.provider.answer = func(_ context.Context, _ int, c *channels.Call) channels.Result {
		if c.Delivery.Address.RegisteredAt.IsZero() {
			return result(notifier.OutcomeInvalidAddress, notifier.ReasonInvalidAddress)
		}
		return result(notifier.OutcomeSent, "")
	}
	want := func(key string, registered time.Time, want ending) {
		t.Helper()
		if d := cmp.Diff(want, w.ending(w.settled(w.accept(to("alert", key, "x", registered)).ID))); d != "" {
			t.Errorf("%s (-want +got):\n%s", key, d)
		}
	}
	want("first", time.Time{}, ending{notifier.StateRejected, notifier.ReasonInvalidAddress, 0, 1})
	want("second", time.Time{}, ending{notifier.StateSuppressed, notifier.ReasonSuppression, 0, 1})
	want("anew", time.Now().Add(time.Minute), ending{notifier.StateSent, "", 1, 2})
	w.unsuppress(w.suppressions()[0].ID)
	want("free", time.Time{}, ending{notifier.StateRejected, notifier.ReasonInvalidAddress, 0, 3})
}

func TestInvalidation_Brake(t *testing.T) {
	t.Parallel()
	const all = 200
	reg := prometheus.NewRegistry()
	w := newWorld(t, func(c *delivery.Config, _ map[string]string) { c.Registerer = reg })
	w.provider.answer = func(context.Context, int, *channels.Call) channels.Result {
		return result(notifier.OutcomeInvalidAddress, notifier.ReasonInvalidAddress)
	}
	ids := make([]notifier.ID, all)
	for i := range ids {
		ids[i] = w.accept(request([]string{"alert", "nudge"}[i%2], key(i))).ID
	}
	for _, id := range ids {
		if d := w.settled(id); d.State != notifier.StateRejected {
			t.Fatalf("got %s, want all rejected", d.State)
		}
	}
	if got := len(w.suppressions()); got != 10 {
		t.Errorf("got %d suppressions of %d dead addresses, want a fifth of 50", got, all)
	}
	const part = "invalidation:apns.shop"
	if got := w.degraded(); !slices.Contains(got, part) {
		t.Errorf("degraded: got %v, want %s", got, part)
	}
	if got := gauge(t, reg, "notifier_degraded", part); got != 1 {
		t.Errorf("notifier_degraded of it: got %v, want 1", got)
	}
}

// A suppression is there when the outcome is, and not before.
func TestInvalidation_WithItsOutcome(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.provider.answer = script(result(notifier.OutcomeInvalidAddress, notifier.ReasonInvalidAddress))
	w.ledger.set(nil, func() error { return errors.New("the ledger is away") })
	id := w.accept(to("alert", "k", "x", time.Time{})).ID
	until(t, "an outcome that is not written", func() bool { return w.engine.Unwritten() > 0 })
	if got := w.suppressions(); len(got) != 0 {
		t.Errorf("got %+v before the outcome", got)
	}
	w.ledger.set(nil, nil)
	if d := w.settled(id); d.State != notifier.StateRejected || len(w.suppressions()) != 1 {
		t.Errorf("got %s with %d suppressions, want it rejected, with one", d.State, len(w.suppressions()))
	}
}

func TestSuppressDelivery(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	now := time.Now()
	d := &notifier.Delivery{Tenant: "default", Lane: notifier.Lane{Channel: notifier.ChannelAPNs, Account: "shop"},
		Address: notifier.Address{Value: "x", RegisteredAt: now}}
	say := func(cause notifier.SuppressionCause, since time.Time) {
		t.Helper()
		for range 2 { // a receipt may come twice
			if err := w.engine.SuppressDelivery(t.Context(), d, cause, "a receipt", since); err != nil {
				t.Fatal(err)
			}
		}
	}
	say(notifier.CauseInvalidAddress, now.Add(-time.Second))
	if got := w.suppressions(); len(got) != 0 {
		t.Errorf("registered later: got %+v, want none", got)
	}
	say(notifier.CauseInvalidAddress, now)
	say(notifier.CauseComplaint, time.Time{})
	var got []string
	for _, s := range w.suppressions() {
		got = append(got, fmt.Sprint(s.Cause, " ", s.Address.Value, " ", s.Channel, " ", s.Evidence, " ", s.By))
	}
	slices.Sort(got)
	if d := cmp.Diff([]string{"complaint x apns a receipt provider", "invalid_address x apns a receipt provider"}, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	d.Address = notifier.Address{}
	for i := range 100 {
		d.Address.Value = key(i)
		say(notifier.CauseInvalidAddress, time.Time{})
	}
	if got := len(w.suppressions()); got > 2+10 {
		t.Errorf("got %d suppressions, want the brake to hold", got)
	}
}

func TestSuppress_Refused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	address := notifier.Address{Value: "x"}
	for name, tc := range map[string]struct {
		s     notifier.Suppression
		code  notifier.Code
		field string
	}{
		"about nobody":     {notifier.Suppression{Channel: notifier.ChannelAPNs}, notifier.CodeInvalid, "address"},
		"about two":        {notifier.Suppression{Address: address, Recipient: "u_1"}, notifier.CodeInvalid, "address"},
		"no such cause":    {notifier.Suppression{Recipient: "u_1", Cause: "dislike"}, notifier.CodeInvalid, "cause"},
		"a dead recipient": {notifier.Suppression{Recipient: "u_1", Cause: notifier.CauseInvalidAddress}, notifier.CodeInvalid, "cause"},
		"no such channel":  {notifier.Suppression{Address: address, Channel: "pigeon"}, notifier.CodeInvalid, "channel"},
		"no such type":     {notifier.Suppression{Address: address, Type: "none"}, notifier.CodeUnknownType, "type"},
	} {
		_, err := w.engine.Suppress(t.Context(), tc.s)
		var own *notifier.Error
		if !errors.As(err, &own) || own.Code != tc.code || own.Field != tc.field {
			t.Errorf("%s: got %v, want %s at %s", name, err, tc.code, tc.field)
		}
	}
}
