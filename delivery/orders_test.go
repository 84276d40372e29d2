package delivery_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-4b260dfd/notifier"
	"github.com/seed-4b260dfd/notifier/channels"
	"github.com/seed-4b260dfd/notifier/delivery"
)

func result(o notifier.Outcome, r notifier.Reason) channels.Result {
	return channels.Result{Outcome: o, Reason: r}
}

// script answers the n-th call to an effect with the n-th result, then sent.
func script(results ...channels.Result) func(context.Context, int, *channels.Call) channels.Result {
	return func(_ context.Context, n int, _ *channels.Call) channels.Result {
		if n <= len(results) {
			return results[n-1]
		}
		return result(notifier.OutcomeSent, "")
	}
}

func TestOrders_EachOutcome(t *testing.T) {
	t.Parallel()
	lost := result(notifier.OutcomeUnknown, notifier.ReasonReplyLost)
	busy := channels.Result{Outcome: notifier.OutcomeNotSent, Reason: notifier.ReasonThrottled, RetryAfter: 20 * time.Millisecond}
	away := result(notifier.OutcomeNotSent, notifier.ReasonUnreachable)
	for _, tc := range []struct {
		name, typ string
		answers   []channels.Result
		want      ending
	}{
		{"sent, claim first", "nudge", nil, ending{notifier.StateSent, "", 1, 1}},
		{"sent, send first", "alert", nil, ending{notifier.StateSent, "", 1, 1}},
		{"rejected, claim first", "nudge", []channels.Result{result(notifier.OutcomeRejected, notifier.ReasonRefused)},
			ending{notifier.StateRejected, notifier.ReasonRefused, 0, 1}},
		{"dead address, send first", "alert", []channels.Result{result(notifier.OutcomeInvalidAddress, notifier.ReasonInvalidAddress)},
			ending{notifier.StateRejected, notifier.ReasonInvalidAddress, 0, 1}},
		{"reply lost, claim first: never again", "nudge", []channels.Result{lost},
			ending{notifier.StateUnknown, notifier.ReasonReplyLost, 1, 1}},
		{"reply lost, send first: again", "alert", []channels.Result{lost}, ending{notifier.StateSent, "", 2, 2}},
		{"every reply lost, send first: until max_unknown", "alert", []channels.Result{lost, lost, lost, lost},
			ending{notifier.StateUnknown, notifier.ReasonUnknownsUsed, 3, 3}},
		{"told to come later, claim first", "nudge", []channels.Result{busy, busy}, ending{notifier.StateSent, "", 1, 3}},
		{"told to come later, send first: uses no attempt", "alert", []channels.Result{busy, busy, busy, busy, busy, busy, busy, busy, busy},
			ending{notifier.StateSent, "", 1, 10}},
		{"never connected, send first: uses no attempt", "alert", []channels.Result{away, away, away, away, away, away, away, away, away},
			ending{notifier.StateSent, "", 1, 10}},
		{"token renewed: again at once", "nudge", []channels.Result{{Outcome: notifier.OutcomeNotSent, Reason: notifier.ReasonBadCredentials, Again: true}},
			ending{notifier.StateSent, "", 1, 2}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.provider.answer = script(tc.answers...)
			got := w.ending(w.settled(w.accept(request(tc.typ, "k")).ID))
			if d := cmp.Diff(tc.want, got); d != "" {
				t.Errorf("ending (-want +got):\n%s", d)
			}
		})
	}
}

func TestSendFirst_UnknownStop(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withPolicy("alert", defaultPolicies["alert"]+"unknown: stop\n"))
	w.provider.answer = script(result(notifier.OutcomeUnknown, notifier.ReasonTimeOut))
	got := w.ending(w.settled(w.accept(request("alert", "k")).ID))
	if want := (ending{notifier.StateUnknown, notifier.ReasonTimeOut, 1, 1}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestOrders_EveryAttemptHasTheSameIDsAndANewFence(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.provider.answer = script(result(notifier.OutcomeUnknown, ""), result(notifier.OutcomeUnknown, ""))
	w.settled(w.accept(request("alert", "k")).ID)
	first := w.provider.log[0]
	for i, e := range w.provider.log {
		if e.key != first.key || e.delivery != first.delivery {
			t.Errorf("attempt %d carries %v, the first %v", i+1, e, first)
		}
		if i > 0 && e.fence <= w.provider.log[i-1].fence {
			t.Errorf("attempt %d has fence %d after %d", i+1, e.fence, w.provider.log[i-1].fence)
		}
	}
}

func TestClaimFirst_APermitWithoutAnAnswerIsNotUsed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	// The permit is written and the answer lost, twice; the third time it comes.
	lost := 2
	w.ledger.set(func() error {
		if lost == 0 {
			return nil
		}
		lost--
		return errors.New("connection lost after the commit")
	}, nil)
	d := w.settled(w.accept(request("nudge", "k")).ID)
	if want := (ending{notifier.StateSent, "", 1, 1}); w.ending(d) != want {
		t.Errorf("got %+v, want %+v", w.ending(d), want)
	}
	if got := w.provider.log[0].fence; got != 3 {
		t.Errorf("got the call under fence %d, want 3: the first two permits are never used", got)
	}
}

