package templates

import (
	"reflect"
	"strings"

	"github.com/seed-4b260dfd/notifier"
	"github.com/seed-4b260dfd/notifier/pure"
	"github.com/seed-4b260dfd/notifier/strictyaml"
)

// fieldKind is what a field holds.
type fieldKind uint8

const (
	// line is text that ends up in a header or on one line: no control
	// characters, so that data cannot add a header of its own.
	line fieldKind = iota
	// mailbox is a line that is one mail address, with or without a name.
	mailbox
	// text has lines.
	text
	// page is HTML.
	page
	// count is a whole number.
	count
	// object is a JSON object.
	object
	// anything is any JSON.
	anything
)

type fieldRule struct {
	name string
	kind fieldKind
}

// form is how the strings of a field are rendered, and whether a string of one
// action keeps the type of its result.
func (r fieldRule) form() (form pure.Form, typed bool) {
	switch r.kind {
	case page:
		return pure.HTML, false
	case count, object, anything:
		return pure.Text, true
	case line, mailbox, text:
		return pure.Text, false
	default:
		return pure.Text, false
	}
}

// shape is what a kind of file may hold, and what it must not be without.
type shape struct {
	fields []fieldRule
	// needs lists groups of fields; one of each must be there and say something.
	needs [][]string
	// into makes the struct that the file is decoded into.
	into func() any
}

type pushFile struct {
	Title    *strictyaml.Text `yaml:"title"`
	Body     *strictyaml.Text `yaml:"body"`
	Subtitle *strictyaml.Text `yaml:"subtitle"`
	Sound    *strictyaml.Text `yaml:"sound"`
	Badge    *strictyaml.Tree `yaml:"badge"`
	Image    *strictyaml.Text `yaml:"image"`
	URL      *strictyaml.Text `yaml:"url"`
	Data     *strictyaml.Tree `yaml:"data"`
}

type emailFile struct {
	Subject *strictyaml.Text `yaml:"subject"`
	Text    *strictyaml.Text `yaml:"text"`
	HTML    *strictyaml.Text `yaml:"html"`
	From    *strictyaml.Text `yaml:"from"`
	ReplyTo *strictyaml.Text `yaml:"reply_to"`
}

type smsFile struct {
	Text *strictyaml.Text `yaml:"text"`
}

type webhookFile struct {
	Body *strictyaml.Tree `yaml:"body"`
}

// shapeOf returns the shape of a kind of file; ok is false when there is no such kind.
func shapeOf(k Kind) (s shape, ok bool) {
	switch k {
	case KindPush, Kind(notifier.ChannelAPNs), Kind(notifier.ChannelFCM), Kind(notifier.ChannelWebPush):
		return shape{
			fields: []fieldRule{{"title", line}, {"body", text}, {"subtitle", line}, {"sound", line}, {"badge", count},
				{"image", line}, {"url", line}, {"data", object}},
			needs: [][]string{{"title", "body"}},
			into:  func() any { return &pushFile{} },
		}, true
	case Kind(notifier.ChannelEmail):
		return shape{
			fields: []fieldRule{{"subject", line}, {"text", text}, {"html", page}, {"from", mailbox}, {"reply_to", mailbox}},
			needs:  [][]string{{"subject"}, {"text", "html"}},
			into:   func() any { return &emailFile{} },
		}, true
	case Kind(notifier.ChannelSMS):
		return shape{fields: []fieldRule{{"text", text}}, needs: [][]string{{"text"}}, into: func() any { return &smsFile{} }}, true
	case Kind(notifier.ChannelWebhook):
		return shape{fields: []fieldRule{{"body", anything}}, needs: [][]string{{"body"}}, into: func() any { return &webhookFile{} }}, true
	default:
		return shape{}, false
	}
}

// values returns what a decoded file holds, by field: a strictyaml.Text or
// what a strictyaml.Tree has at its root.
func values(file any) map[string]any {
	held := map[string]any{}
	v := reflect.ValueOf(file).Elem()
	for i := range v.NumField() {
		name := v.Type().Field(i).Tag.Get("yaml")
		switch f := v.Field(i).Interface().(type) {
		case *strictyaml.Text:
			if f != nil {
				held[name] = *f
			}
		case *strictyaml.Tree:
			if f != nil {
				held[name] = f.Root
			}
		}
	}
	return held
}

func oneOf(group []string) string { return strings.Join(group, " or ") }
