package pure

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"
	texttemplate "text/template"
)

// own are the functions that we define; some replace the Go ones of the name.
func own() texttemplate.FuncMap {
	return texttemplate.FuncMap{
		"upper":    bounded1(strings.ToUpper),
		"lower":    bounded1(strings.ToLower),
		"trim":     bounded1(strings.TrimSpace),
		"urlquery": bounded1(url.QueryEscape),
		"default":  orDefault,
		"join":     join,
		"printf":   sprintf,
		"json":     toJSON,
		"eq":       equal,
		"ne":       func(a, b any) bool { return !equal(a, b) },
		"lt":       func(a, b any) (bool, error) { return ordered(a, b, func(c int) bool { return c < 0 }) },
		"le":       func(a, b any) (bool, error) { return ordered(a, b, func(c int) bool { return c <= 0 }) },
		"gt":       func(a, b any) (bool, error) { return ordered(a, b, func(c int) bool { return c > 0 }) },
		"ge":       func(a, b any) (bool, error) { return ordered(a, b, func(c int) bool { return c >= 0 }) },
	}
}

// builtin are the functions of text/template that are let through.
var builtin = [...]string{"and", "index", "len", "not", "or", "slice"}

// Functions lists what a template may call, sorted:
//
//	upper s, lower s, trim s   letters; white space at both ends away
//	default d v                v, or d when v is absent or empty: {{.name | default "friend"}}
//	join sep list              the list's items with sep between
//	printf format v…           as in Go; the format is bounded
//	urlquery s                 escaped for a URL's query
//	json v                     the value as JSON
//	eq a b… ne lt le gt ge     numbers compare as numbers, whatever their form
//	and or not len index slice as in text/template
func Functions() []string {
	names := slices.Clone(builtin[:])
	for n := range own() {
		names = append(names, n)
	}
	slices.Sort(names)
	return names
}

func allowed(name string) bool { return slices.Contains(Functions(), name) }

func functions() texttemplate.FuncMap {
	f := own()
	f[printFunc], f[jsonFunc] = printed, printedJSON
	return f
}

// bounded1 keeps values from growing without printing: {{$x = urlquery $x}} in
// a loop would otherwise.
func bounded1(f func(string) string) func(any) (string, error) {
	return func(v any) (string, error) {
		s, err := plainText(v)
		if err != nil {
			return "", err
		}
		return short(f(s))
	}
}

func short(s string) (string, error) {
	if len(s) > MaxOutput {
		return "", errTooLong
	}
	return s, nil
}

func orDefault(d, v any) any {
	switch v := v.(type) {
	case nil:
		return d
	case string:
		if v == "" {
			return d
		}
	case []any:
		if len(v) == 0 {
			return d
		}
	}
	return v
}

func join(sep string, list any) (string, error) {
	items, ok := list.([]any)
	if !ok {
		return "", errors.New("join wants a list")
	}
	parts := make([]string, len(items))
	total := 0
	for i, item := range items {
		s, err := plainText(item)
		if err != nil {
			return "", err
		}
		if total += len(s) + len(sep); total > MaxOutput {
			return "", errTooLong
		}
		parts[i] = s
	}
	return strings.Join(parts, sep), nil
}

// sprintf is fmt.Sprintf for values that are there and widths that are sane.
func sprintf(format string, args ...any) (string, error) {
	digits := 0
	for _, c := range format {
		if digits++; c < '0' || c > '9' {
			digits = 0
		}
		if digits > 3 || c == '*' {
			return "", errors.New("printf takes no width over 999 and no *")
		}
	}
	total, marked := len(format), strings.Contains(format, "%!")
	for i, a := range args {
		text, err := plainText(a)
		if err != nil {
			return "", fmt.Errorf("value %d of printf %w", i+1, err)
		}
		total += len(text)
		marked = marked || strings.Contains(text, "%!")
	}
	if total > MaxOutput {
		return "", errTooLong
	}
	s := fmt.Sprintf(format, args...)
	if !marked && strings.Contains(s, "%!") {
		return "", errors.New("printf has a verb without its value, or a value without its verb")
	}
	return short(s)
}

func toJSON(v any) (string, error) {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return "", errors.New("the value is not JSON")
	}
	return short(strings.TrimSuffix(b.String(), "\n"))
}

// printed is what every action's value goes through on its way out.
func printed(source string, v any) (any, error) {
	switch v := v.(type) {
	case string, bool:
		return v, nil
	}
	s, err := plainText(v)
	if err != nil {
		return nil, fmt.Errorf("%s %w", source, err)
	}
	return s, nil
}

func printedJSON(source string, v any) (string, error) {
	if v == nil {
		return "", fmt.Errorf("%s %w", source, errNotSet)
	}
	return toJSON(v)
}

var errNotSet = errors.New("is not set")

// plainText writes a value as a reader expects it: numbers as JSON has them.
func plainText(v any) (string, error) {
	switch v := v.(type) {
	case nil:
		return "", errNotSet
	case string:
		return v, nil
	case bool:
		return strconv.FormatBool(v), nil
	case int:
		return strconv.Itoa(v), nil
	case int64:
		return strconv.FormatInt(v, 10), nil
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64), nil
	case json.Number:
		return v.String(), nil
	case []any:
		return "", errors.New("is a list; use range, join or json")
	case map[string]any:
		return "", errors.New("is an object; name one of its fields, or use json")
	default:
		return "", fmt.Errorf("is of the type %T, which cannot be printed", v)
	}
}

// normal gives each number one form, whoever decoded the JSON: int64 where it
// is whole and fits, float64 otherwise, and the digits as they are beyond that.
func normal(v any) any {
	switch v := v.(type) {
	case json.Number:
		if i, err := v.Int64(); err == nil {
			return i
		}
		if f, err := v.Float64(); err == nil && strings.ContainsAny(v.String(), ".eE") {
			return normal(f)
		}
		return v
	case int:
		return int64(v)
	case float64:
		if v == math.Trunc(v) && math.Abs(v) < 1<<53 {
			return int64(v)
		}
		return v
	case []any:
		made := make([]any, len(v))
		for i := range v {
			made[i] = normal(v[i])
		}
		return made
	case map[string]any:
		made := make(map[string]any, len(v))
		for k := range v {
			made[k] = normal(v[k])
		}
		return made
	default:
		return v
	}
}