func TestSendFirst_TheTombstoneStopsARepeatThatTheLedgerWouldMake(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withPolicy("alert", defaultPolicies["alert"]+"tombstone: 1h\n"))
	failing := true
	w.ledger.set(nil, func() error {
		if failing {
			failing = false
			return errors.New("disk full")
		}
		return nil
	})
	d := w.settled(w.accept(request("alert", "k")).ID)
	if want := (ending{notifier.StateSent, "", 1, 1}); w.ending(d) != want {
		t.Errorf("got %+v, want %+v: an outcome that could not be written is written later", w.ending(d), want)
	}
}

func TestDispatch_NothingIsLeasedWhileAnOutcomeCannotBeWritten(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	full, mended := errors.New("disk full"), make(chan struct{})
	w.ledger.set(nil, func() error {
		select {
		case <-mended:
			return nil
		default:
			return full
		}
	})
	first := w.accept(request("nudge", "k-1"))
	<-w.provider.seen
	until(t, "the failed write", func() bool { return w.engine.Unwritten() > 0 })
	second := w.accept(request("nudge", "k-2"))
	if d := w.read(second.ID); d.State != notifier.StatePending || len(d.Attempts) > 0 {
		t.Errorf("got %s with %d attempts while outcomes cannot be written, want pending without", d.State, len(d.Attempts))
	}
	close(mended)
	for _, id := range []notifier.ID{first.ID, second.ID} {
		if d := w.settled(id); d.State != notifier.StateSent {
			t.Errorf("got %s once the ledger writes again, want sent", d.State)
		}
	}
}

func TestCall_ALongCallRenewsItsLease(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withPolicy("alert", "order: send_first\nchannels: [{channel: apns, send_timeout: 20s}]\nexpires_after: 1h\nlease: 900ms\ndata: {n: {}}\n"))
	w.provider.answer = func(ctx context.Context, _ int, _ *channels.Call) channels.Result {
		select {
		case <-time.After(3 * time.Second): // more than three leases
			return result(notifier.OutcomeSent, "")
		case <-ctx.Done():
			return result(notifier.OutcomeUnknown, notifier.ReasonTimeOut)
		}
	}
	d := w.settled(w.accept(request("alert", "k")).ID)
	if want := (ending{notifier.StateSent, "", 1, 1}); w.ending(d) != want {
		t.Errorf("got %+v, want %+v", w.ending(d), want)
	}
	if len(d.Attempts) != 1 || d.Attempts[0].Fence != 1 {
		t.Errorf("got the attempts %+v, want one under fence 1", d.Attempts)
	}
}

