package policy

import (
	"encoding/json"
	"slices"

	"github.com/seed-4b260dfd/notifier"
)

// perRecipient is the part of a scope that every cap has.
const perRecipient = "recipient"

// newCap brings a cap into one form, so that two files that mean the same
// share the count: recipient first, then names in their order.
func newCap(c fileCap) Cap {
	made := Cap{Name: c.Name, Limit: c.Limit, Window: c.Window, Then: c.Then, On: slices.Sorted(slices.Values(c.On))}
	if made.Then == "" {
		made.Then = notifier.CapSuppress
	}
	made.Per = []string{perRecipient}
	for _, name := range slices.Sorted(slices.Values(c.Per)) {
		if name != perRecipient {
			made.Per = append(made.Per, name)
		}
	}
	return made
}

// CapsFor returns the caps that a delivery on a channel is held to, with the
// key of each one's count: the recipient, the cap's name, the values of its
// scope, and the channel unless the cap names the channels that share it.
func (p *Policy) CapsFor(tenant, recipient string, ch notifier.Channel, data map[string]any) []notifier.Cap {
	var caps []notifier.Cap
	// Eight digits spread recipients evenly; each row pays for them.
	slot := notifier.Child(tenant, recipient)[:8]
	for _, c := range p.Caps {
		if len(c.On) > 0 && !slices.Contains(c.On, ch) {
			continue
		}
		parts := []string{tenant, recipient, c.Name}
		for _, name := range c.Per[1:] {
			parts = append(parts, scopeValue(data[name]))
		}
		if len(c.On) == 0 {
			parts = append(parts, string(ch))
		}
		caps = append(caps, notifier.Cap{Name: c.Name, Key: notifier.Child(parts...), Slot: slot, Limit: c.Limit, Window: c.Window, Then: c.Then})
	}
	return caps
}

// scopeValue writes a value of the scope. The string "42" and the number 42
// are one scope: callers are not that careful, and a cap must not be escaped by it.
func scopeValue(v any) string {
	if s, ok := v.(string); ok {
		return s
	}
	b, err := json.Marshal(v)
	if err != nil {
		return ""
	}
	return string(b)
}
