package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/seed-4b260dfd/notifier"
	"github.com/seed-4b260dfd/notifier/channels/simulate"
)

// The example types that the scenes send.
const (
	orderShipped = "order_shipped" // send_first: apns, email
	loginCode    = "login_code"    // send_first: apns
	paymentEvent = "payment_event" // send_first: webhook
	weeklyDigest = "weekly_digest" // claim_first: email
	priceDrop    = "price_drop"    // claim_first: apns
)

// scene is one thing that goes wrong, and what comes of it.
type scene struct {
	name, title string
	play        func(*demo, context.Context) error
	// moral is printed when the scene came out as it is told.
	moral string
}

// scenes is the story, in the order in which it is told.
func scenes() []scene {
	return []scene{
		{"repeats", "a client that asks for the same thing many times", (*demo).repeats,
			"25 requests, 2 notifications, one effect at each address"},
		{"key-reuse", "one key, two different requests", (*demo).keyReuse,
			"one key is one request: the other one is refused and nothing of it is sent"},
		{"lost-reply", "the provider takes the message and drops the answer", (*demo).lostReply,
			"nobody can know: claim_first stops there, send_first repeats with the same id"},
		{"retry-after", "the provider says: not now, later", (*demo).retryAfter,
			"provably not processed: both orders try again, one effect each"},
		{"crash", "the server is killed while sends are in flight", (*demo).crash,
			"claim_first: nothing twice, what was open is unknown; send_first: nothing lost"},
		{"cap", "a retry storm that a cap holds", (*demo).capped,
			"three pushes about one order, then silence, and the ledger says why"},
		{"collapse", "a repeat that the phone shows once", (*demo).collapse,
			"two requests arrived and one notification is shown"},
	}
}

func sceneNames() []string {
	var names []string
	for _, s := range scenes() {
		names = append(names, s.name)
	}
	return names
}

// repeats: the key makes many copies one notification, one after the other and
// all at once.
func (d *demo) repeats(ctx context.Context) error {
	m := order("u_ann", "1001")
	m.To["email"] = []any{map[string]any{"address": "ann@example.com"}}
	const key = "order-1001/shipped"
	var answers []string
	var first *intent
	began := time.Now()
	for range 5 {
		r, err := d.post(ctx, key, m)
		if err != nil {
			return err
		}
		if first, err = d.note(key, m, r); err != nil {
			return err
		}
		answers = append(answers, fmt.Sprint(r.status))
	}
	d.out.sayAt(began, byClient, "order_shipped, phone and mail, key %s", key)
	d.out.sayAt(began, byClient, "the same five times in a row: %s", strings.Join(answers, " "))
	if _, err := d.follow(ctx, false, first); err != nil {
		return err
	}
	const login = "login/u_ann/1"
	began = time.Now()
	in, accepted, err := d.atOnce(ctx, 20, login, &request{Type: loginCode, Recipient: "u_ann", To: phone("u_ann"), Data: map[string]any{"code": "314159"}})
	if err != nil {
		return err
	}
	d.out.sayAt(began, byClient, "login_code, key %s, twenty at once: %d × 202, %d × 200", login, accepted, 20-accepted)
	if _, err := d.follow(ctx, false, in); err != nil {
		return err
	}
	d.expect(first.repeats == 4 && in.repeats == 19 && accepted == 1,
		"of 5 and 20 equal requests %d and %d were caught as repeats, want 4 and 19", first.repeats, in.repeats)
	return d.expectRequests(map[*intent]int{first: 2, in: 1})
}

// atOnce sends a request n times in parallel and counts the answers that
// accepted it as new.
func (d *demo) atOnce(ctx context.Context, n int, key string, m *request) (in *intent, accepted int, err error) {
	type answered struct {
		r   *reply
		err error
	}
	answers := make(chan answered, n)
	for range n {
		go func() {
			r, err := d.post(ctx, key, m)
			answers <- answered{r, err}
		}()
	}
	for range n {
		a := <-answers
		if a.err == nil && err == nil {
			in, a.err = d.note(key, m, a.r)
			if a.r.status == http.StatusAccepted {
				accepted++
			}
		}
		err = errors.Join(err, a.err)
	}
	return in, accepted, err
}