func TestCaps(t *testing.T) {
	t.Parallel()
	capped := func(then string) option {
		return withPolicy("alert", defaultPolicies["alert"]+
			"caps: [{name: few, per: [recipient], limit: 2, window: 1h, then: "+then+"}]\n")
	}
	t.Run("suppress", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, capped("suppress"))
		want := []notifier.State{notifier.StateSent, notifier.StateSent, notifier.StateSuppressed}
		for i, s := range want {
			if d := w.settled(w.accept(request("alert", key(i))).ID); d.State != s {
				t.Errorf("notification %d: got %s %s, want %s", i, d.State, d.Reason, s)
			}
		}
		if got := w.provider.requests(); got != 2 {
			t.Errorf("got %d requests, want 2", got)
		}
	})
	t.Run("defer", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, capped("defer"))
		for i := range 2 {
			w.settled(w.accept(request("alert", key(i))).ID)
		}
		id := w.accept(request("alert", key(2))).ID
		until(t, "deferred", func() bool { return w.read(id).Reason == notifier.ReasonCap })
		if d := w.read(id); d.NextAttemptAt == nil || time.Until(*d.NextAttemptAt) < 50*time.Minute {
			t.Errorf("got the next attempt at %v, want when the window has moved on", d.NextAttemptAt)
		}
	})
	t.Run("a repeat is another unit, a refusal with later is none", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, capped("suppress"))
		w.provider.answer = script(
			channels.Result{Outcome: notifier.OutcomeNotSent, Reason: notifier.ReasonThrottled, RetryAfter: time.Millisecond},
			result(notifier.OutcomeUnknown, ""), result(notifier.OutcomeUnknown, ""))
		d := w.settled(w.accept(request("alert", "k")).ID)
		if want := (ending{notifier.StateSuppressed, notifier.ReasonCapped, 2, 3}); w.ending(d) != want {
			t.Errorf("got %+v, want %+v", w.ending(d), want)
		}
	})
	t.Run("filled from the ledger at the start", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, capped("suppress"))
		for i := range 2 {
			w.settled(w.accept(request("alert", key(i))).ID)
		}
		w.stop()
		w = openWorld(t, w.path, capped("suppress"))
		if d := w.settled(w.accept(request("alert", key(2))).ID); d.Reason != notifier.ReasonCapped {
			t.Errorf("got %s %s after a restart, want capped", d.State, d.Reason)
		}
	})
}

func TestDrain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withSlots(2))
	release := make(chan struct{})
	w.provider.answer = func(context.Context, int, *channels.Call) channels.Result {
		<-release
		return result(notifier.OutcomeSent, "")
	}
	var ids []notifier.ID
	for i := range 5 {
		ids = append(ids, w.accept(request("nudge", key(i))).ID)
	}
	<-w.provider.seen
	<-w.provider.seen
	stopped := make(chan struct{})
	go func() { w.stop(); close(stopped) }()
	until(t, "draining", func() bool { _, err := w.engine.Ready(t.Context()); return err != nil })
	if _, err := w.engine.Accept(t.Context(), request("nudge", "late")); err == nil {
		t.Error("accepted while draining")
	}
	close(release)
	<-stopped
	if got := w.provider.requests(); got != 2 {
		t.Errorf("got %d requests, want the 2 that were on the wire: no more are started", got)
	}
	w = openWorld(t, w.path)
	for _, id := range ids {
		if d := w.settled(id); d.State != notifier.StateSent || d.PossibleEffects != 1 {
			t.Errorf("got %s with %d possible effects after the restart, want sent with 1", d.State, d.PossibleEffects)
		}
	}
}

func TestCall_AChannelThatPanicsLeavesAnUnknown(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.provider.answer = func(_ context.Context, n int, c *channels.Call) channels.Result {
		if c.Delivery.Key == "poison" {
			panic("a library's bug")
		}
		return result(notifier.OutcomeSent, "")
	}
	poison, neighbour := w.accept(request("nudge", "poison")), w.accept(request("nudge", "k"))
	if d := w.settled(poison.ID); d.State != notifier.StateUnknown || d.Reason != notifier.ReasonProviderError {
		t.Errorf("got %s %s, want unknown provider_error", d.State, d.Reason)
	}
	if d := w.settled(neighbour.ID); d.State != notifier.StateSent {
		t.Errorf("its neighbour: got %s, want sent", d.State)
	}
}

func TestReady_NamesAnAccountThatDeliveriesWaitForInVain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	req := request("nudge", "k")
	req.SendAt = time.Now().Add(time.Hour)
	id := w.accept(req).ID
	w.stop()
	w = openWorld(t, w.path, func(c *delivery.Config, _ map[string]string) {
		shop := c.Accounts[notifier.ChannelAPNs]["shop"]
		c.Accounts[notifier.ChannelAPNs] = map[string]delivery.Account{"renamed": shop}
	})
	until(t, "the account is named", func() bool {
		degraded, err := w.engine.Ready(t.Context())
		return err == nil && cmp.Equal(degraded, []string{"account:apns.shop"})
	})
	if d := w.read(id); d.State != notifier.StatePending {
		t.Errorf("got %s, want pending", d.State)
	}
}
