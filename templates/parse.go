package templates

import (
	"fmt"
	"maps"
	"net/mail"
	"slices"
	"strings"

	"github.com/seed-4b260dfd/notifier/pure"
	"github.com/seed-4b260dfd/notifier/strictyaml"
)

// parser turns the values of one file into templates.
type parser struct {
	doc      *strictyaml.Document
	problems []strictyaml.Problem
	uses     []Use
}

func (p *parser) bad(lineNo int, path []any, format string, args ...any) {
	p.problems = append(p.problems, strictyaml.Problem{File: p.doc.File(), Line: lineNo,
		Message: strictyaml.Path(path...) + ": " + fmt.Sprintf(format, args...)})
}

const notACount = `must be a whole number, or a template that gives one, such as "{{.unread}}"`

// field parses one field; ok is false when there is a problem with it.
func (p *parser) field(rule fieldRule, v any) (n node, ok bool) {
	before, path := p.mistakes(), []any{rule.name}
	switch rule.kind {
	case count:
		switch v := v.(type) {
		case strictyaml.Text:
			if !strings.Contains(v.Value, "{{") {
				p.bad(p.doc.Line(path...), path, notACount)
			}
		case int64:
			if v < 0 {
				p.bad(p.doc.Line(path...), path, "must not be negative")
			}
		default:
			p.bad(p.doc.Line(path...), path, notACount)
		}
	case object:
		if _, isObject := v.(map[string]any); !isObject {
			p.bad(p.doc.Line(path...), path, "must be a mapping of names to values")
		}
	case anything:
		if v == nil {
			p.bad(p.doc.Line(path...), path, "has no value")
		}
	case line, mailbox, text, page:
	}
	if p.mistakes() == before {
		n = p.node(rule, v, path)
	}
	return n, p.mistakes() == before
}

// mistakes is how many problems there are that are no warnings.
func (p *parser) mistakes() (n int) {
	for i := range p.problems {
		if !p.problems[i].Warning {
			n++
		}
	}
	return n
}

func (p *parser) node(rule fieldRule, v any, path []any) node {
	switch v := v.(type) {
	case strictyaml.Text:
		return p.leaf(rule, v, path)
	case []any:
		made := make([]node, len(v))
		for i := range v {
			made[i] = p.node(rule, v[i], append(path[:len(path):len(path)], i))
		}
		return made
	case map[string]any:
		made := make(map[string]node, len(v))
		for _, k := range slices.Sorted(maps.Keys(v)) {
			path := append(path[:len(path):len(path)], k)
			if strings.Contains(k, "{{") {
				p.bad(p.doc.Line(path...), path, "a key is not a template; only values are")
				continue
			}
			made[k] = p.node(rule, v[k], path)
		}
		return made
	default:
		return v
	}
}

func (p *parser) leaf(rule fieldRule, v strictyaml.Text, path []any) *leaf {
	form, typed := rule.form()
	if rule.kind == line || rule.kind == mailbox {
		// A block ends in a line break that nobody means.
		v.Value = strings.TrimRight(v.Value, "\n")
	}
	t, err := parseAs(v.Value, form, typed)
	if err != nil {
		at := 1
		if e, ok := err.(*pure.Error); ok {
			at = e.Line
		}
		p.bad(v.LineAt(at), path, "%v", err)
		return nil
	}
	for _, u := range t.Uses() {
		p.uses = append(p.uses, Use{Name: u.Name, Line: v.LineAt(u.Line)})
	}
	if lines := t.Lines(); len(lines) > 0 && (rule.kind == line || rule.kind == mailbox) {
		p.bad(v.LineAt(lines[0]), path, "must be one line; use >- to break it in the file")
	}
	if strings.ContainsRune(v.Value, 0) {
		p.bad(v.LineAt(1), path, "has a NUL character")
	}
	if rule.kind == mailbox && !strings.Contains(v.Value, "{{") {
		if _, err := mail.ParseAddress(v.Value); err != nil {
			p.bad(v.LineAt(1), path, `%q is not a mail address; write one such as "Shop <no-reply@example.com>"`, v.Value)
		}
	}
	var asJSON *skeleton
	if typed && !t.Single() {
		if asJSON = jsonText(v.Value); asJSON != nil {
			p.mindJSON(v, path)
		}
	}
	return &leaf{template: t, typed: typed && t.Single(), json: asJSON, lineAt: v.LineAt}
}

// mindJSON warns of JSON that is written as text.
func (p *parser) mindJSON(v strictyaml.Text, path []any) {
	at, message := v.LineAt(1), "is JSON written as text, which is sent as one string; write it as YAML"
	if before, found := unescaped(v.Value); found {
		at = v.LineAt(1 + strings.Count(before, "\n"))
		message += `; and a value with a quote in it breaks it: written as YAML every value is escaped, in text say {{json .x}}`
	}
	p.problems = append(p.problems, strictyaml.Problem{File: p.doc.File(), Line: at, Warning: true,
		Message: strictyaml.Path(path...) + ": " + message})
}

// parseAs parses a string; one that is a single action becomes JSON where
// types are kept.
func parseAs(s string, form pure.Form, typed bool) (*pure.Template, error) {
	t, err := pure.Parse(s, form)
	if err == nil && typed && t.Single() {
		return pure.Parse(s, pure.JSON)
	}
	return t, err
}
