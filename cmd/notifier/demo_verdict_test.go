package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-4b260dfd/notifier"
	"github.com/seed-4b260dfd/notifier/channels/simulate"
)

// soundJudgement is a ledger and a log that fit: a claim-first push that was
// sent, and a send-first push whose first answer was lost.
func soundJudgement() *judgement {
	j := &judgement{byID: map[string]*compared{}, requests: 3, scenes: 1}
	entry := func(d notifier.DeliveryID, fence int64) *simulate.Entry {
		return &simulate.Entry{Channel: "apns", Address: "token", Delivery: d.String(), Fence: fence, EffectKey: d.String(), TookEffect: true, MayTakeEffect: true}
	}
	add := func(typ string, order notifier.Order, n byte, attempts ...notifier.AttemptView) {
		d := notifier.DeliveryID{Notification: notifier.ID{n}}
		nt := &notifier.Notification{ID: d.Notification, Type: typ, Order: order, State: notifier.StateSent, Repeats: 1}
		c := &compared{typ: typ, order: order, DeliveryState: &notifier.DeliveryState{
			ID: d, Channel: notifier.ChannelAPNs, State: notifier.StateSent, Attempts: attempts, PossibleEffects: len(attempts)}}
		for _, a := range attempts {
			c.requests = append(c.requests, entry(d, a.Fence))
		}
		j.notifications, j.all, j.byID[d.String()] = append(j.notifications, nt), append(j.all, c), c
	}
	add(priceDrop, notifier.OrderClaimFirst, 1, notifier.AttemptView{Fence: 1, Outcome: "sent"})
	add(orderShipped, notifier.OrderSendFirst, 2,
		notifier.AttemptView{Fence: 1, Outcome: "unknown", Reason: notifier.ReasonReplyLost}, notifier.AttemptView{Fence: 2, Outcome: "sent"})
	j.made = totals{accepted: 2, repeats: 2}
	j.counted = j.made
	return j
}

// Each rule is broken in turn; what else breaks with it is named as well.
func TestJudgement_EachRuleCanBreak(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		spoil func(j *judgement, claimFirst, sendFirst *compared)
		want  []string // parts of the rules that break
	}{
		"sound": {func(*judgement, *compared, *compared) {}, nil},
		"claim-first twice, by two attempts": {func(_ *judgement, cf, _ *compared) {
			again := *cf.requests[0]
			again.Fence = 2
			cf.requests = append(cf.requests, &again)
			cf.Attempts = append(cf.Attempts, notifier.AttemptView{Fence: 2, Outcome: "sent"})
			cf.PossibleEffects = 2
		}, []string{"claim_first: at most one"}},
		"claim-first, a request that was refused for good and another": {func(_ *judgement, cf, _ *compared) {
			refused := *cf.requests[0]
			refused.Fence, refused.TookEffect = 2, false
			cf.requests = append(cf.requests, &refused)
			cf.Attempts = append(cf.Attempts, notifier.AttemptView{Fence: 2, Outcome: "rejected"})
		}, []string{"claim_first: at most one"}},
		"claim-first, a request that was told later and another": {func(_ *judgement, cf, _ *compared) {
			later := *cf.requests[0]
			later.Fence, later.TookEffect, later.MayTakeEffect = 2, false, false
			cf.requests = append(cf.requests, &later)
			cf.Attempts = append(cf.Attempts, notifier.AttemptView{Fence: 2, Outcome: "not_sent"})
		}, nil},
		"send-first sent without an effect": {func(_ *judgement, _, sf *compared) {
			sf.requests = nil
		}, []string{"send_first: at least one", "its effect at the provider"}},
		"send-first dead without a word": {func(_ *judgement, _, sf *compared) {
			sf.requests, sf.Attempts, sf.State = nil, nil, notifier.StateDead
		}, []string{"send_first: at least one"}},
		"send-first suppressed with a word": {func(_ *judgement, _, sf *compared) {
			sf.requests, sf.Attempts, sf.State, sf.Reason = nil, nil, notifier.StateSuppressed, notifier.ReasonCapped
		}, nil},
		"send-first repeated after sent": {func(_ *judgement, _, sf *compared) {
			sf.Attempts[0] = notifier.AttemptView{Fence: 1, Outcome: "sent"}
		}, []string{"after an attempt recorded as unknown"}},
		"send-first repeated with another id": {func(_ *judgement, _, sf *compared) {
			sf.requests[1].EffectKey = "other"
		}, []string{"the same id"}},
		"send-first repeated with other content": {func(_ *judgement, _, sf *compared) {
			sf.requests[1].BodyHash = "other"
		}, []string{"the same id"}},
		"one attempt, two requests": {func(_ *judgement, _, sf *compared) {
			sf.requests = append(sf.requests, sf.requests[0])
			sf.PossibleEffects = 3
		}, []string{"no attempt made two"}},
		"a request without an attempt": {func(_ *judgement, cf, _ *compared) {
			cf.requests[0].Fence = 7
		}, []string{"an attempt in the ledger", "its effect at the provider"}},
		"a request without a delivery": {func(j *judgement, _, _ *compared) {
			j.strays = []string{"apns: unknown"}
		}, []string{"an attempt in the ledger"}},
		"sent, and the effect is another attempt's": {func(_ *judgement, _, sf *compared) {
			sf.requests[1].TookEffect = false
		}, []string{"its effect at the provider"}},
		"more effects than are called possible": {func(_ *judgement, _, sf *compared) {
			sf.PossibleEffects = 1
		}, []string{"calls possible"}},
		"not ended": {func(_ *judgement, cf, _ *compared) {
			cf.State = notifier.StateSending
		}, []string{"has ended"}},
		"more accepted than the client sent": {func(j *judgement, _, _ *compared) {
			j.counted.accepted = 3
		}, []string{"agree"}},
		"a repeat that was not caught": {func(j *judgement, _, _ *compared) {
			j.made.repeats = 3
		}, []string{"agree"}},
		"a failed assertion": {func(j *judgement, _, _ *compared) {
			j.counted.failedAssertions = 1
		}, []string{"agree"}},
		"another story": {func(j *judgement, _, _ *compared) {
			j.astray = []string{"it was otherwise"}
		}, []string{"as it is told"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := soundJudgement()
			test.spoil(j, j.all[0], j.all[1])
			var broken []string
			for _, r := range j.rulings() {
				if len(r.broken) > 0 {
					broken = append(broken, r.rule)
				}
			}
			if len(broken) != len(test.want) {
				t.Fatalf("got broken %q, want %q", broken, test.want)
			}
			for i, part := range test.want {
				if !strings.Contains(broken[i], part) {
					t.Errorf("got broken %q, want %q", broken, test.want)
				}
			}
		})
	}
}

func TestStory_Wrap(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]string{
		"short":                      {"short"},
		"ten columns and more":       {"ten", "  columns", "  and more"},
		"apns    #1  sent":           {"apns    #1", "  sent"},
		"→ ä ö ü ß":                  {"→ ä ö ü ß"},
		"ééééé ééééé":                {"ééééé", "  ééééé"},
		"averyveryverylongword fits": {"averyveryverylongword fits"},
	} {
		if diff := cmp.Diff(want, wrap(text, 10)); diff != "" {
			t.Errorf("%q: -want +got\n%s", text, diff)
		}
	}
}
