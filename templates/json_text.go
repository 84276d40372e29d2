package templates

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
)

// A webhook's body, and the data of a push message, may be any JSON, which the
// file spells out as YAML: each value is then written as JSON by itself, and
// none can end its string early. Some write the JSON as text all the same. That
// is sent as one JSON string, and a value with a quote in it breaks what the
// receiver is to read there: such text is held to being JSON once more when it
// is rendered.

var action = regexp.MustCompile(`(?s)\{\{-?.*?-?\}\}`)

// jsonText is the document that a text of JSON is without its values; nil: the
// text is not meant to be JSON.
func jsonText(s string) *skeleton {
	s = strings.TrimSpace(s)
	if !strings.HasPrefix(s, "[") && (!strings.HasPrefix(s, "{") || strings.HasPrefix(s, "{{")) || !strings.Contains(s, `"`) {
		return nil
	}
	// An action stands for a value, or within a string for some of its text.
	k := &skeleton{fixed: !control.MatchString(s)}
	if json.Unmarshal([]byte(action.ReplaceAllString(control.ReplaceAllString(s, ""), placeholder)), &k.root) != nil {
		return nil
	}
	k.fixed = k.fixed && !named(k.root)
	return k
}

// placeholder stands for what an action prints: a number, since that may stand
// within a string as well.
const placeholder = "7023916458"

// named reports whether a name of a document is an action's.
func named(v any) bool {
	switch v := v.(type) {
	case map[string]any:
		for name := range v {
			if strings.Contains(name, placeholder) || named(v[name]) {
				return true
			}
		}
	case []any:
		return slices.ContainsFunc(v, named)
	}
	return false
}

// skeleton is a document whose numbers may be anything.
type skeleton struct {
	root any
	// fixed says that no action adds to the document, or leaves some of it out.
	fixed bool
}

// holds reports whether a rendered text is the document with values in it.
func (k *skeleton) holds(s string) bool {
	var v any
	return json.Unmarshal([]byte(s), &v) == nil && (!k.fixed || alike(k.root, v))
}

func alike(want, got any) bool {
	switch want := want.(type) {
	case map[string]any:
		got, ok := got.(map[string]any)
		if !ok || len(got) != len(want) {
			return false
		}
		for name := range want {
			v, ok := got[name]
			if !ok || !alike(want[name], v) {
				return false
			}
		}
		return true
	case []any:
		got, ok := got.([]any)
		if !ok || len(got) != len(want) {
			return false
		}
		for i := range want {
			if !alike(want[i], got[i]) {
				return false
			}
		}
		return true
	case string:
		_, ok := got.(string)
		return ok
	default:
		return true
	}
}

// control are actions that print nothing themselves.
var control = regexp.MustCompile(`(?s)\{\{-?\s*(if|else|end|range|with|/\*).*?-?\}\}`)

// unescaped returns where a text of JSON has its first action that does not
// escape what it prints: the text before it. ok is false when all do.
func unescaped(s string) (before string, ok bool) {
	for _, at := range action.FindAllStringIndex(s, -1) {
		if a := s[at[0]:at[1]]; !control.MatchString(a) && !escapes.MatchString(a) {
			return s[:at[0]], true
		}
	}
	return "", false
}

// escapes is an action that ends in the function json, called or piped into.
var escapes = regexp.MustCompile(`\{\{-?\s*json\s|\|\s*json\s*-?\}\}`)
