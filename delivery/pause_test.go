package delivery_test

import (
	"bytes"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/seed-4b260dfd/notifier"
	"github.com/seed-4b260dfd/notifier/delivery"
)

func (w *world) pause(p notifier.Pause) notifier.Pause {
	w.t.Helper()
	got, err := w.engine.Pause(w.t.Context(), p)
	if err != nil {
		w.t.Fatalf("pause: %v", err)
	}
	return got
}

func (w *world) resume(id string) {
	w.t.Helper()
	if _, err := w.engine.Resume(w.t.Context(), id, "ann", "all is well"); err != nil {
		w.t.Fatalf("resume: %v", err)
	}
}

// shown is a delivery as the API shows it.
func (w *world) shown(id notifier.ID) notifier.DeliveryState {
	w.t.Helper()
	n, err := w.engine.Notification(w.t.Context(), "default", id)
	if err != nil {
		w.t.Fatal(err)
	}
	return n.Deliveries[0]
}

// putAway waits until the row itself says that it is paused.
func (w *world) putAway(id notifier.ID) {
	w.t.Helper()
	until(w.t, "it is handed back as paused", func() bool { return w.read(id).Reason == notifier.ReasonPaused })
}

func withRegistry(reg *prometheus.Registry) option {
	return func(c *delivery.Config, _ map[string]string) { c.Registerer = reg }
}

// gauge is the sum of a gauge's values whose labels have all of the given values.
func gauge(t *testing.T, reg *prometheus.Registry, name string, labels ...string) (sum float64) {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.GetMetric() {
			var values []string
			for _, l := range m.GetLabel() {
				values = append(values, l.GetValue())
			}
			if !slices.ContainsFunc(labels, func(l string) bool { return !slices.Contains(values, l) }) {
				sum += m.GetGauge().GetValue()
			}
		}
	}
	return sum
}

func TestPause_OfATypeHoldsItAloneAndResumingSendsTheRestOnce(t *testing.T) {
	t.Parallel()
	for _, typ := range []string{"nudge", "alert"} {
		t.Run(typ, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			other := map[string]string{"nudge": "alert", "alert": "nudge"}[typ]
			p := w.pause(notifier.Pause{Type: typ, Why: "a test"})
			var ids []notifier.ID
			for i := range 50 {
				got := w.accept(request(typ, key(i)))
				if d := got.Fresh.Deliveries[0]; d.State != notifier.StatePending || d.Reason != notifier.ReasonPaused || d.NextAttemptAt != nil {
					t.Fatalf("accepted as %s %s, next attempt %v; want pending paused without a time", d.State, d.Reason, d.NextAttemptAt)
				}
				ids = append(ids, got.ID)
			}
			if d := w.settled(w.accept(request(other, "other")).ID); d.State != notifier.StateSent {
				t.Errorf("the other type ended %s, want sent", d.State)
			}
			for _, id := range ids {
				w.putAway(id)
				if d := w.shown(id); d.State != notifier.StatePending || d.Reason != notifier.ReasonPaused || d.NextAttemptAt != nil || len(d.Attempts) != 0 {
					t.Fatalf("got %+v, want pending paused without attempts or a time", d)
				}
			}
			if got := w.provider.requests(); got != 1 {
				t.Errorf("got %d requests, want that of the other type", got)
			}
			w.resume(p.ID)
			for _, id := range ids {
				if d := w.settled(id); d.State != notifier.StateSent || d.PossibleEffects != 1 {
					t.Errorf("got %s with %d possible effects, want sent with 1", d.State, d.PossibleEffects)
				}
			}
			if got := w.provider.requests(); got != len(ids)+1 {
				t.Errorf("got %d requests, want %d", got, len(ids)+1)
			}
		})
	}
}