// keyReuse: a key stands for one request; another one under it is refused.
func (d *demo) keyReuse(ctx context.Context) error {
	const key = "payment-77/captured"
	pay := func(amount int) *request {
		return &request{Type: paymentEvent, Recipient: "merchant_7", To: d.hook("/hooks/77"),
			Data: map[string]any{"payment_id": "77", "status": "captured", "amount": amount, "currency": "EUR"}}
	}
	d.out.say(byClient, "payment_event to a webhook, key %s, amount 4200", key)
	in, err := d.send(ctx, key, pay(4200))
	if err != nil {
		return err
	}
	again := time.Now()
	r, err := d.post(ctx, key, pay(9900))
	if err != nil {
		return err
	}
	var problem struct {
		Code    string   `json:"code"`
		Differs []string `json:"differs"`
		ID      string   `json:"id"`
	}
	if err := json.Unmarshal(r.body, &problem); err != nil {
		return fmt.Errorf("%w to a key used again: %d %s", errAnswer, r.status, r.body)
	}
	d.out.sayAt(again, byClient, "the same key, amount 9900: %d %s, differs: %s", r.status, problem.Code, strings.Join(problem.Differs, ", "))
	d.expect(r.status == http.StatusUnprocessableEntity && problem.Code == string(notifier.CodeKeyReused) && problem.ID == in.id.String(),
		"another request under a used key was answered %d %s, want 422 key_reused", r.status, problem.Code)
	if _, err := d.follow(ctx, false, in); err != nil {
		return err
	}
	return d.expectRequests(map[*intent]int{in: 1})
}

// lostReply: nobody can know whether it arrived. Each order decides otherwise.
func (d *demo) lostReply(ctx context.Context) error {
	drop := simulate.Fault{Channel: "apns", Kind: simulate.FaultDropReply, Times: 1}
	toBob, toCleo := drop, drop
	toBob.Address, toCleo.Address = deviceOf("u_bob"), deviceOf("u_cleo")
	mail := simulate.Fault{Channel: "email", Address: "bob@example.com", Kind: simulate.FaultCloseAfterDot, Times: 1}
	if err := d.setFaults(ctx, toBob, toCleo, mail); err != nil {
		return err
	}
	want := map[*intent]int{}
	for _, s := range []struct {
		key      string
		m        *request
		about    string
		state    notifier.State
		requests int
	}{
		{"drop-9/u_bob", drops("u_bob"), "price_drop (claim_first, phone); the answer will be lost", notifier.StateUnknown, 1},
		{"digest-49/u_bob", digest("bob@example.com"), "weekly_digest (claim_first, mail); the answer will be lost", notifier.StateUnknown, 1},
		{"order-1003/shipped", order("u_cleo", "1003"), "order_shipped (send_first, phone); the answer will be lost, once", notifier.StateSent, 2},
	} {
		d.out.say(byClient, "%s", s.about)
		in, err := d.send(ctx, s.key, s.m)
		if err != nil {
			return err
		}
		ended, err := d.follow(ctx, false, in)
		if err != nil {
			return err
		}
		d.expect(ended[0].State == s.state, "after a lost reply %s is %s, want %s", s.m.Type, ended[0].State, s.state)
		want[in] = s.requests
	}
	return d.expectRequests(want)
}

// retryAfter: a refusal that promises that nothing was processed costs neither
// order anything, and the provider's time is kept.
func (d *demo) retryAfter(ctx context.Context) error {
	throttle := func(channel, address string) simulate.Fault {
		return simulate.Fault{Channel: channel, Address: address, Kind: simulate.FaultStatus, Times: 1,
			Status: http.StatusTooManyRequests, Reason: "TooManyRequests", RetryAfter: "1"}
	}
	if err := d.setFaults(ctx, throttle("apns", deviceOf("u_dan")), throttle("webhook", "/hooks/78")); err != nil {
		return err
	}
	event := &request{Type: paymentEvent, Recipient: "merchant_8", To: d.hook("/hooks/78"),
		Data: map[string]any{"payment_id": "78", "status": "refunded", "amount": 1500, "currency": "EUR"}}
	want := map[*intent]int{}
	var sent []*intent
	d.out.say(byClient, "price_drop (claim_first) and payment_event (send_first), both told to wait 1 s")
	for _, s := range []struct {
		key string
		m   *request
	}{{"drop-9/u_dan", drops("u_dan")}, {"payment-78/refunded", event}} {
		in, err := d.send(ctx, s.key, s.m)
		if err != nil {
			return err
		}
		want[in], sent = 2, append(sent, in)
	}
	ended, err := d.follow(ctx, false, sent...)
	if err != nil {
		return err
	}
	for _, n := range ended {
		s := n.Deliveries[0]
		waited, err := d.waited(s.ID)
		if err != nil {
			return err
		}
		d.out.say(byProvider, "%-8swas called again after %.2f s; it had asked for 1", s.Channel, waited.Seconds())
		d.expect(waited >= time.Second, "a provider that asked for 1 s was called again after %s", waited)
		d.expect(n.State == notifier.StateSent && s.PossibleEffects == 1,
			"after a refusal with Retry-After %s is %s with %d possible effects, want sent with 1", n.Type, n.State, s.PossibleEffects)
	}
	return d.expectRequests(want)
}

