package delivery

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/seed-4b260dfd/notifier"
	"github.com/seed-4b260dfd/notifier/channels"
	"github.com/seed-4b260dfd/notifier/policy"
)

// deliveries makes one delivery for each address on a channel that the policy
// uses, in the policy's order of channels.
func (e *Engine) deliveries(p *policy.Policy, req *notifier.Request, expires time.Time) ([]notifier.Delivery, []string, error) {
	var all []notifier.Delivery
	for i := range p.Channels {
		pc := &p.Channels[i]
		addresses := unique(req.To[pc.Channel])
		if len(addresses) == 0 {
			continue
		}
		d, err := e.template(p, pc, req)
		if err != nil {
			return nil, nil, err
		}
		d.ExpiresAt = expires
		for _, a := range addresses {
			d := d
			if err := e.address(&d, pc, a.index, a.Address); err != nil {
				return nil, nil, err
			}
			all = append(all, d)
		}
	}
	ignored := unused(p, req)
	if len(all) == 0 {
		return nil, nil, &notifier.Error{Code: notifier.CodeNoAddress, Field: "to",
			Message: fmt.Sprintf("no address on a channel that the type %q uses: %v", p.Type, channelNames(p))}
	}
	return all, ignored, nil
}

// unused names the channels with addresses that the policy does not use.
func unused(p *policy.Policy, req *notifier.Request) []string {
	var ignored []string
	for ch, to := range req.To {
		uses := func(c policy.Channel) bool { return c.Channel == ch }
		if len(to) > 0 && !slices.ContainsFunc(p.Channels, uses) {
			ignored = append(ignored, "to."+string(ch))
		}
	}
	slices.Sort(ignored)
	return ignored
}

func channelNames(p *policy.Policy) []notifier.Channel {
	names := make([]notifier.Channel, len(p.Channels))
	for i := range p.Channels {
		names[i] = p.Channels[i].Channel
	}
	return names
}

// numbered is an address with its place in the request.
type numbered struct {
	notifier.Address
	index int
}

// unique leaves out addresses that stand twice: one address is one delivery.
func unique(to []notifier.Address) []numbered {
	seen := make(map[string]bool, len(to))
	out := make([]numbered, 0, len(to))
	for i, a := range to {
		if !seen[a.Value] {
			seen[a.Value] = true
			out = append(out, numbered{a, i})
		}
	}
	return out
}

// template makes what the deliveries of one channel share: the content,
// rendered once, and the terms.
func (e *Engine) template(p *policy.Policy, pc *policy.Channel, req *notifier.Request) (notifier.Delivery, error) {
	var d notifier.Delivery
	kind := e.cfg.Kinds[pc.Channel]
	if kind == nil {
		return d, &notifier.Error{Code: notifier.CodeInternal, Message: fmt.Sprintf("the channel %s is not configured", pc.Channel)}
	}
	t := e.cfg.Templates.Find(pc.Template, pc.Channel, req.Locale)
	if t == nil {
		return d, &notifier.Error{Code: notifier.CodeTemplateFailed, Field: "type",
			Message: fmt.Sprintf("the type %q has no template %q for %s", p.Type, pc.Template, pc.Channel)}
	}
	fields, err := t.Render(req.Data)
	if err != nil {
		return d, err
	}
	if d.Content, err = kind.Prepare(fields); err != nil {
		return d, rendered(t.File, err)
	}
	if d.CollapseID, err = pc.CollapseID(req.Data); err != nil {
		return d, err
	}
	d.Tenant, d.Key, d.Type, d.Recipient, d.Order = req.Tenant, req.Key, req.Type, req.Recipient, p.Order
	d.Lane = notifier.Lane{Channel: pc.Channel, Priority: p.Priority}
	d.Terms = notifier.Terms{
		Lease: p.Lease, SendTimeout: pc.SendTimeout, Unknown: p.Unknown, RedisDown: p.RedisDown, Tombstone: p.Tombstone,
		Retry: p.RetryFor(pc.Channel),
		Caps:  p.CapsFor(req.Tenant, req.Recipient, pc.Channel, req.Data),
	}
	if d.Terms.SendTimeout == 0 {
		d.Terms.SendTimeout = kind.SendTimeout()
	}
	return d, nil
}

// address completes a delivery with where it goes and through which account.
func (e *Engine) address(d *notifier.Delivery, pc *policy.Channel, index int, a notifier.Address) error {
	at := fmt.Sprintf("to.%s[%d]", pc.Channel, index)
	if err := placed(at, e.cfg.Kinds[pc.Channel].CheckAddress(a)); err != nil {
		return err
	}
	accounts := e.cfg.Accounts[pc.Channel]
	name := a.Account
	if name == "" {
		name = pc.Account
	}
	if name == "" && len(accounts) == 1 {
		for only := range accounts {
			name = only
		}
	}
	account, ok := accounts[name]
	if !ok {
		return &notifier.Error{Code: notifier.CodeInvalid, Field: at + ".account",
			Message: fmt.Sprintf("there is no account %q of the channel %s; there are %s", name, pc.Channel, strings.Join(slices.Sorted(maps.Keys(accounts)), ", "))}
	}
	if c, ok := account.Channel.(channels.AddressChecker); ok {
		if err := placed(at, c.CheckAddress(a)); err != nil {
			return err
		}
	}
	d.Lane.Account = name
	d.Address = a
	d.EffectKey = notifier.EffectKey(d.Tenant, d.Key, pc.Channel, a.Value)
	if d.CollapseID == "" {
		d.CollapseID = d.EffectKey
	}
	return nil
}

// rendered says from which template came what a channel does not take.
func rendered(file string, err error) error {
	var own *notifier.Error
	if !errors.As(err, &own) || own.Code == notifier.CodeInternal {
		return err
	}
	moved := *own
	switch {
	case moved.Field == "":
		moved.Field = file
	case !strings.Contains(moved.Field, ": "):
		moved.Field = file + ": " + moved.Field
	}
	return &moved
}

// placed says where in the request the address at fault stands.
func placed(at string, err error) error {
	var own *notifier.Error
	if !errors.As(err, &own) {
		return err
	}
	moved := *own
	moved.Field = at + "." + own.Field
	return &moved
}
