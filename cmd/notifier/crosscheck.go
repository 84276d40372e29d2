package main

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/seed-4b260dfd/notifier"
	"github.com/seed-4b260dfd/notifier/channels"
	"github.com/seed-4b260dfd/notifier/policy"
	"github.com/seed-4b260dfd/notifier/pure"
	"github.com/seed-4b260dfd/notifier/strictyaml"
	"github.com/seed-4b260dfd/notifier/templates"
)

// crossChecker holds policies, templates and accounts against each other.
type crossChecker struct {
	*project
	wired    map[notifier.Channel]wired
	accounts bool
	used     map[*templates.Template]bool
	found    []strictyaml.Problem
}

// crossCheck returns what is wrong between the parts; without accounts, only
// what is wrong between policies and templates.
func (p *project) crossCheck(accounts bool) []strictyaml.Problem {
	c := &crossChecker{project: p, wired: map[notifier.Channel]wired{}, accounts: accounts, used: map[*templates.Template]bool{}}
	for _, w := range p.Channels.wired() {
		c.wired[w.kind.Channel()] = w
	}
	for _, typ := range p.policies.Types() {
		pol := p.policies.Policy(typ)
		complete := true
		for i := range pol.Channels {
			complete = c.channel(pol, i) && complete
		}
		if complete {
			c.unused(pol)
		}
	}
	for _, t := range p.templates.All() {
		if !c.used[t] {
			c.found = append(c.found, warningAt(t.File, 1, "no policy uses this template"))
		}
	}
	return c.found
}

// channel checks one channel of a policy; false: its templates are not all known.
func (c *crossChecker) channel(p *policy.Policy, i int) bool {
	ch := &p.Channels[i]
	w, ok := c.wired[ch.Channel]
	if !ok {
		return false // refused by the policy's own check
	}
	if c.accounts {
		c.account(p, i, w)
	}
	of := c.templatesOf(ch)
	if c.templates.Find(ch.Template, ch.Channel, "") == nil {
		c.found = append(c.found, p.Problem(at("channels", i, "template"), "channels[%d].template: there is no template %q for %s; write %s",
			i, ch.Template, ch.Channel, c.templatePath(ch)))
	}
	for _, t := range of {
		c.used[t] = true
		c.variables(p, t)
		c.dryRun(p, t, w.kind)
	}
	return len(of) > 0
}

// account checks that the account a channel goes through is there and is one.
func (c *crossChecker) account(p *policy.Policy, i int, w wired) {
	ch, names := &p.Channels[i], w.names()
	where := "channels." + string(ch.Channel) + " in " + c.configName()
	switch {
	case len(names) == 0:
		c.found = append(c.found, p.Problem(at("channels", i), "channels[%d]: no account for %s is configured; add one under %s", i, ch.Channel, where))
	case ch.Account == "" && len(names) > 1:
		c.found = append(c.found, p.Problem(at("channels", i), "channels[%d]: %s has several accounts; name one with account: %s",
			i, ch.Channel, strings.Join(names, " or ")))
	case ch.Account != "" && !slices.Contains(names, ch.Account):
		c.found = append(c.found, p.Problem(at("channels", i, "account"), "channels[%d].account: there is no account %q for %s; allowed: %s, or add it under %s",
			i, ch.Account, ch.Channel, strings.Join(names, ", "), where))
	default:
		name := ch.Account
		if name == "" {
			name = names[0]
		}
		if p.Unknown == notifier.UnknownLookup && !w.accounts[name].looks {
			c.found = append(c.found, p.Warning(at("unknown"), "unknown: lookup: nobody can be asked what %s.%s has; what is unknown there is left to the order: %s",
				ch.Channel, name, map[notifier.Order]string{notifier.OrderClaimFirst: "stop", notifier.OrderSendFirst: "resend"}[p.Order]))
		}
	}
}

func (c *crossChecker) configName() string {
	if c.file == "" {
		return configName
	}
	return c.file
}

