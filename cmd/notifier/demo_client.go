package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/seed-4b260dfd/notifier"
	"github.com/seed-4b260dfd/notifier/channels/simulate"
)

// reply is what the demo reads of an answer.
type reply struct {
	status   int
	replayed bool
	body     []byte
}

// callAPI makes one request. Connections are not kept: one would outlive the
// server that is killed.
func callAPI(ctx context.Context, method, url, key string, body any) (*reply, error) {
	ctx, cancel := context.WithTimeout(ctx, demoPatience)
	defer cancel()
	var content io.Reader
	if body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			return nil, fmt.Errorf("write a request: %w", err)
		}
		content = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, method, url, content)
	if err != nil {
		return nil, fmt.Errorf("make a request: %w", err)
	}
	req.Close = true
	req.Header.Set("Content-Type", "application/json")
	if key != "" {
		req.Header.Set("Idempotency-Key", key)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	r := &reply{status: resp.StatusCode, replayed: resp.Header.Get("Idempotent-Replayed") == "true"}
	r.body, err = io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	return r, err
}

// post sends a request once. An answer that accepts it, or recognises it, is
// noted under its key.
func (d *demo) post(ctx context.Context, key string, m *request) (*reply, error) {
	return callAPI(ctx, http.MethodPost, d.server.url+"/v1/notifications", key, m)
}

// note keeps what the answer to a request says of its key.
func (d *demo) note(key string, m *request, r *reply) (*intent, error) {
	n, err := resource(r.body)
	if err != nil || r.status != http.StatusAccepted && r.status != http.StatusOK {
		return nil, fmt.Errorf("%w to %s %q: %d %s", errAnswer, m.Type, key, r.status, bytes.TrimSpace(r.body))
	}
	in := d.byKey[key]
	if in == nil {
		in = &intent{key: key, typ: m.Type, id: n.ID}
		d.byKey[key], d.intents = in, append(d.intents, in)
	}
	if in.id != n.ID {
		d.expect(false, "the key %q stands for two notifications, %s and %s", key, in.id, n.ID)
	}
	if r.replayed {
		in.repeats++
	}
	return in, nil
}

// send sends a request that is new.
func (d *demo) send(ctx context.Context, key string, m *request) (*intent, error) {
	r, err := d.post(ctx, key, m)
	if err != nil {
		return nil, err
	}
	d.expect(r.status == http.StatusAccepted, "a first request was answered %d, want 202", r.status)
	return d.note(key, m, r)
}

// notification reads what the ledger says.
func (d *demo) notification(ctx context.Context, id notifier.ID) (*notifier.Notification, error) {
	r, err := callAPI(ctx, http.MethodGet, d.server.url+"/v1/notifications/"+id.String(), "", nil)
	if err != nil {
		return nil, err
	}
	if r.status != http.StatusOK {
		return nil, fmt.Errorf("%w to a read of %s: %d %s", errAnswer, id, r.status, bytes.TrimSpace(r.body))
	}
	return resource(r.body)
}

// setFaults replaces what goes wrong at the providers.
func (d *demo) setFaults(ctx context.Context, faults ...simulate.Fault) error {
	if faults == nil {
		faults = []simulate.Fault{}
	}
	r, err := callAPI(ctx, http.MethodPut, d.simulator.url+"/_simulate/faults", "", faults)
	if err != nil {
		return fmt.Errorf("set the providers' faults: %w", err)
	}
	if r.status != http.StatusNoContent {
		return fmt.Errorf("%w to the faults: %d %s", errAnswer, r.status, bytes.TrimSpace(r.body))
	}
	return nil
}

// totals are the server's counters that the table is held against.
type totals struct{ accepted, repeats, failedAssertions float64 }

