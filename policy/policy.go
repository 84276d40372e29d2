// Package policy reads the policies of a folder, one file per message type,
// and checks them as a set. A policy says in which order a type records and
// sends, where it goes, how long it is worth sending, how often it is tried
// and how much of it a person may get.
//
// The package is pure: it reads what it is given and asks no clock. A field
// that is not built yet is refused by its name, never accepted and ignored.
package policy

import (
	"time"

	"github.com/seed-4b260dfd/notifier"
	"github.com/seed-4b260dfd/notifier/pure"
	"github.com/seed-4b260dfd/notifier/strictyaml"
)

// Route is what happens to a recipient's further channels.
type Route string

// The routes.
const (
	// RouteAll sends on every channel that the recipient has.
	RouteAll Route = "all"
	// RouteFirst stops at the first channel that is sent. It is not supported yet.
	RouteFirst Route = "first"
)

// Policy is one message type's rules, with every default resolved.
type Policy struct {
	Type string
	// File is the path of the file within the file system it was loaded from.
	File string
	// Version is "sha256:…" over what the policy does. Comments, the order of
	// fields and the description do not change it.
	Version      string
	Description  string
	Order        notifier.Order
	Channels     []Channel
	Route        Route
	Data         map[string]Datum
	Lease        time.Duration
	DedupeWindow time.Duration
	ExpiresAfter time.Duration
	Unknown      notifier.UnknownRule
	RedisDown    notifier.RedisDownRule
	Tombstone    time.Duration
	// Retry has MaxUnknown 0 when it was not written: RetryFor knows the channel's.
	Retry       notifier.Retry
	Caps        []Cap
	QuietHours  *QuietHours
	Priority    notifier.Priority
	Unsubscribe bool

	own, defaults *strictyaml.Document
}

// Channel is one way a type goes out.
type Channel struct {
	Channel notifier.Channel
	// Account is empty for the channel's only one.
	Account string
	// Template is the template's name: the type's unless written.
	Template string
	// Collapse is the template of the collapse id; empty: the effect key is used.
	Collapse string
	// SendTimeout is 0 for the channel's default.
	SendTimeout time.Duration
	// GiveUpAfter is not supported yet.
	GiveUpAfter time.Duration

	collapse *pure.Template
	where    string
}

// Datum is what a policy says of one name in the request's data.
type Datum struct {
	Required bool `yaml:"required" json:"required"`
	Secret   bool `yaml:"secret" json:"secret"`
	// Code makes the datum secret, and wants the type to expire.
	Code bool `yaml:"code" json:"code"`
	// Delta says what changed, not what is: a repeat of it does harm.
	Delta bool `yaml:"delta" json:"delta"`
}

// Cap is a limit per recipient.
type Cap struct {
	Name string
	// Per is "recipient" and the data whose values have a count of their own.
	Per []string
	// On is the channels that share the count; empty: each channel has its own.
	On     []notifier.Channel
	Limit  int
	Window time.Duration
	Then   notifier.CapRule
}

// QuietHours is a window in the recipient's day. It is not supported yet.
type QuietHours struct {
	From string           `yaml:"from" json:"from"`
	To   string           `yaml:"to" json:"to"`
	Zone string           `yaml:"zone" json:"zone"`
	Then notifier.CapRule `yaml:"then" json:"then"`
}

// Problem is a problem with the field at path, on its line: in the type's own
// file, or in the folder's defaults when it was written there only.
func (p *Policy) Problem(path []any, format string, args ...any) strictyaml.Problem {
	if p.fromDefaults(path) {
		problem := p.defaults.Problem(path, format, args...)
		problem.Message += " (as a default of " + p.Type + ")"
		return problem
	}
	return p.own.Problem(path, format, args...)
}

// Warning is Problem for what is allowed and probably not meant.
func (p *Policy) Warning(path []any, format string, args ...any) strictyaml.Problem {
	problem := p.Problem(path, format, args...)
	problem.Warning = true
	return problem
}

func (p *Policy) fromDefaults(path []any) bool {
	return len(path) > 0 && !p.own.Has(path...) && p.defaults.Has(path...)
}

// written reports whether somebody wrote the field, here or in the defaults.
func (p *Policy) written(path ...any) bool {
	return p.own.Has(path...) || p.defaults.Has(path...)
}

// Source says where a field's value comes from: "file:line", or "default".
func (p *Policy) Source(path ...any) string {
	if !p.written(path...) {
		return "default"
	}
	return p.Problem(path, "").Place()
}