// templatePath is where the template of a channel belongs.
func (c *crossChecker) templatePath(ch *policy.Channel) string {
	dir := strings.TrimSuffix(c.Templates, "/") + "/" + ch.Template + "/"
	switch ch.Channel {
	case notifier.ChannelAPNs, notifier.ChannelFCM, notifier.ChannelWebPush:
		return dir + "push.yaml or " + dir + string(ch.Channel) + ".yaml"
	case notifier.ChannelEmail, notifier.ChannelSMS, notifier.ChannelWebhook:
		return dir + string(ch.Channel) + ".yaml"
	default:
		return dir
	}
}

// templatesOf returns the templates that may serve a channel, whatever the
// locale. push.yaml does not serve one that has a file of its own there.
func (c *crossChecker) templatesOf(ch *policy.Channel) []*templates.Template {
	var of []*templates.Template
	for _, t := range c.templates.All() {
		if t.Name == ch.Template && c.templates.Find(t.Name, ch.Channel, t.Locale) == t {
			of = append(of, t)
		}
	}
	return of
}

// variables checks what a template reads against what the policy declares.
func (c *crossChecker) variables(p *policy.Policy, t *templates.Template) {
	for _, u := range t.Uses() {
		switch d, declared := p.Data[u.Name]; {
		case !declared:
			c.bad(t, u.Line, "%q is not declared under data in %s; declared: %s", u.Name, p.File, listed(slices.Sorted(maps.Keys(p.Data))))
		case d.Delta && p.Order == notifier.OrderSendFirst:
			c.bad(t, u.Line, "%q is delta, and %s is send_first: a repeat would say the change twice; say what is, not what changed", u.Name, p.Type)
		}
	}
}

func (c *crossChecker) bad(t *templates.Template, line int, format string, args ...any) {
	c.found = append(c.found, strictyaml.Problem{File: t.File, Line: line, Message: fmt.Sprintf(format, args...)})
}

func warningAt(file string, line int, format string, args ...any) strictyaml.Problem {
	return strictyaml.Problem{File: file, Line: line, Message: fmt.Sprintf(format, args...), Warning: true}
}

func listed(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}

// unused warns of data that no template, collapse id or cap reads.
func (c *crossChecker) unused(p *policy.Policy) {
	read := map[string]bool{}
	for i := range p.Channels {
		ch := &p.Channels[i]
		for _, t := range c.templatesOf(ch) {
			for _, name := range t.Variables() {
				read[name] = true
			}
		}
		if id, err := pure.Parse(ch.Collapse, pure.Text); err == nil {
			for _, u := range id.Uses() {
				read[u.Name] = true
			}
		}
	}
	for _, limit := range p.Caps {
		for _, name := range limit.Per {
			read[name] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(p.Data)) {
		if !read[name] {
			c.found = append(c.found, p.Warning(at("data", name), "data.%s: no template reads it", name))
		}
	}
}

// dryRun renders a template with made-up data and hands it to the channel: once
// with all data, once with what is required. It judges nothing where made-up
// values are of no use to the template, such as one that ranges over a list.
func (c *crossChecker) dryRun(p *policy.Policy, t *templates.Template, kind channels.Kind) {
	for _, sample := range []any{"1", int64(1)} {
		all, required := map[string]any{}, map[string]any{}
		for name, d := range p.Data {
			all[name] = sample
			if d.Required {
				required[name] = sample
			}
		}
		fields, err := t.Render(all)
		if err != nil {
			continue
		}
		if _, err := kind.Prepare(fields); err != nil {
			c.bad(t, 1, "%s cannot take what it gives: %s", kind.Channel(), messageOf(err))
		} else if _, err := t.Render(required); err != nil {
			c.bad(t, 1, "fails when a request leaves out what is not required: %s; ask with {{if}} or default, or declare it required", messageOf(err))
		}
		return
	}
}

// messageOf is an error without the file that it names, which stands in front.
func messageOf(err error) string {
	var e *notifier.Error
	if !errors.As(err, &e) {
		return err.Error()
	}
	field := e.Field[strings.LastIndex(e.Field, " ")+1:]
	if field == "" {
		return e.Message
	}
	return field + ": " + e.Message
}
