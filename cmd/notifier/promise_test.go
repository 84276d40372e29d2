package main

import (
	"slices"
	"testing"

	"github.com/seed-4b260dfd/notifier"
	"github.com/seed-4b260dfd/notifier/channels/simulate"
)

// The crash tests are worth what their checks find.
func TestCheckLog_FindsEveryBreach(t *testing.T) {
	t.Parallel()
	const cf, sf = notifier.OrderClaimFirst, notifier.OrderSendFirst
	id := notifier.DeliveryID{Notification: notifier.ID{1}}
	sent := notifier.AttemptView{Fence: 1, Outcome: "sent"}
	sentLater := notifier.AttemptView{Fence: 2, Outcome: "sent"}
	lapsed := notifier.AttemptView{Fence: 1, Outcome: "unknown", Reason: notifier.ReasonLeaseLapsed}
	unsent := notifier.AttemptView{Fence: 1, Outcome: "not_sent", Reason: notifier.ReasonLeaseLapsed}
	lost := notifier.AttemptView{Fence: 1, Outcome: "unknown", Reason: notifier.ReasonWorkerLost}
	for _, tc := range []struct {
		name     string
		order    notifier.Order
		state    notifier.State
		possible int
		attempts []notifier.AttemptView
		fences   []int64 // of the requests in the log
		want     []string
	}{
		{"sent once", cf, notifier.StateSent, 1, []notifier.AttemptView{unsent, sentLater}, []int64{2}, nil},
		{"sent twice with a cause", sf, notifier.StateSent, 2, []notifier.AttemptView{lapsed, sentLater}, []int64{1, 2}, nil},
		{"unknown, arrived", cf, notifier.StateUnknown, 1, []notifier.AttemptView{lost}, []int64{1}, nil},
		{"unknown, never sent", cf, notifier.StateUnknown, 1, []notifier.AttemptView{lost}, nil, nil},
		{"capped", cf, notifier.StateSuppressed, 0, nil, nil, nil},
		{"one fence twice", sf, notifier.StateSent, 2, []notifier.AttemptView{sent}, []int64{1, 1}, []string{"J1", "J7"}},
		{"a second effect", cf, notifier.StateSent, 2, []notifier.AttemptView{lapsed, sentLater}, []int64{1, 2}, []string{"J2", "J3", "J7"}},
		{"sent without a permit", cf, notifier.StateSent, 2, []notifier.AttemptView{unsent, sentLater}, []int64{1, 2}, []string{"J2", "J3", "J7"}},
		{"sent, and nothing arrived", sf, notifier.StateSent, 1, []notifier.AttemptView{sent}, nil, []string{"J4"}},
		{"more effects than shown", sf, notifier.StateSent, 1, []notifier.AttemptView{lapsed, sentLater}, []int64{1, 2}, []string{"J4"}},
		{"capped, and it arrived", cf, notifier.StateSuppressed, 0, []notifier.AttemptView{unsent}, []int64{1}, []string{"J3", "J4", "J7"}},
		{"a repeat without a cause", sf, notifier.StateSent, 2, []notifier.AttemptView{sent, sentLater}, []int64{1, 2}, []string{"J5", "J7"}},
		{"a request without an attempt", sf, notifier.StateSent, 2, []notifier.AttemptView{sent}, []int64{1, 3}, []string{"J5", "J6", "J7"}},
		{"still under way", sf, notifier.StateSending, 1, []notifier.AttemptView{lapsed}, []int64{1}, []string{"rest"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			n := notifier.Notification{Order: tc.order, Deliveries: []notifier.DeliveryState{{
				ID: id, State: tc.state, PossibleEffects: tc.possible, Attempts: tc.attempts}}}
			var entries []simulate.Entry
			for _, fence := range tc.fences {
				entries = append(entries, simulate.Entry{Delivery: id.String(), Fence: fence, TookEffect: true, MayTakeEffect: true})
			}
			var got []string
			for _, b := range checkLog(entries, []notifier.Notification{n}) {
				if !slices.Contains(got, b.rule) {
					got = append(got, b.rule)
				}
			}
			if slices.Sort(got); !slices.Equal(got, tc.want) {
				t.Errorf("found %v, want %v", got, tc.want)
			}
		})
	}
	stray := []simulate.Entry{{Delivery: "dlv_stray", Fence: 1, TookEffect: true, MayTakeEffect: true}}
	if got := checkLog(stray, nil); len(got) != 1 || got[0].rule != "J6" {
		t.Errorf("a request of an unknown delivery: found %v, want J6", got)
	}
}
