package templates

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/mail"
	"slices"
	"strings"
	"unicode"

	"github.com/seed-4b260dfd/notifier"
	"github.com/seed-4b260dfd/notifier/pure"
	"github.com/seed-4b260dfd/notifier/strictyaml"
)

// Render gives the fields of the message: strings rendered, everything else as
// it is in the file. A field that renders to nothing is left out. The error is
// an *notifier.Error with CodeTemplateFailed whose Field names the file and
// the field; it never holds a value of the data.
func (t *Template) Render(data map[string]any) (map[string]any, error) {
	made := make(map[string]any, len(t.fields))
	budget := pure.NewBudget()
	for _, f := range t.fields {
		r := renderer{template: t, data: data, budget: budget}
		v, err := r.value(f.node, []any{f.rule.name})
		if err == nil {
			v, err = f.rule.checked(v)
		}
		if err != nil {
			return nil, t.failed(r.path(f.rule.name), err)
		}
		if v != "" {
			made[f.rule.name] = v
		}
	}
	for _, group := range t.shape.needs {
		says := func(name string) bool { return !blank(made[name]) }
		if !slices.ContainsFunc(group, says) {
			return nil, t.failed(oneOf(group), errors.New("came out empty; an empty message is not sent"))
		}
	}
	return made, nil
}

func (t *Template) failed(field string, err error) error {
	return &notifier.Error{Code: notifier.CodeTemplateFailed, Field: t.File + ": " + field, Message: err.Error()}
}

// blank reports whether a value says nothing: absent, or white space only.
// Numbers, objects, false and null say what they say.
func blank(v any) bool {
	s, isString := v.(string)
	return v == nil || isString && strings.TrimSpace(s) == ""
}

// renderer renders one field.
type renderer struct {
	template *Template
	data     map[string]any
	// budget is shared by all fields of the message.
	budget *pure.Budget
	// at is the path of the value that failed.
	at []any
}

func (r *renderer) path(name string) string {
	if r.at == nil {
		return name
	}
	return strictyaml.Path(r.at...)
}

func (r *renderer) value(n node, path []any) (any, error) {
	switch n := n.(type) {
	case *leaf:
		v, err := r.leaf(n)
		if err != nil {
			r.at = path
		}
		return v, err
	case []node:
		made := make([]any, len(n))
		for i := range n {
			v, err := r.value(n[i], append(path[:len(path):len(path)], i))
			if err != nil {
				return nil, err
			}
			made[i] = v
		}
		return made, nil
	case map[string]node:
		made := make(map[string]any, len(n))
		for _, k := range slices.Sorted(maps.Keys(n)) {
			v, err := r.value(n[k], append(path[:len(path):len(path)], k))
			if err != nil {
				return nil, err
			}
			made[k] = v
		}
		return made, nil
	default:
		return n, nil
	}
}

func (r *renderer) leaf(l *leaf) (any, error) {
	s, err := l.template.RenderWithin(r.budget, r.data)
	var wrong *pure.Error
	if errors.As(err, &wrong) {
		return nil, fmt.Errorf("line %d: %w", l.lineAt(wrong.Line), err)
	}
	if err != nil {
		return nil, err
	}
	if strings.ContainsRune(s, 0) {
		return nil, errors.New("came out with a NUL character")
	}
	if l.json != nil && !l.json.holds(s) {
		return nil, errors.New("is JSON written as text, and came out as something else: a value breaks it; write it as YAML, or escape each value with json")
	}
	if !l.typed {
		return s, nil
	}
	d := json.NewDecoder(strings.NewReader(s))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, errors.New("came out as no JSON value")
	}
	return plainNumbers(v), nil
}

// plainNumbers gives numbers the types that they have when the file holds them.
func plainNumbers(v any) any {
	switch v := v.(type) {
	case json.Number:
		if i, err := v.Int64(); err == nil {
			return i
		}
		if f, err := v.Float64(); err == nil && strings.ContainsAny(v.String(), ".eE") {
			return f
		}
	case []any:
		for i := range v {
			v[i] = plainNumbers(v[i])
		}
	case map[string]any:
		for k := range v {
			v[k] = plainNumbers(v[k])
		}
	}
	return v
}

// checked holds a rendered value to what its field is.
func (rule fieldRule) checked(v any) (any, error) {
	s, _ := v.(string)
	switch rule.kind {
	case line, mailbox:
		if i := strings.IndexFunc(s, unicode.IsControl); i >= 0 {
			return nil, fmt.Errorf("came out with a line break or another control character (%U); this field is one line", []rune(s[i:])[0])
		}
		if rule.kind == mailbox && s != "" {
			if _, err := mail.ParseAddress(s); err != nil {
				return nil, errors.New("did not come out as a mail address")
			}
		}
	case count:
		if i, isWhole := v.(int64); !isWhole || i < 0 {
			return nil, errors.New("did not come out as a whole number from 0 up")
		}
	case text, page, object, anything:
	}
	return v, nil
}
