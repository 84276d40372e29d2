package policy

import (
	"slices"

	"github.com/seed-4b260dfd/notifier"
	"github.com/seed-4b260dfd/notifier/strictyaml"
)

func (c *checker) caps(f *file) {
	seen := map[string]bool{}
	for i, written := range f.Caps {
		limit := c.Caps[i]
		switch {
		case limit.Name == "":
			c.bad(at("caps", i, "name"), "required")
		case !capName.MatchString(limit.Name):
			c.bad(at("caps", i, "name"), "%q is not a cap's name; allowed: a-z, 0-9, - and _, at most 64", limit.Name)
		case seen[limit.Name]:
			c.bad(at("caps", i, "name"), "%q is there twice; each cap has a name of its own", limit.Name)
		}
		seen[limit.Name] = true
		c.capScope(i, written)
		c.capChannels(i, limit)
		if limit.Limit < 1 {
			c.bad(at("caps", i, "limit"), "must be at least 1")
		}
		if limit.Window <= 0 {
			c.bad(at("caps", i, "window"), "must be more than 0")
		}
		if limit.Then != notifier.CapSuppress && limit.Then != notifier.CapDefer {
			c.bad(at("caps", i, "then"), "%q is not a rule; allowed: suppress, defer", limit.Then)
		}
	}
}

// capScope checks "per". A value that may be absent, or that must not be
// shown, is no scope: the one lumps strangers together, the other leaks.
func (c *checker) capScope(i int, written fileCap) {
	path := at("caps", i, "per")
	if len(written.Per) > 0 && !slices.Contains(written.Per, perRecipient) {
		c.bad(path, "recipient is missing: a cap counts what one person gets")
	}
	for j, name := range written.Per {
		path := at("caps", i, "per", j)
		d, declared := c.Data[name]
		switch {
		case slices.Contains(written.Per[:j], name):
			c.bad(path, "%q is there twice", name)
		case name == perRecipient:
		case !declared:
			c.bad(path, "%q is not declared under data; allowed: %s", name, listed(append([]string{perRecipient}, c.dataNames()...)))
		case d.Secret:
			c.bad(path, "%q is secret, and the scope of a cap is stored", name)
		case !d.Required:
			c.bad(path, "%q is not required: requests without it would share one count; add required: true to it", name)
		}
	}
}

func (c *checker) capChannels(i int, limit Cap) {
	for j, ch := range limit.On {
		uses := func(x Channel) bool { return x.Channel == ch }
		switch {
		case !slices.Contains(notifier.Channels[:], ch):
			c.bad(at("caps", i, "on"), "%q is not a channel; allowed: apns, fcm, webpush, email, sms, webhook", ch)
		case j > 0 && limit.On[j-1] == ch:
			c.bad(at("caps", i, "on"), "%s is there twice", ch)
		case c.own.Has("caps") && !slices.ContainsFunc(c.Channels, uses):
			c.warn(at("caps", i, "on"), "the type does not go out on %s", ch)
		}
	}
}

// checkShared holds types that share a cap by its name to the same count.
func (s *Set) checkShared() []strictyaml.Problem {
	type first struct {
		policy *Policy
		cap    Cap
	}
	seen := map[string]first{}
	var problems []strictyaml.Problem
	for _, typ := range s.Types() {
		p := s.byType[typ]
		for i, c := range p.Caps {
			f, known := seen[c.Name]
			if !known {
				seen[c.Name] = first{p, c}
				continue
			}
			if f.policy == p {
				continue
			}
			if differs := difference(f.cap, c); differs != "" {
				problems = append(problems, p.Problem(at("caps", i), "caps[%d]: the cap %q is shared with %s, where its %s differs; make them equal, or rename one",
					i, c.Name, f.policy.File, differs))
			}
		}
	}
	return problems
}

func difference(a, b Cap) string {
	switch {
	case a.Limit != b.Limit:
		return "limit"
	case a.Window != b.Window:
		return "window"
	case !slices.Equal(a.Per, b.Per):
		return "per"
	case (len(a.On) == 0) != (len(b.On) == 0):
		return "on (channels counted together, or each by itself)"
	default:
		return ""
	}
}
