// Package templates reads the templates of a folder and renders them: what a
// message says on each channel and in each language, as Go templates over the
// request's data.
//
// Templates are pure (see package pure for what they may call): the same data
// gives the same bytes. A variable that is not set may be asked about but not
// printed, so a message is never sent with a hole in it.
//
// Strings are templates wherever they stand; everything else keeps its type. A
// string in a push's data or badge, or in a webhook's body, that is exactly
// one action keeps the type of its result: {{.total}} is the number 3 there,
// {{printf "%d" .total}} the string "3". Text fields are always text.
package templates

import (
	"maps"
	"slices"
	"strings"

	"github.com/seed-4b260dfd/notifier"
	"github.com/seed-4b260dfd/notifier/pure"
)

// Kind is the kind of a template's file: its name without .yaml. It is a
// channel, or push for the channels that show a push.
type Kind string

// KindPush serves apns, fcm and webpush where there is no file of their own.
const KindPush Kind = "push"

// Set is the templates of one folder.
type Set struct {
	// byName is name → locale in lower case, "" for none → kind.
	byName map[string]map[string]map[Kind]*Template
}

// Template is one file: what one type says on one channel in one language.
type Template struct {
	// Name is the folder, usually the message type.
	Name string
	// Locale is the folder below it as it is written; empty: none.
	Locale string
	Kind   Kind
	// File is the path of the file within the file system it was loaded from.
	File string

	shape  shape
	fields []field
	uses   []Use
}

// Use is one place in the file that reads a variable of the data.
type Use struct {
	Name string
	Line int
}

// Names returns the names that have templates, sorted.
func (s *Set) Names() []string { return slices.Sorted(maps.Keys(s.byName)) }

// All returns every template, sorted by file.
func (s *Set) All() []*Template {
	var all []*Template
	for _, locales := range s.byName {
		for _, kinds := range locales {
			all = slices.AppendSeq(all, maps.Values(kinds))
		}
	}
	slices.SortFunc(all, func(a, b *Template) int { return strings.Compare(a.File, b.File) })
	return all
}

// Find returns what serves a channel in a language, or nil. A language falls
// back to the wider one: fr-CA, fr, none. Within a language the channel's own
// file goes before push.yaml.
func (s *Set) Find(name string, ch notifier.Channel, locale string) *Template {
	locales := s.byName[name]
	locale = foldLocale(locale)
	for {
		if t := locales[locale][Kind(ch)]; t != nil {
			return t
		}
		if t := locales[locale][KindPush]; t != nil && t.Serves(ch) {
			return t
		}
		if locale == "" {
			return nil
		}
		locale = locale[:max(strings.LastIndexByte(locale, '-'), 0)]
	}
}

// foldLocale brings fr_CA and FR-ca to fr-ca. A POSIX charset is cut off.
func foldLocale(locale string) string {
	locale, _, _ = strings.Cut(locale, ".")
	return strings.ToLower(strings.ReplaceAll(locale, "_", "-"))
}

// Serves reports whether the template is for the channel.
func (t *Template) Serves(ch notifier.Channel) bool {
	if t.Kind != KindPush {
		return t.Kind == Kind(ch)
	}
	return ch == notifier.ChannelAPNs || ch == notifier.ChannelFCM || ch == notifier.ChannelWebPush
}

// Variables returns the names of the data that the template reads, sorted.
func (t *Template) Variables() []string {
	var names []string
	for _, u := range t.uses {
		names = append(names, u.Name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Uses returns every place in the file that reads a variable, by line.
func (t *Template) Uses() []Use { return t.uses }

// field is one field of the file, parsed.
type field struct {
	rule fieldRule
	node node
}

// node is a value of the file: a *leaf, a []node, a map[string]node, or a
// constant (nil, bool, int64, float64).
type node any

// leaf is a string: a template and where it stands.
type leaf struct {
	template *pure.Template
	// typed says that the template gives JSON: exactly one action.
	typed bool
	// json is what it is when it is text that is meant to be JSON; else nil.
	json   *skeleton
	lineAt func(int) int
}
