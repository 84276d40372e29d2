package policy

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/seed-4b260dfd/notifier"
	"github.com/seed-4b260dfd/notifier/pure"
	"github.com/seed-4b260dfd/notifier/strictyaml"
)

// dataName is what a datum may be called, so that a template can say it.
var dataName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// capName is what a cap may be called: it is a metric's label.
var capName = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,63}$`)

// checker gathers the problems of one policy.
type checker struct {
	*Policy
	// unread is what the reader already said of the type's own file.
	unread   []strictyaml.Problem
	problems []strictyaml.Problem
}

// misread reports whether the field was written in a way that could not be
// read: what is missing then is not missing.
func (c *checker) misread(field string) bool {
	line := c.own.Line(field)
	return c.own.Has(field) && slices.ContainsFunc(c.unread, func(p strictyaml.Problem) bool { return p.Line == line })
}

func (c *checker) bad(path []any, format string, args ...any) {
	c.problems = append(c.problems, c.Problem(path, "%s: %s", strictyaml.Path(path...), fmt.Sprintf(format, args...)))
}

func (c *checker) warn(path []any, format string, args ...any) {
	c.problems = append(c.problems, c.Warning(path, "%s: %s", strictyaml.Path(path...), fmt.Sprintf(format, args...)))
}

// later refuses a field that a coming version honours.
func (c *checker) later(path []any) {
	c.bad(path, "not supported yet; leave it out")
}

func at(path ...any) []any { return path }

// check returns what is wrong with the policy by itself.
func (p *Policy) check(f *file, unread []strictyaml.Problem) []strictyaml.Problem {
	c := &checker{Policy: p, unread: unread}
	c.order()
	c.channels(f)
	c.data()
	c.times()
	c.retry()
	c.caps(f)
	c.notYet()
	return c.problems
}

func (c *checker) order() {
	switch c.Order {
	case notifier.OrderClaimFirst:
		if c.Unknown == notifier.UnknownResend {
			c.bad(at("unknown"), "resend is not allowed under claim_first: it would be a second effect; allowed: stop, lookup")
		}
	case notifier.OrderSendFirst:
		if c.ExpiresAfter == 0 && !c.written("expires_after") {
			c.bad(at("expires_after"), "required under send_first: it says how long a repeat is still of use")
		}
		if len(c.Caps) == 0 {
			c.warn(at("caps"), "a send_first type without a cap: nothing bounds how often a person gets a repeat")
		}
	default:
		switch {
		case !c.own.Has("order"):
			c.problems = append(c.problems, c.own.Problem(at("order"), "order: required; allowed: claim_first, send_first"))
		case !c.misread("order"):
			c.bad(at("order"), "%q is not an order; allowed: claim_first, send_first", c.Order)
		}
	}
	switch c.RedisDown {
	case notifier.RedisDownWait, notifier.RedisDownProceed, "": // empty: of a type whose order is wrong
	default:
		c.bad(at("redis_down"), "%q is not a rule; allowed: wait, proceed", c.RedisDown)
	}
	if c.Priority == "" || !slices.Contains(notifier.Priorities[:], c.Priority) {
		c.bad(at("priority"), "%q is not a priority; allowed: high, normal, bulk", c.Priority)
	}
}

func (c *checker) channels(f *file) {
	if len(c.Channels) == 0 && !c.misread("channels") {
		c.problems = append(c.problems, c.own.Problem(at("channels"), "channels: required; at least one, such as [{channel: email}]"))
	}
	seen := map[notifier.Channel]bool{}
	for i := range c.Channels {
		ch := &c.Channels[i]
		switch ch.Channel {
		case notifier.ChannelAPNs, notifier.ChannelFCM, notifier.ChannelWebPush, notifier.ChannelEmail, notifier.ChannelSMS, notifier.ChannelWebhook:
		default:
			c.bad(at("channels", i, "channel"), "%q is not a channel; allowed: apns, fcm, webpush, email, sms, webhook", ch.Channel)
			continue
		}
		if seen[ch.Channel] {
			c.bad(at("channels", i, "channel"), "%s is there twice; each channel once", ch.Channel)
		}
		seen[ch.Channel] = true
		c.sendTimeout(i, ch)
		c.collapse(i, ch, f.Channels[i].Collapse)
	}
}

func (c *checker) sendTimeout(i int, ch *Channel) {
	path := at("channels", i, "send_timeout")
	usual := sendTimeout(ch.Channel)
	switch {
	case !c.own.Has(path...):
	case ch.SendTimeout <= 0:
		c.bad(path, "must be more than 0")
	case ch.SendTimeout < usual:
		c.warn(path, "%s is shorter than the %s that %s is given: a call that is cut short is an unknown outcome", ch.SendTimeout, usual, ch.Channel)
	}
	if c.own.Has("channels", i, "give_up_after") {
		c.later(at("channels", i, "give_up_after"))
	}
	if !typeName.MatchString(ch.Template) {
		c.bad(at("channels", i, "template"), "%q is not a template's name; allowed: a-z, 0-9 and _", ch.Template)
	}
}

func (c *checker) collapse(i int, ch *Channel, text strictyaml.Text) {
	path := at("channels", i, "collapse")
	if !c.own.Has(path...) {
		return
	}
	ch.where = fmt.Sprintf("%s: %s", c.File, strictyaml.Path(path...))
	t, err := pure.Parse(text.Value, pure.Text)
	if err != nil {
		c.bad(path, "%v", err)
		return
	}
	ch.collapse = t
	if len(t.Uses()) == 0 {
		c.warn(path, "the same for every notification: each replaces the one before, whatever it is about")
	}
	for _, u := range t.Uses() {
		switch d, declared := c.Data[u.Name]; {
		case !declared:
			c.bad(path, "%q is not declared under data; declared: %s", u.Name, listed(c.dataNames()))
		case d.Secret:
			c.bad(path, "%q is secret, and a collapse id is stored and shown", u.Name)
		}
	}
}

func (c *checker) data() {
	for _, name := range c.dataNames() {
		switch {
		case name == perRecipient:
			c.bad(at("data", name), "the name is taken: caps call the recipient so")
		case !dataName.MatchString(name):
			c.bad(at("data", name), "not a name that a template can say; allowed: letters, digits and _, not a digit first")
		}
		if c.Data[name].Code && !c.written("expires_after") {
			c.bad(at("data", name, "code"), "a type with a code must say when it expires: set expires_after")
		}
	}
}

func (c *checker) times() {
	for _, t := range []struct {
		field string
		value time.Duration
	}{{"lease", c.Lease}, {"dedupe_window", c.DedupeWindow}, {"expires_after", c.ExpiresAfter}, {"tombstone", c.Tombstone}} {
		if c.written(t.field) && t.value <= 0 {
			c.bad(at(t.field), "must be more than 0")
		}
	}
}

func (c *checker) retry() {
	r := c.Retry
	if r.Initial <= 0 {
		c.bad(at("retry", "initial"), "must be more than 0")
	}
	if r.Factor < 1 {
		c.bad(at("retry", "factor"), "must be at least 1")
	}
	if r.Max < r.Initial {
		field := "max"
		if !c.written("retry", "max") {
			field = "initial"
		}
		c.bad(at("retry", field), "max %s is less than initial %s", r.Max, r.Initial)
	}
	if r.MaxAttempts < 1 {
		c.bad(at("retry", "max_attempts"), "must be at least 1")
	}
	if c.written("retry", "max_unknown") && r.MaxUnknown < 1 {
		c.bad(at("retry", "max_unknown"), "must be at least 1")
	}
}

// notYet refuses by name what is written and not honoured.
func (c *checker) notYet() {
	switch c.Route {
	case RouteAll:
	case RouteFirst:
		c.bad(at("route"), "first is not supported yet; allowed: all")
	default:
		c.bad(at("route"), "%q is not a route; allowed: all", c.Route)
	}
	switch c.Unknown {
	case notifier.UnknownStop, notifier.UnknownResend, notifier.UnknownLookup, "":
	default:
		c.bad(at("unknown"), "%q is not a rule; allowed: %s", c.Unknown, strings.Join(c.unknownRules(), ", "))
	}
	if c.QuietHours != nil {
		c.later(at("quiet_hours"))
	}
	if c.Unsubscribe {
		c.bad(at("unsubscribe"), "true is not supported yet; allowed: false")
	}
}

func (c *checker) unknownRules() []string {
	if c.Order == notifier.OrderSendFirst {
		return []string{"resend", "lookup", "stop"}
	}
	return []string{"stop", "lookup"}
}