// waited is the time between a delivery's first two requests.
func (d *demo) waited(id notifier.DeliveryID) (time.Duration, error) {
	entries, err := d.log()
	if err != nil {
		return 0, err
	}
	entries = slices.DeleteFunc(entries, func(e simulate.Entry) bool { return e.Delivery != id.String() })
	if len(entries) < 2 {
		return 0, nil
	}
	return entries[1].Time.Sub(entries[0].Time), nil
}

// capped: whatever goes wrong, the person is not rung more often than the policy allows.
func (d *demo) capped(ctx context.Context) error {
	always := simulate.Fault{Channel: "apns", Address: deviceOf("u_eve"), Kind: simulate.FaultDropReply}
	if err := d.setFaults(ctx, always); err != nil {
		return err
	}
	d.out.say(byClient, "order_shipped: at most 3 per order and hour; every answer is lost")
	in, err := d.send(ctx, "order-1006/shipped", order("u_eve", "1006"))
	if err != nil {
		return err
	}
	ended, err := d.follow(ctx, false, in)
	if err != nil {
		return err
	}
	s := ended[0].Deliveries[0]
	d.expect(s.State == notifier.StateSuppressed && s.Reason == notifier.ReasonCapped,
		"a retry storm ended %s, want suppressed (capped)", withReason(string(s.State), s.Reason))
	return d.expectRequests(map[*intent]int{in: 3})
}

// collapse: a repeat carries the same collapse id, so the phone shows one.
func (d *demo) collapse(ctx context.Context) error {
	once := simulate.Fault{Channel: "apns", Address: deviceOf("u_fay"), Kind: simulate.FaultDropReply, Times: 1}
	if err := d.setFaults(ctx, once); err != nil {
		return err
	}
	d.out.say(byClient, "order_shipped, collapse: order-{{.order_id}}; the first answer is lost")
	in, err := d.send(ctx, "order-1007/shipped", order("u_fay", "1007"))
	if err != nil {
		return err
	}
	if _, err := d.follow(ctx, false, in); err != nil {
		return err
	}
	entries, err := d.log()
	if err != nil {
		return err
	}
	shown, rang := 0, 0
	for _, m := range simulate.Collapse(entries) {
		if m.Address == deviceOf("u_fay") {
			shown, rang = shown+1, rang+m.Alerts
			d.out.say(byDevice, "shows %q once (%s); it arrived %d times", m.Title, m.CollapseID, m.Alerts)
		}
	}
	d.expect(shown == 1 && rang == 2, "a repeat with a collapse id shows as %d notifications of %d pushes, want 1 of 2", shown, rang)
	return d.expectRequests(map[*intent]int{in: 2})
}

// expectRequests holds how many requests the providers had of each intent
// against what the scene says.
func (d *demo) expectRequests(want map[*intent]int) error {
	entries, err := d.log()
	if err != nil {
		return err
	}
	for in, n := range want {
		got := 0
		for i := range entries {
			id, err := notifier.ParseDeliveryID(entries[i].Delivery)
			if err == nil && id.Notification == in.id {
				got++
			}
		}
		d.expect(got == n, "the providers had %d requests of %s %q, want %d", got, in.typ, in.key, n)
	}
	return nil
}

// deviceOf is the device token of somebody's phone.
func deviceOf(recipient string) string {
	sum := sha256.Sum256([]byte(recipient))
	return hex.EncodeToString(sum[:])
}

func phone(recipient string) map[string][]any {
	return map[string][]any{"apns": {map[string]any{"token": deviceOf(recipient)}}}
}

func (d *demo) hook(path string) map[string][]any {
	return map[string][]any{"webhook": {map[string]any{"url": d.simulator.url + path}}}
}

func order(recipient, id string) *request {
	return &request{Type: orderShipped, Recipient: recipient, To: phone(recipient),
		Data: map[string]any{"order_id": id, "carrier": "DHL"}}
}

func drops(recipient string) *request {
	return &request{Type: priceDrop, Recipient: recipient, To: phone(recipient),
		Data: map[string]any{"article_id": "9", "article": "Tent", "price": "149.00", "dropped_by": "50.00"}}
}

func digest(address string) *request {
	return &request{Type: weeklyDigest, Recipient: address, To: map[string][]any{"email": {map[string]any{"address": address}}},
		Data: map[string]any{"week": "49", "articles": []any{map[string]any{"title": "On repeats", "url": "https://example.com/49"}}}}
}
