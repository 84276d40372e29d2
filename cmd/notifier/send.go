package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/seed-4b260dfd/notifier"
)

// maxServerWait is the longest that a server holds an answer; what is longer
// is waited for by asking again.
const maxServerWait = 30 * time.Second

// toFlag gathers -to channel=address.
type toFlag struct{ to map[string][]any }

// String is for the flag package.
func (t *toFlag) String() string { return "" }

// Set reads one flag: channel=address, or channel=@file.json for an address
// with further fields.
func (t *toFlag) Set(s string) error {
	channel, value, ok := strings.Cut(s, "=")
	if !ok || value == "" {
		return errors.New("write channel=address, such as email=ann@example.com")
	}
	field := addressField(notifier.Channel(channel))
	if field == "" {
		return fmt.Errorf("there is no channel %q; allowed: apns, fcm, webpush, email, sms, webhook", channel)
	}
	if t.to == nil {
		t.to = map[string][]any{}
	}
	var address any = map[string]any{field: value}
	if file, isFile := strings.CutPrefix(value, "@"); isFile {
		object, err := readObject(file)
		if err != nil {
			return err
		}
		address = object
	}
	t.to[channel] = append(t.to[channel], address)
	return nil
}

// addressField is the field of an address on a channel that identifies it.
func addressField(ch notifier.Channel) string {
	switch ch {
	case notifier.ChannelAPNs, notifier.ChannelFCM:
		return "token"
	case notifier.ChannelWebPush:
		return "endpoint"
	case notifier.ChannelEmail:
		return "address"
	case notifier.ChannelSMS:
		return "number"
	case notifier.ChannelWebhook:
		return "url"
	default:
		return ""
	}
}

// request is the body of POST /v1/notifications.
type request struct {
	Type      string           `json:"type"`
	Recipient string           `json:"recipient"`
	To        map[string][]any `json:"to,omitempty"`
	Data      map[string]any   `json:"data,omitempty"`
	Locale    string           `json:"locale,omitempty"`
	SendAt    string           `json:"send_at,omitempty"`
	ExpiresAt string           `json:"expires_at,omitempty"`
}

// send sends one message through a server and prints the resource.
func (c command) send(ctx context.Context, p *process, args []string) error {
	f := c.flags()
	server := serverFlag(f)
	var m request
	var to toFlag
	var data dataFlag
	f.StringVar(&m.Type, "type", "", "the message `type`: the name of its policy")
	f.StringVar(&m.Recipient, "recipient", "", "`who` it is for, in your own words")
	key := f.String("key", "", "the idempotency `key`: the same message, sent again with it, is not sent twice")
	f.Var(&to, "to", "`channel=address`, or channel=@address.json; may be repeated")
	f.Var(&data, "data", "a datum as `name=value`, or @file.json; may be repeated")
	f.StringVar(&m.Locale, "locale", "", "the recipient's `locale`, such as fr-CA")
	f.StringVar(&m.SendAt, "send-at", "", "the `time` from which to send, as in 2026-12-01T09:00:00Z")
	f.StringVar(&m.ExpiresAt, "expires-at", "", "the `time` after which not to send")
	wait := f.Duration("wait", 0, "wait this `long` for all to be settled; then anything but sent is exit code 3")
	if _, err := c.parse(p, f, args); err != nil {
		return err
	}
	for _, must := range []struct{ flag, value, about string }{
		{"-type", m.Type, "the name of a policy, such as order_shipped"},
		{"-recipient", m.Recipient, "who it is for, such as u_42"},
		{"-key", *key, "a name for this message that is equal in every copy, such as order-42/shipped"},
	} {
		if must.value == "" {
			return wrongUsage("send: %s is missing: add %s, %s", must.flag, must.flag, must.about)
		}
	}
	if *wait < 0 {
		return wrongUsage("send: -wait %s is negative; write a duration such as 10s", *wait)
	}
	if err := notifier.CheckKey(*key); err != nil {
		return wrongUsage("send: -%v", err)
	}
	cl, err := newClient(*server, p.getenv)
	if err != nil {
		return err
	}
	m.To, m.Data = to.to, data.data
	return cl.send(ctx, p, &m, *key, *wait)
}

func (c *client) send(ctx context.Context, p *process, m *request, key string, wait time.Duration) error {
	body, err := json.Marshal(m)
	if err != nil {
		return fmt.Errorf("write the request: %w", err)
	}
	header := http.Header{"Content-Type": {"application/json"}, "Idempotency-Key": {key}}
	deadline := time.Now().Add(wait)
	held := min(wait, maxServerWait).Truncate(time.Second)
	if held > 0 {
		header.Set("Prefer", "wait="+strconv.Itoa(int(held/time.Second)))
	}
	a, err := c.call(ctx, http.MethodPost, "/v1/notifications", header, body, held)
	if err != nil {
		return err
	}
	n, err := resource(a.body)
	if err != nil {
		return err
	}
	for wait > 0 && n.State == notifier.StatePending && time.Now().Before(deadline) {
		if n, a, err = c.again(ctx, n.ID, deadline); err != nil {
			return err
		}
	}
	fmt.Fprintf(p.stdout, "%s\n", a.body)
	if wait > 0 && !slices.Contains([]notifier.State{notifier.StateSent, notifier.StateDelivered}, n.State) {
		return &notSo{fmt.Sprintf(`send: %s is %s after %s: "notifier status %s" shows why`, n.ID, n.State, wait, n.ID)}
	}
	return nil
}

// again reads a notification once more, a moment later.
func (c *client) again(ctx context.Context, id notifier.ID, deadline time.Time) (*notifier.Notification, *answer, error) {
	pause := time.NewTimer(min(500*time.Millisecond, time.Until(deadline)))
	defer pause.Stop()
	select {
	case <-pause.C:
	case <-ctx.Done():
		return nil, nil, fmt.Errorf(`interrupted: %s was accepted; "notifier status %s" shows what becomes of it`, id, id)
	}
	a, err := c.call(ctx, http.MethodGet, "/v1/notifications/"+id.String(), nil, nil, 0)
	if err != nil {
		return nil, nil, err
	}
	n, err := resource(a.body)
	return n, a, err
}

// resource reads a notification. What this version does not know is passed over.
func resource(body []byte) (*notifier.Notification, error) {
	var n notifier.Notification
	if err := json.Unmarshal(body, &n); err != nil || n.ID.IsZero() {
		return nil, errors.New("the server's answer is not a notification: is it a notifier of this version?")
	}
	return &n, nil
}
