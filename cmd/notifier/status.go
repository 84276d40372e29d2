package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/seed-4b260dfd/notifier"
)

// status shows one notification, found by id or by key.
func (c command) status(ctx context.Context, p *process, args []string) error {
	f := c.flags()
	server := serverFlag(f)
	key := f.String("key", "", "find it by the `key` that it was sent with")
	asJSON := f.Bool("json", false, "print the resource as JSON")
	got, err := c.parse(p, f, args, "[ID]")
	switch {
	case err != nil:
		return err
	case len(got) == 1 && *key != "":
		return wrongUsage("status: give the id or -key, not both")
	case len(got) == 0 && *key == "":
		return wrongUsage("status needs an id or -key: notifier status %s", c.args)
	}
	cl, err := newClient(*server, p.getenv)
	if err != nil {
		return err
	}
	body, err := cl.find(ctx, got, *key)
	if err != nil {
		return err
	}
	if *asJSON {
		fmt.Fprintf(p.stdout, "%s\n", body)
		return nil
	}
	n, err := resource(body)
	if err != nil {
		return err
	}
	printTimeline(p.stdout, n)
	return nil
}

// find returns the JSON of the notification with the id in got, or with the key.
func (c *client) find(ctx context.Context, got []string, key string) (json.RawMessage, error) {
	if len(got) == 1 {
		if _, err := notifier.ParseID(got[0]); err != nil {
			return nil, wrongUsage("status: %q is not an id such as ntf_…; a key goes after -key", got[0])
		}
		a, err := c.call(ctx, http.MethodGet, "/v1/notifications/"+got[0], nil, nil, 0)
		if err != nil {
			return nil, err
		}
		return a.body, nil
	}
	a, err := c.call(ctx, http.MethodGet, "/v1/notifications?key="+url.QueryEscape(key), nil, nil, 0)
	if err != nil {
		return nil, err
	}
	var list struct {
		Notifications []json.RawMessage `json:"notifications"`
	}
	if err := json.Unmarshal(a.body, &list); err != nil {
		return nil, errors.New("the server's answer is not a list: is it a notifier of this version?")
	}
	if len(list.Notifications) == 0 {
		return nil, fmt.Errorf("nothing was accepted with the key %q: check the key, the server and the API key's tenant", key)
	}
	return list.Notifications[0], nil
}

// printTimeline writes a notification for people.
func printTimeline(w io.Writer, n *notifier.Notification) {
	fmt.Fprintf(w, "%s  %s  to %s  key %s\n", n.ID, printable(n.Type), printable(n.Recipient), printable(n.Key))
	fmt.Fprintf(w, "%s  %s  accepted %s  expires %s", n.State, n.Order, moment(&n.AcceptedAt), moment(&n.ExpiresAt))
	if n.Repeats > 0 {
		fmt.Fprintf(w, "  %s caught", count(n.Repeats, "repeat"))
	}
	fmt.Fprintln(w)
	for i := range n.Deliveries {
		printDelivery(w, &n.Deliveries[i])
	}
}

func printDelivery(w io.Writer, d *notifier.DeliveryState) {
	fmt.Fprintf(w, "\n%s.%s  %s  %s", d.Channel, printable(d.Account), printable(d.Address), withReason(string(d.State), d.Reason))
	fmt.Fprintf(w, "  %s that may have arrived", count(d.PossibleEffects, "request"))
	if d.NextAttemptAt != nil && !d.State.Finished() {
		fmt.Fprintf(w, "  next attempt %s", moment(d.NextAttemptAt))
	}
	fmt.Fprintf(w, "\n  %s\n", d.ID)
	for _, a := range d.Attempts {
		outcome := a.Outcome
		if outcome == "" {
			outcome = "under way"
		}
		fmt.Fprintf(w, "  #%d  %s", a.Fence, moment(a.StartedAt))
		if a.StartedAt != nil && a.FinishedAt != nil {
			fmt.Fprintf(w, "  took %s", a.FinishedAt.Sub(*a.StartedAt).Round(time.Millisecond))
		}
		fmt.Fprintf(w, "  %s", withReason(printable(outcome), a.Reason))
		for _, s := range []string{a.ProviderStatus, a.ProviderID} {
			if s != "" {
				fmt.Fprintf(w, "  %s", printable(s))
			}
		}
		if a.Late {
			fmt.Fprint(w, "  (late: it changed no outcome)")
		}
		fmt.Fprintln(w)
	}
}

func withReason(word string, r notifier.Reason) string {
	if r == notifier.ReasonNone {
		return word
	}
	return word + " (" + printable(string(r)) + ")"
}

// moment writes a time in UTC, as the API does, to the millisecond.
func moment(t *time.Time) string {
	if t == nil || t.IsZero() {
		return "-"
	}
	return t.UTC().Format("2006-01-02T15:04:05.000Z")
}