// count adds what the running server has counted since it started.
func (d *demo) count(ctx context.Context, to *totals) error {
	r, err := callAPI(ctx, http.MethodGet, d.server.url+"/metrics", "", nil)
	if err != nil {
		return fmt.Errorf("read the metrics: %w", err)
	}
	for lines := bufio.NewScanner(bytes.NewReader(r.body)); lines.Scan(); {
		name, value, ok := cutLast(lines.Text(), " ")
		if !ok || strings.HasPrefix(name, "#") {
			continue
		}
		v, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return fmt.Errorf("read the metric %s: %w", name, err)
		}
		switch family, labels, _ := strings.Cut(name, "{"); {
		case family == "notifier_accepted_total":
			to.accepted += v
		case family == "notifier_repeats_total" && strings.Contains(labels, `hop="api"`):
			to.repeats += v
		case family == "notifier_assertions_failed_total":
			to.failedAssertions += v
		}
	}
	return nil
}

func cutLast(s, sep string) (before, after string, found bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}

// follow waits until every delivery of some notifications has ended, prints
// what the providers see of them meanwhile unless quiet, and then, in the
// ledger's words, how they ended.
func (d *demo) follow(ctx context.Context, quiet bool, intents ...*intent) ([]*notifier.Notification, error) {
	watch := d.watch(intents)
	if quiet {
		watch = func() error { return nil }
	}
	ended := make([]*notifier.Notification, len(intents))
	err := d.until(ctx, "all of it is settled", func() (bool, error) {
		for i, in := range intents {
			if ended[i] != nil && ended[i].State.Finished() {
				continue
			}
			n, err := d.notification(ctx, in.id)
			if err != nil {
				return false, err
			}
			if ended[i] = n; !n.State.Finished() {
				return false, watch()
			}
		}
		// What the ledger knows by now was in the providers' log before.
		return true, watch()
	})
	if err != nil || quiet {
		return ended, err
	}
	for _, n := range ended {
		for j := range n.Deliveries {
			d.out.say(byLedger, "%s", deliveryLine(&n.Deliveries[j]))
		}
	}
	return ended, nil
}

// watch returns what prints the lines of the providers' log that are new and
// are of some notifications.
func (d *demo) watch(intents []*intent) func() error {
	seen, mine := 0, map[notifier.ID]bool{}
	for _, in := range intents {
		mine[in.id] = true
	}
	return func() error {
		entries, err := d.log()
		if err != nil {
			return err
		}
		for ; seen < len(entries); seen++ {
			e := &entries[seen]
			if id, err := notifier.ParseDeliveryID(e.Delivery); err == nil && mine[id.Notification] {
				d.out.sayAt(e.Time, byProvider, "%s", requestLine(e))
			}
		}
		return nil
	}
}

// requestLine is one line of the providers' log.
func requestLine(e *simulate.Entry) string {
	answer, effect := "answered "+e.Answer, "1 effect"
	if e.Answer == "none" {
		answer = "answer dropped"
	}
	if !e.TookEffect {
		effect = "no effect"
	}
	name := map[string]string{"apns": "apns-id", "email": "message-id", "webhook": "webhook-id"}[e.Channel]
	return fmt.Sprintf("%-8s#%d  %-9s  %-28s %s %s", e.Channel, e.Fence, effect, answer, name, clip(e.EffectKey))
}

// deliveryLine is what the ledger says of a delivery.
func deliveryLine(s *notifier.DeliveryState) string {
	return fmt.Sprintf("%-8s%s; %s; possible effects: %d", s.Channel,
		withReason(string(s.State), s.Reason), attemptsLine(s), s.PossibleEffects)
}

// attemptsLine is a delivery's attempts, those that ended alike in one.
func attemptsLine(s *notifier.DeliveryState) string {
	var parts []string
	for i := 0; i < len(s.Attempts); {
		first, last := &s.Attempts[i], &s.Attempts[i]
		for i++; i < len(s.Attempts) && s.Attempts[i].Outcome == first.Outcome && s.Attempts[i].Reason == first.Reason; i++ {
			last = &s.Attempts[i]
		}
		number := fmt.Sprintf("#%d", first.Fence)
		if last != first {
			number += fmt.Sprintf("-%d", last.Fence)
		}
		parts = append(parts, number+" "+withReason(first.Outcome, first.Reason))
	}
	if len(parts) == 0 {
		return "no attempt"
	}
	return strings.Join(parts, ", ")
}