func TestPause_OfALaneLeavesItAlone(t *testing.T) {
	t.Parallel()
	reg := prometheus.NewRegistry()
	w := newWorld(t, withRegistry(reg))
	p := w.pause(notifier.Pause{Channel: notifier.ChannelAPNs})
	w.pause(notifier.Pause{Account: "shop", Type: "nudge"})
	id := w.accept(request("nudge", "k")).ID
	// Long enough for two polls of the lanes.
	until(t, "the gauge counts it", func() bool { return gauge(t, reg, "notifier_deliveries", "apns", "pending", "paused") == 1 })
	if got := gauge(t, reg, "notifier_deliveries", "due"); got != 0 {
		t.Errorf("%v deliveries count as due, want none", got)
	}
	if d := w.read(id); d.Reason != notifier.ReasonDue || len(d.Attempts) != 0 {
		t.Errorf("the row is %s with %d attempts, want untouched", d.Reason, len(d.Attempts))
	}
	if n, err := w.engine.ByKey(t.Context(), "default", "k"); err != nil || n.Deliveries[0].Reason != notifier.ReasonPaused {
		t.Errorf("shown as %+v, %v; want paused", n, err)
	}
	if got, err := w.engine.Ready(t.Context()); err != nil || !cmp.Equal(got, []string{"paused"}) {
		t.Errorf("ready: got %v, %v; want paused", got, err)
	}
	if got := gauge(t, reg, "notifier_pauses", "operator"); got != 2 {
		t.Errorf("got %v pauses in the gauge, want 2", got)
	}
	w.resume(p.ID)
	w.putAway(id) // the other one holds
	list, err := w.engine.Pauses(t.Context())
	if err != nil || len(list) != 1 {
		t.Fatalf("got %+v, %v; want the other pause", list, err)
	}
	w.resume(list[0].ID)
	if d := w.settled(id); d.State != notifier.StateSent {
		t.Errorf("got %s, want sent", d.State)
	}
	if got, err := w.engine.Ready(t.Context()); err != nil || len(got) != 0 {
		t.Errorf("ready: got %v, %v; want nothing degraded", got, err)
	}
	if got := gauge(t, reg, "notifier_pauses"); got != 0 {
		t.Errorf("got %v pauses in the gauge, want none", got)
	}
}

// Another node's pause and its end reach this one through the ledger.
func TestPause_OfAnotherNode(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for i, p := range []notifier.Pause{
		{Type: "nudge", Cause: notifier.PauseOperator},
		{Channel: notifier.ChannelAPNs, Cause: notifier.PauseOperator},
		{Order: notifier.OrderClaimFirst, Cause: notifier.PauseRewound},
	} {
		placed, err := w.ledger.Pause(t.Context(), p)
		if err != nil {
			t.Fatal(err)
		}
		at := time.Now()
		until(t, "it is known here", func() bool { got, err := w.engine.Ready(t.Context()); return err == nil && len(got) > 0 })
		if took := time.Since(at); took > 2*time.Second {
			t.Errorf("known after %s, want 2 s at most", took)
		}
		id := w.accept(request("nudge", placed.ID)).ID
		// It may be leased for the moment that it takes to hand it back.
		until(t, "it is pending and paused", func() bool { return w.shown(id).Reason == notifier.ReasonPaused })
		if n := w.provider.requests(); n != i {
			t.Errorf("got %d requests, want the %d of before", n, i)
		}
		if _, _, err := w.ledger.Resume(t.Context(), placed.ID, "ann", ""); err != nil {
			t.Fatal(err)
		}
		if d := w.settled(id); d.State != notifier.StateSent {
			t.Errorf("got %s, want sent", d.State)
		}
	}
}

func TestPause_EndsByItself(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	end := time.Now().Add(1500 * time.Millisecond)
	w.pause(notifier.Pause{Type: "alert", Until: end})
	id := w.accept(request("alert", "k")).ID
	w.putAway(id)
	if at := w.shown(id).NextAttemptAt; at == nil || at.Sub(end).Abs() > time.Millisecond {
		t.Errorf("the next attempt is at %v, want the end of the pause, %v", at, end)
	}
	if at := w.read(id).NextAttemptAt; at == nil || at.Sub(end).Abs() > 2*time.Second {
		t.Errorf("the row is put away until %v, want about the end of the pause, %v", at, end)
	}
	if d := w.settled(id); d.State != notifier.StateSent || time.Now().Before(end) {
		t.Errorf("got %s at %v, want sent after %v", d.State, time.Now(), end)
	}
}

func TestPause_WhatExpiresMeanwhileEndsExpired(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	byType := w.pause(notifier.Pause{Type: "nudge"})
	req := request("nudge", "k")
	req.ExpiresAt = time.Now().Add(time.Second)
	id := w.accept(req).ID
	lane := w.pause(notifier.Pause{Channel: notifier.ChannelAPNs})
	req.Key = "untouched"
	untouched := w.accept(req).ID
	for _, id := range []notifier.ID{id, untouched} {
		if d := w.settled(id); d.State != notifier.StateExpired || d.Reason != notifier.ReasonTooLate {
			t.Errorf("got %s %s, want expired too_late", d.State, d.Reason)
		}
	}
	w.resume(byType.ID)
	w.resume(lane.ID)
	if d := w.settled(w.accept(request("nudge", "next")).ID); d.State != notifier.StateSent {
		t.Errorf("got %s, want sent", d.State)
	}
	if got := w.provider.requests(); got != 1 {
		t.Errorf("got %d requests, want 1", got)
	}
}

