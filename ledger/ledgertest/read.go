package ledgertest

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/seed-4b260dfd/notifier"
)

var readRows = []row{
	{"a call that may be under way is counted", func(w *world) {
		claim := w.leased(claimFirst)
		w.wantState(claim.ID, notifier.StateSending, notifier.ReasonNone, 0) // without its permit there is none
		if !w.permit(me, claim.Hold()) {
			w.Fatal("no permit")
		}
		w.wantState(claim.ID, notifier.StateSending, notifier.ReasonNone, 1)
		w.giveBack(me, notifier.Return{Hold: claim.Hold(), Unsent: true, Reason: notifier.ReasonBackoff, After: time.Hour})
		w.wantState(claim.ID, notifier.StatePending, notifier.ReasonBackoff, 0)
	}},
	{"so is that of a send-first lease", func(w *world) {
		send := w.leased(sendFirst)
		w.wantState(send.ID, notifier.StateSending, notifier.ReasonNone, 1)
		w.complete(me, w.sent(send.Hold()))
		w.wantState(send.ID, notifier.StateSent, notifier.ReasonNone, 1)
	}},
	{"a notification reads as it was accepted, with its addresses redacted", func(w *world) {
		in := w.intent("k", sendFirst, 1)
		in.SendAt = w.clock.Now().Add(time.Minute)
		id := w.accept(in)[0].ID
		at := in.SendAt
		diff(w, "notification", w.read(id), &notifier.Notification{
			ID: id, Tenant: tenant, Key: "k", Type: in.Type, Recipient: in.Recipient, State: notifier.StatePending,
			Counts: map[notifier.State]int{notifier.StatePending: 1}, Order: sendFirst, PolicyVersion: in.PolicyVersion,
			AcceptedAt: w.clock.Now(), SendAt: in.SendAt, ExpiresAt: in.ExpiresAt,
			Deliveries: []notifier.DeliveryState{{
				ID: notifier.DeliveryID{Notification: id}, Channel: lane.Channel, Account: lane.Account,
				Address: notifier.Redact(in.Deliveries[0].Address.Value), State: notifier.StatePending, Reason: notifier.ReasonScheduled,
				NextAttemptAt: &at, CollapseID: "order-42",
			}},
		})
		if strings.Contains(w.read(id).Deliveries[0].Address, in.Deliveries[0].Address.Value) {
			w.Error("the address is readable")
		}
	}},
	{"a text message says how many segments it takes, and nothing else does", func(w *world) {
		in := w.intent("k", sendFirst, 2)
		in.Deliveries[1].Lane.Channel = notifier.ChannelSMS
		for i := range in.Deliveries {
			in.Deliveries[i].Content = json.RawMessage(`{"text":"a","encoding":"GSM-7","segments":3}`)
		}
		id := w.accept(in)[0].ID
		if d := w.read(id).Deliveries; d[0].Segments != 0 || d[1].Segments != 3 {
			w.Errorf("got %d and %d segments, want 0 and 3", d[0].Segments, d[1].Segments)
		}
		w.lease(2, me)
		if d := w.read(id).Deliveries; d[1].Segments != 3 {
			w.Errorf("leased: got %d segments, want 3", d[1].Segments)
		}
	}},
	{"by key it is the same", func(w *world) {
		id := w.pending(sendFirst)
		n, err := w.l.ByKey(w.ctx, tenant, "k")
		if err != nil {
			w.Fatal(err)
		}
		diff(w, "notification", n, w.read(id.Notification))
	}},
	{"another tenant's, an unknown one and an unknown key are not found", func(w *world) {
		id := w.pending(sendFirst).Notification
		if _, err := w.l.Notification(w.ctx, "other", id); !notFound(err) {
			w.Errorf("another tenant's: got %v", err)
		}
		if _, err := w.l.Notification(w.ctx, tenant, notifier.ID{1}); !notFound(err) {
			w.Errorf("unknown: got %v", err)
		}
		if _, err := w.l.ByKey(w.ctx, "other", "k"); !notFound(err) {
			w.Errorf("another tenant's key: got %v", err)
		}
		if _, err := w.l.ByKey(w.ctx, tenant, foul); !notFound(err) {
			w.Errorf("a key that is no text: got %v", err)
		}
		if _, err := w.l.ByKey(w.ctx, tenant, "other"); !notFound(err) {
			w.Errorf("unknown key: got %v", err)
		}
	}},
	{"the state is the best that any delivery reached, once all are finished", func(w *world) {
		id := w.accept(w.intent("k", sendFirst, 3))[0].ID
		l := w.lease(3, me)
		w.complete(me, w.sent(l[0].Hold()))
		w.complete(me, notifier.Completion{Hold: l[1].Hold(), State: notifier.StateSuppressed, Reason: notifier.ReasonCapped})
		n := w.read(id)
		diff(w, "counts", n.Counts, map[notifier.State]int{notifier.StateSent: 1, notifier.StateSuppressed: 1, notifier.StateSending: 1})
		if n.State != notifier.StatePending {
			w.Errorf("got %q while one is open, want pending", n.State)
		}
		w.complete(me, notifier.Completion{Hold: l[2].Hold(), State: notifier.StateDead, Reason: notifier.ReasonAttemptsUsed})
		if n := w.read(id); n.State != notifier.StateSent {
			w.Errorf("got %q, want sent", n.State)
		}
	}},
	{"the backlog is counted by channel, state and reason", func(w *world) {
		email := lane
		email.Channel = notifier.ChannelEmail
		now := w.clock.Now()
		later, mail := w.intent("later", sendFirst, 1), w.intent("mail", sendFirst, 2)
		later.SendAt = now.Add(time.Minute)
		mail.Deliveries[0].Lane, mail.Deliveries[1].Lane = email, email
		w.accept(w.intent("a", claimFirst, 1), w.intent("b", sendFirst, 1), later, mail)
		l := w.lease(2, me)
		w.permit(me, l[0].Hold())
		w.giveBack(me, notifier.Return{Hold: l[1].Hold(), Reason: notifier.ReasonBreaker, After: time.Minute})
		w.pass(permitFor)
		w.sweep(false)
		w.accept(w.intent("c", claimFirst, 1))
		w.again(me)
		got, err := w.l.Backlog(w.ctx)
		if err != nil {
			w.Fatal(err)
		}
		diff(w, "backlog", got, []notifier.Backlog{
			{Channel: lane.Channel, State: notifier.StatePending, Reason: notifier.ReasonBreaker, Count: 1},
			{Channel: lane.Channel, State: notifier.StatePending, Reason: notifier.ReasonScheduled, Count: 1},
			{Channel: lane.Channel, State: notifier.StateSending, Count: 1},
			{Channel: lane.Channel, State: notifier.StateUnknown, Reason: notifier.ReasonWorkerLost, Count: 1},
			{Channel: email.Channel, State: notifier.StatePending, Reason: notifier.ReasonDue, Count: 2, OldestDue: now},
		})
	}},
	{"unknown outcomes are counted by type, with the time of the oldest", func(w *world) {
		first := w.lostPermit()
		ended := w.clock.Now()
		w.pass(time.Minute)
		w.accept(w.intent("second", claimFirst, 1))
		w.permit(me, w.lease(1, me)[0].Hold())
		w.pass(permitFor)
		w.sweep(false)
		got, err := w.l.Unknowns(w.ctx)
		if err != nil {
			w.Fatal(err)
		}
		diff(w, "unknowns", got, []notifier.Unknowns{{Type: first.Type, Count: 2, Oldest: ended}})
	}},
	{"an unknown that was sent after all is no backlog", func(w *world) {
		l := w.lostPermit()
		defer func() {
			if got, err := w.l.Unknowns(w.ctx); err != nil || len(got) != 0 {
				w.Errorf("got %+v, %v; want none", got, err)
			}
		}()
		w.witness(me, lateSent(&l, w.clock.Now()))
		if got, err := w.l.Backlog(w.ctx); err != nil || len(got) != 0 {
			w.Errorf("got %+v, %v; want none", got, err)
		}
	}},
	{"what waited for the clock is due once its time has come, what waits for more is not", func(w *world) {
		w.accept(w.intent("a", sendFirst, 2))
		l := w.lease(2, me)
		w.giveBack(me, notifier.Return{Hold: l[0].Hold(), Reason: notifier.ReasonBackoff, After: time.Minute})
		w.giveBack(me, notifier.Return{Hold: l[1].Hold(), Reason: notifier.ReasonBreaker, After: time.Minute})
		w.pass(time.Minute)
		w.wantState(l[0].ID, notifier.StatePending, notifier.ReasonDue, 0)
		w.wantState(l[1].ID, notifier.StatePending, notifier.ReasonBreaker, 0)
	}},
}
