package main

import (
	"encoding/json"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-4b260dfd/notifier"
	"github.com/seed-4b260dfd/notifier/channels/simulate"
)

// standing is a suppression as the API shows it.
type standing struct {
	notifier.Suppression
	Address string `json:"address"`
}

// standings are the suppressions in force of a server; query may select some.
func standings(t *testing.T, base, query string) []standing {
	t.Helper()
	res, err := caller.Get(base + "/v1/suppressions?" + query)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var page struct {
		Suppressions []standing `json:"suppressions"`
	}
	if err := json.NewDecoder(res.Body).Decode(&page); err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("list the suppressions: %s, %v", res.Status, err)
	}
	return page.Suppressions
}

func undo(t *testing.T, base, id string) {
	t.Helper()
	req, err := http.NewRequest(http.MethodDelete, base+"/v1/suppressions/"+id+"?why=a+mistake", nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := caller.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		t.Fatalf("undo %s: %s", id, res.Status)
	}
}

// A dead address is called once, whatever the channel: the first message is
// rejected and the second suppressed, until a person undoes it.
func TestServe_DeadAddresses(t *testing.T) {
	t.Parallel()
	dir, sim := simulated(t)
	c := newCLI(t, nil)
	s := c.serve(filepath.Join(dir, configName))
	browser, sub := browserFile(t, sim, "ann")
	gone, lost := browserFile(t, sim, "bob")
	device, registration := strings.Repeat("d0", 32), "fGh-12345678:APA91b"+strings.Repeat("Zx9_", 30)
	dead := func(channel, address string) simulate.Fault {
		return simulate.Fault{Channel: channel, Address: address, Kind: simulate.FaultDeadToken}
	}
	sim.SetFaults([]simulate.Fault{dead("apns", device), dead("fcm", registration), dead("email", "ann@example.com"), dead("webpush", sub.Endpoint),
		{Channel: "webpush", Address: lost.Endpoint, Kind: simulate.FaultStatus, Status: http.StatusNotFound}})
	for _, tc := range []struct{ name, to, channel, address, evidence string }{
		{"apns", "apns=" + device, "apns", device, "410 Unregistered, dead since "},
		{"fcm", "fcm=" + registration, "fcm", registration, "404 UNREGISTERED; "},
		{"email", "email=ann@example.com", "email", "ann@example.com", "550 5.1.1 "},
		{"webpush 410", "webpush=@" + browser, "webpush", sub.Endpoint, "410"},
		{"webpush 404", "webpush=@" + gone, "webpush", lost.Endpoint, "404"},
	} {
		send := func(key, state, reason string, requests int) {
			t.Helper()
			out, _, _ := c.run(sendArgs(s.url, map[string]string{"-to": tc.to, "-key": tc.name + "/" + key})...)
			if want := `"state":"` + state + `","reason":"` + reason + `","possible_effects":0`; !strings.Contains(out, want) {
				t.Errorf("%s, %s: got %s, want %s in it", tc.name, key, out, want)
			}
			got := 0
			for _, e := range sim.Effects() {
				if e.Channel == tc.channel && e.Address == tc.address {
					got++
				}
			}
			// A mailbox that is refused at RCPT has no message in the log.
			if tc.channel != "email" && got != requests {
				t.Errorf("%s, %s: the provider received %d requests, want %d", tc.name, key, got, requests)
			}
		}
		send("first", "rejected", "invalid_address", 1)
		send("second", "suppressed", "suppression", 1)
		list := standings(t, s.url, "channel="+tc.channel+"&cause=invalid_address")
		i := slices.IndexFunc(list, func(s standing) bool {
			return s.Address == notifier.Redact(tc.address) && strings.HasPrefix(s.Evidence, tc.evidence)
		})
		if i < 0 || list[i].By != notifier.ByProvider {
			t.Fatalf("%s: got %+v, want one with the evidence %q", tc.name, list, tc.evidence)
		}
		undo(t, s.url, list[i].ID)
		send("third", "rejected", "invalid_address", 2)
	}
}

