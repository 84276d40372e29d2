package main

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/seed-4b260dfd/notifier"
)

// A 202 is a promise: a hundred times the server dies the moment it was given,
// and the next one knows the notification and delivers it.
func TestDurable_KilledAfterEveryAnswer(t *testing.T) {
	t.Parallel()
	const kills = 100
	sim := startProviders(t)
	dir := installation(t, sim, map[string]string{
		"claim": quickPolicy(notifier.OrderClaimFirst, 0),
		"send":  quickPolicy(notifier.OrderSendFirst, 0),
	})
	s := newServer(t, buildBinary(t), dir)
	s.start()
	var ids []string
	permitted := map[string]bool{}
	for i := range kills {
		m := message{Key: fmt.Sprintf("key-%d", i), Type: []string{"claim", "send"}[i%2], Recipient: fmt.Sprintf("u_%d", i),
			To: to(sim, []string{"apns", "webhook"}[i/2%2], i), Data: map[string]string{"text": "hello"}}
		id, status, err := s.post(m)
		s.kill()
		if err != nil || status != http.StatusAccepted {
			t.Fatalf("message %d was answered %d, %v", i, status, err)
		}
		for _, l := range openLeases(t, s.ledger()) {
			permitted[l.id] = permitted[l.id] || l.permitted
		}
		s.start()
		if _, ok := s.notification(id); !ok {
			t.Fatalf("after kill %d the notification %s is gone", i, id)
		}
		ids = append(ids, id)
	}
	notes := s.settled(ids)
	for _, b := range checkLog(sim.Effects(), notes) {
		t.Errorf("%s", b)
	}
	sent := 0
	for i := range notes {
		d := notes[i].Deliveries[0]
		switch {
		case d.State == notifier.StateSent:
			sent++
		case notes[i].Order == notifier.OrderClaimFirst && d.State == notifier.StateUnknown && permitted[d.ID.String()]:
			// The kill came between permit and outcome: the one loss that this order has.
		default:
			t.Errorf("%s %s ended %s %s", notes[i].Order, d.ID, d.State, d.Reason)
		}
	}
	t.Logf("%d kills, %d sent, %d whose permit was open at the kill", kills, sent, kills-sent)
}
