package policy

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/seed-4b260dfd/notifier"
)

// CheckData returns an *notifier.Error when data has a name that the policy
// does not declare (CodeUnknownField), or lacks a required one
// (CodeDataMissing). A null is a missing value.
func (p *Policy) CheckData(data map[string]any) error {
	for _, name := range slices.Sorted(maps.Keys(data)) {
		if _, declared := p.Data[name]; !declared {
			return &notifier.Error{Code: notifier.CodeUnknownField, Field: "data." + name,
				Message: fmt.Sprintf("the type %s does not declare this datum; allowed: %s", p.Type, listed(p.dataNames()))}
		}
	}
	for _, name := range p.dataNames() {
		if p.Data[name].Required && data[name] == nil {
			return &notifier.Error{Code: notifier.CodeDataMissing, Field: "data." + name,
				Message: fmt.Sprintf("the type %s requires this datum", p.Type)}
		}
	}
	return nil
}

// SecretData returns the names of the data that no log, page or list may show.
func (p *Policy) SecretData() []string {
	var names []string
	for _, name := range p.dataNames() {
		if p.Data[name].Secret {
			names = append(names, name)
		}
	}
	return names
}

func (p *Policy) dataNames() []string { return slices.Sorted(maps.Keys(p.Data)) }

func listed(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}

// RetryFor returns when a channel's attempts are repeated.
func (p *Policy) RetryFor(ch notifier.Channel) notifier.Retry {
	r := p.Retry
	if r.MaxUnknown == 0 {
		r.MaxUnknown = defaultMaxUnknown
		if ch == notifier.ChannelSMS || ch == notifier.ChannelEmail {
			r.MaxUnknown = defaultMaxUnknownShown
		}
	}
	return r
}

// maxCollapseBytes bounds a collapse id; channels with a tighter limit hash it.
const maxCollapseBytes = 1024

// CollapseID renders the channel's collapse id; "" says that none is set and
// the effect key serves. The error is an *notifier.Error with CodeTemplateFailed.
func (c *Channel) CollapseID(data map[string]any) (string, error) {
	if c.collapse == nil {
		return "", nil
	}
	id, err := c.collapse.Render(data)
	if err != nil {
		return "", &notifier.Error{Code: notifier.CodeTemplateFailed, Field: c.where, Message: err.Error()}
	}
	if len(id) > maxCollapseBytes {
		return "", &notifier.Error{Code: notifier.CodeTemplateFailed, Field: c.where,
			Message: fmt.Sprintf("the collapse id has %d bytes; at most %d are allowed", len(id), maxCollapseBytes)}
	}
	return id, nil
}