// Thousands of dead devices at once are a provider's fault, or ours.
func TestServe_MassInvalidation(t *testing.T) {
	t.Parallel()
	const all = 120
	sim := startProviders(t)
	dir := installation(t, sim, 0, map[string]string{"note": quickPolicy(notifier.OrderSendFirst, 0)})
	c := newCLI(t, map[string]string{listenVariable: "127.0.0.1:0"})
	base := c.serve(filepath.Join(dir, configName)).url
	sim.SetFaults([]simulate.Fault{{Channel: "apns", Kind: simulate.FaultDeadToken}})
	s := &server{t: t, base: base}
	ids := make([]string, all)
	for i := range ids {
		var err error
		m := message{Key: "k-" + to(sim, "apns", i+1)["apns"][0]["token"], Type: "note", Recipient: "u_1", To: to(sim, "apns", i+1), Data: map[string]string{"text": "hello"}}
		if ids[i], err = s.send(m); err != nil {
			t.Fatal(err)
		}
	}
	for _, n := range s.settled(ids) {
		if n.State != notifier.StateRejected {
			t.Errorf("got %s, want all rejected", n.State)
		}
	}
	if got := len(standings(t, base, "limit=500")); got == 0 || got > all/5 {
		t.Errorf("%d of %d addresses are suppressed, want some and no more than a fifth", got, all)
	}
	var ready struct{ Degraded []string }
	res, err := caller.Get(base + "/readyz")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if err := json.NewDecoder(res.Body).Decode(&ready); err != nil || !slices.Contains(ready.Degraded, "invalidation:apns.shop") {
		t.Errorf("degraded: got %v, %v; want invalidation:apns.shop", ready.Degraded, err)
	}
}

// Killed between the provider's answer and the outcome, the word on the address
// goes with the outcome: send-first asks again, and claim-first ends unknown.
func TestServe_DeadAddressAndACrash(t *testing.T) {
	t.Parallel()
	bin := buildBinary(t, "faultpoint")
	sim := startProviders(t)
	sim.SetFaults([]simulate.Fault{{Channel: "apns", Kind: simulate.FaultDeadToken}})
	n := 0
	for _, tc := range []struct {
		order notifier.Order
		point string
		state notifier.State
		want  int
	}{
		{notifier.OrderSendFirst, "call.after", notifier.StateRejected, 1},
		{notifier.OrderSendFirst, "complete.after", notifier.StateRejected, 1},
		{notifier.OrderClaimFirst, "call.after", notifier.StateUnknown, 0},
		{notifier.OrderClaimFirst, "complete.after", notifier.StateRejected, 1},
	} {
		n++
		m := message{Key: "victim-1", Type: "note", Recipient: "u_1", To: to(sim, "apns", n), Data: map[string]string{"text": "hello"}}
		t.Run(string(tc.order)+"/"+tc.point, func(t *testing.T) {
			t.Parallel()
			dir := installation(t, sim, 0, map[string]string{"note": quickPolicy(tc.order, 0)})
			s := newServer(t, bin, dir, "NOTIFIER_FAULT="+tc.point, "NOTIFIER_FAULT_KEY=victim", "NOTIFIER_FAULT_ONCE="+filepath.Join(dir, "struck"))
			s.start()
			if got := s.settled([]string{s.sendThrough(m, true)})[0].State; got != tc.state {
				t.Errorf("got %s, want %s", got, tc.state)
			}
			list := standings(t, s.url(), "")
			if len(list) != tc.want {
				t.Fatalf("got %+v, want %d", list, tc.want)
			}
			// The simulated provider says that it died an hour ago.
			if tc.want > 0 && time.Since(list[0].Since) < 30*time.Minute {
				t.Errorf("got it dead since %v, want the provider's word", list[0].Since)
			}
			m.Key = "next"
			id, err := s.send(m)
			if err != nil {
				t.Fatal(err)
			}
			next := map[int]notifier.State{0: notifier.StateRejected, 1: notifier.StateSuppressed}[tc.want]
			if got := s.settled([]string{id})[0].State; got != next {
				t.Errorf("the next: got %s, want %s", got, next)
			}
		})
	}
}