func TestPause_HoldsThroughARestart(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.pause(notifier.Pause{Type: "nudge"})
	away := w.accept(request("nudge", "away")).ID
	w.putAway(away)
	w.stop()
	w = openWorld(t, w.path)
	fresh := w.accept(request("nudge", "fresh")).ID
	w.putAway(fresh)
	if got := w.provider.requests(); got != 0 {
		t.Errorf("got %d requests after the restart, want none", got)
	}
	w.resume(p.ID)
	for _, id := range []notifier.ID{away, fresh} {
		if d := w.settled(id); d.State != notifier.StateSent {
			t.Errorf("got %s, want sent", d.State)
		}
	}
}

// A crash right after the end of a pause leaves what it held to the next start.
func TestPause_ResumedAndKilled(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.pause(notifier.Pause{Type: "nudge"})
	id := w.accept(request("nudge", "k")).ID
	w.putAway(id)
	w.stop()
	// The end is written and nothing else is.
	w = openWorld(t, w.path, func(c *delivery.Config, _ map[string]string) {
		if _, _, err := c.Ledger.Resume(t.Context(), p.ID, "ann", ""); err != nil {
			t.Fatal(err)
		}
	})
	if d := w.settled(id); d.State != notifier.StateSent {
		t.Errorf("got %s, want sent", d.State)
	}
}

func TestPause_Refused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for name, tc := range map[string]struct {
		p           notifier.Pause
		code        notifier.Code
		field, says string
	}{
		"nothing named":   {notifier.Pause{}, notifier.CodeInvalid, "type", "one or more of type, channel, account, tenant"},
		"unknown type":    {notifier.Pause{Type: "nuge"}, notifier.CodeUnknownType, "type", "there are alert, nudge"},
		"unknown channel": {notifier.Pause{Channel: notifier.ChannelEmail}, notifier.CodeInvalid, "channel", "the channels are apns"},
		"unknown account": {notifier.Pause{Account: "main"}, notifier.CodeInvalid, "account", "the accounts are shop"},
		"over already":    {notifier.Pause{Type: "nudge", Until: time.Now().Add(-time.Second)}, notifier.CodeInvalid, "until", "lies ahead"},
	} {
		_, err := w.engine.Pause(t.Context(), tc.p)
		if e := wantCode(t, err, tc.code, tc.field); !strings.Contains(e.Message, tc.says) {
			t.Errorf("%s: got %q, want it to say %q", name, e.Message, tc.says)
		}
	}
	_, err := w.engine.Resume(t.Context(), "pau_none", "ann", "")
	wantCode(t, err, notifier.CodeNotFound, "")
	if list, err := w.engine.Pauses(t.Context()); err != nil || len(list) != 0 {
		t.Errorf("got %+v, %v; want none", list, err)
	}
}

// Who resumes a pause that is over did not end it, and no line says so.
func TestResume_OnlyWhoEndedItIsNamed(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	w := newWorld(t, func(c *delivery.Config, _ map[string]string) { c.Log = slog.New(slog.NewJSONHandler(&log, nil)) })
	p, err := w.engine.Pause(t.Context(), notifier.Pause{Type: "nudge", By: "zoe"})
	if err != nil {
		t.Fatal(err)
	}
	for _, by := range []string{"ann", "bob"} {
		got, err := w.engine.Resume(t.Context(), p.ID, by, "because of "+by)
		if err != nil || got.EndedBy != "ann" || got.EndedWhy != "because of ann" {
			t.Errorf("resumed by %s: got %+v, %v, want that ann ended it", by, got, err)
		}
	}
	list, err := w.engine.PausesEnded(t.Context(), time.Now().Add(-time.Minute))
	if err != nil || len(list) != 1 || list[0].EndedBy != "ann" {
		t.Errorf("got %+v, %v, want the one that ann ended", list, err)
	}
	w.stop()
	if said := log.String(); strings.Contains(said, "bob") || strings.Count(said, `"msg":"resumed"`) != 1 {
		t.Errorf("got the log %s, want ann named once", said)
	}
}
