package delivery_test

import (
	"context"
	"errors"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-4b260dfd/notifier"
	"github.com/seed-4b260dfd/notifier/channels"
	"github.com/seed-4b260dfd/notifier/delivery"
)

// asked is a provider that can be asked what it has.
type asked struct {
	*provider
	questions atomic.Int64
	answer    func(n int64) (channels.Found, error)
}

func (a *asked) Lookup(context.Context, *notifier.Delivery, time.Time) (channels.Found, error) {
	return a.answer(a.questions.Add(1))
}

const (
	lookupAlert = "order: send_first\nchannels: [{channel: apns}]\nexpires_after: 1h\nlease: 10s\nunknown: lookup\n" +
		"data: {n: {required: true}}\nretry: {initial: 10ms, factor: 1, max: 10ms, max_attempts: 8, max_unknown: 2}\n"
	lookupNudge = "order: claim_first\nchannels: [{channel: apns}]\nlease: 10s\nunknown: lookup\ndata: {n: {required: true}}\n"
)

func withLookups(a *asked) option {
	return func(c *delivery.Config, p map[string]string) {
		p["alert"], p["nudge"] = lookupAlert, lookupNudge
		a.provider, _ = c.Accounts[notifier.ChannelAPNs]["shop"].Channel.(*provider)
		c.Accounts[notifier.ChannelAPNs]["shop"] = delivery.Account{Channel: a}
		delivery.LookSoon(c)
	}
}

var lostReply = result(notifier.OutcomeUnknown, notifier.ReasonReplyLost)

func TestLookup(t *testing.T) {
	t.Parallel()
	has := func(int64) (channels.Found, error) { return channels.Found{Sent: true, ProviderID: "p-1"}, nil }
	hasNot := func(int64) (channels.Found, error) { return channels.Found{}, nil }
	silent := func(int64) (channels.Found, error) { return channels.Found{}, errors.New("no answer") }
	for _, tc := range []struct {
		name, typ string
		answer    func(int64) (channels.Found, error)
		lost      int
		want      ending
		questions int64 // at least
	}{
		{"claim first, the provider has it", "nudge", has, 1, ending{notifier.StateSent, "", 1, 1}, 1},
		{"claim first, it has it the second time", "nudge", func(n int64) (channels.Found, error) { return channels.Found{Sent: n == 2}, nil }, 1,
			ending{notifier.StateSent, "", 1, 1}, 2},
		{"claim first, it does not know: still never again", "nudge", hasNot, 1, ending{notifier.StateUnknown, notifier.ReasonReplyLost, 1, 1}, 2},
		{"claim first, it does not answer: asked on", "nudge", silent, 1, ending{notifier.StateUnknown, notifier.ReasonReplyLost, 1, 1}, 5},
		{"send first, the provider has it: no repeat", "alert", has, 1, ending{notifier.StateSent, "", 1, 1}, 1},
		{"send first, it does not know: again", "alert", hasNot, 1, ending{notifier.StateSent, "", 2, 2}, 1},
		{"send first, it does not answer: again", "alert", silent, 1, ending{notifier.StateSent, "", 2, 2}, 1},
		{"send first, unknowns used, and then it has it", "alert", func(n int64) (channels.Found, error) { return channels.Found{Sent: n > 1}, nil }, 2,
			ending{notifier.StateSent, "", 2, 2}, 2},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			a := &asked{answer: tc.answer}
			w := newWorld(t, withLookups(a))
			var answers []channels.Result
			for range tc.lost {
				answers = append(answers, lostReply)
			}
			w.provider.answer = script(answers...)
			id := w.accept(request(tc.typ, "k")).ID
			w.settled(id)
			until(t, "the provider was asked", func() bool { return a.questions.Load() >= tc.questions })
			until(t, "the end that is wanted", func() bool { return w.ending(w.read(id)) == tc.want })
		})
	}
}

// What a dead process left unknown is looked up by the next one, and what was
// asked to the end is not asked about again.
func TestLookup_AfterARestart(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "notifier.db")
	w := openWorld(t, path, withPolicy("nudge", lookupNudge)) // nobody to ask
	w.provider.answer = script(lostReply)
	id := w.accept(request("nudge", "k")).ID
	if got := w.settled(id); got.State != notifier.StateUnknown {
		t.Fatalf("got %s, want unknown", got.State)
	}
	w.stop()

	none := &asked{answer: func(int64) (channels.Found, error) { return channels.Found{}, nil }}
	w = openWorld(t, path, withLookups(none))
	until(t, "the provider was asked twice", func() bool { return none.questions.Load() == 2 })
	w.stop()
	later := &asked{answer: func(int64) (channels.Found, error) { return channels.Found{Sent: true}, nil }}
	w = openWorld(t, path, withLookups(later))
	other := w.accept(request("nudge", "other"))
	w.settled(other.ID)
	if n := later.questions.Load(); n != 0 {
		t.Errorf("asked %d times about what had been asked to the end", n)
	}
	if got := w.read(id); got.State != notifier.StateUnknown {
		t.Errorf("got %s, want unknown", got.State)
	}
}
