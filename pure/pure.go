// Package pure is Go templates that are functions of their data alone: no
// clock, no randomness, no counters, no files, and always an end. The same
// template over the same data gives the same bytes, today and in a repeat next
// week.
//
// What a template may call is closed (see Functions); define, template, block
// and call are refused, loops are counted and the output is bounded. A value
// that is absent may be asked about (if, with, default) but never printed.
package pure

import (
	"bytes"
	"errors"
	"fmt"
	htmltemplate "html/template"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	texttemplate "text/template"
	"text/template/parse"
	"unicode/utf8"
)

const (
	// MaxOutput is the longest text, in bytes, that a template may give.
	MaxOutput = 1 << 20
	// maxSteps bounds the loops of one budget.
	maxSteps = 100_000
)

// Form is what a template's output is.
type Form uint8

const (
	// Text is written as it is.
	Text Form = iota
	// HTML is escaped by where in the page a value stands.
	HTML
	// JSON is for a template of exactly one action: its result as JSON, with its type.
	JSON
)

// Use is one place in a template that reads a variable of the data.
type Use struct {
	Name string
	// Line is the line in the template, counted from 1.
	Line int
}

// Error is what is wrong with a template, or with rendering it.
type Error struct {
	// Line is the line in the template, counted from 1.
	Line    int
	Message string
}

// Error returns the message.
func (e *Error) Error() string { return e.Message }

// Template is a parsed template. It is safe for concurrent use.
type Template struct {
	execute func(io.Writer, any) error
	uses    []Use
	names   []string
	single  bool
	lines   []int
}

// name is the name under which the Go packages know a template; it shows in
// their messages and is cut out of ours.
const name = "t"

// Parse reads a template. The error is an *Error.
func Parse(text string, form Form) (*Template, error) {
	if !utf8.ValidString(text) {
		return nil, &Error{Line: 1, Message: "the template is not valid UTF-8"}
	}
	parsed, err := texttemplate.New(name).Funcs(functions()).Parse(text)
	if err != nil {
		return nil, parseError(err)
	}
	if parsed.Tree == nil || parsed.Root == nil {
		return &Template{execute: func(io.Writer, any) error { return nil }}, nil
	}
	if len(parsed.Templates()) > 1 {
		return nil, &Error{Line: 1, Message: "define and block are not allowed: a template is one piece"}
	}
	w := &walker{text: text, json: form == JSON}
	w.list(parsed.Root, true)
	if w.err != nil {
		return nil, w.err
	}
	t := &Template{uses: w.uses, single: singleAction(parsed.Root), lines: w.newlines}
	for _, u := range w.uses {
		t.names = append(t.names, u.Name)
	}
	slices.Sort(t.names)
	t.names = slices.Compact(t.names)
	parsed.Option("missingkey=error")
	t.execute = parsed.Execute
	if form == HTML {
		t.execute, err = escaped(parsed.Tree)
	}
	return t, err
}

// escaped hands the tree to html/template and makes it escape now, so that a
// page it cannot escape is found when it is loaded.
func escaped(tree *parse.Tree) (func(io.Writer, any) error, error) {
	page, err := htmltemplate.New(name).Funcs(functions()).AddParseTree(name, tree)
	if err != nil {
		return nil, parseError(err)
	}
	page.Option("missingkey=error")
	var wrong *htmltemplate.Error
	if err := page.Execute(io.Discard, map[string]any{}); errors.As(err, &wrong) {
		if wrong.ErrorCode == htmltemplate.ErrEndContext {
			return nil, &Error{Line: max(wrong.Line, 1), Message: "the page ends inside a tag, an attribute, a script or a style"}
		}
		return nil, &Error{Line: max(wrong.Line, 1), Message: wrong.Description}
	}
	return page.Execute, nil
}

// Uses returns every place that reads a variable, in the order of the text.
func (t *Template) Uses() []Use { return t.uses }

// Single reports whether the template is exactly one action and nothing else.
func (t *Template) Single() bool { return t.single }

// Lines returns the lines whose plain text has a line break.
func (t *Template) Lines() []int { return t.lines }

// Budget is what renderings may still use: bytes of output and steps. One that
// is handed to several templates bounds them together.
type Budget struct{ bytes, steps int }

// NewBudget returns a budget of MaxOutput bytes and the steps of one message.
func NewBudget() *Budget { return &Budget{bytes: MaxOutput, steps: maxSteps} }

// Render gives the template's text over data, within a budget of its own.
func (t *Template) Render(data map[string]any) (string, error) {
	return t.RenderWithin(NewBudget(), data)
}

// RenderWithin gives the template's text over data and takes what it uses off
// the budget. Of the data it sees the variables that it names. The error is an
// *Error.
func (t *Template) RenderWithin(budget *Budget, data map[string]any) (string, error) {
	seen := make(map[string]any, len(t.names))
	for _, n := range t.names {
		seen[n] = normal(data[n])
	}
	out := bounded{budget: budget}
	if err := t.execute(&out, seen); err != nil {
		return "", renderError(err)
	}
	if !utf8.Valid(out.buf.Bytes()) {
		return "", &Error{Line: 1, Message: "the result is not valid UTF-8: slice cuts bytes, not letters"}
	}
	return out.buf.String(), nil
}

var (
	errTooLong  = fmt.Errorf("the result is longer than %d bytes", MaxOutput)
	errTooMany  = fmt.Errorf("the template takes more than %d steps", maxSteps)
	parseMsg    = regexp.MustCompile(`^(?:html/)?template: ` + name + `:(\d+)(?::\d+)?: (.*)`)
	renderMsg   = regexp.MustCompile(`(?s)^template: ` + name + `:(\d+)(?::\d+)?: executing ".*?" at <(.*?)>: (.*)$`)
	callMsg     = regexp.MustCompile(`(?s)^error calling \S+: (.*)$`)
	notDefined  = regexp.MustCompile(`^function "(.*)" not defined$`)
	startedAt   = regexp.MustCompile(` started at ` + name + `:(\d+)`)
	hiddenCalls = regexp.MustCompile(`^_`)
)

// bounded is where a template writes. Every turn of a loop writes at least
// nothing (see walker), so counting writes bounds the loops as well.
type bounded struct {
	buf    bytes.Buffer
	budget *Budget
}

func (b *bounded) Write(p []byte) (int, error) {
	if b.budget.steps--; b.budget.steps < 0 {
		return 0, errTooMany
	}
	if b.budget.bytes -= len(p); b.budget.bytes < 0 {
		return 0, errTooLong
	}
	return b.buf.Write(p)
}

func parseError(err error) *Error {
	m := parseMsg.FindStringSubmatch(err.Error())
	if m == nil {
		return &Error{Line: 1, Message: err.Error()}
	}
	line, _ := strconv.Atoi(m[1])
	message := m[2]
	if at := startedAt.FindStringSubmatch(message); at != nil {
		// Where it began says more than where the text ended.
		line, _ = strconv.Atoi(at[1])
		message = strings.Replace(message, at[0], "", 1)
	}
	if f := notDefined.FindStringSubmatch(message); f != nil {
		message = notAllowed(f[1])
	}
	return &Error{Line: line, Message: message}
}

func notAllowed(function string) string {
	return fmt.Sprintf("there is no function %q here; allowed: %s", function, strings.Join(Functions(), ", "))
}

// renderError turns what text/template says into one short line. It names
// variables, never their values: the line goes back to the caller and into logs.
func renderError(err error) *Error {
	m := renderMsg.FindStringSubmatch(err.Error())
	if m == nil {
		return &Error{Line: 1, Message: err.Error()}
	}
	line, _ := strconv.Atoi(m[1])
	message := m[3]
	if c := callMsg.FindStringSubmatch(message); c != nil {
		message = c[1]
	}
	if strings.HasPrefix(message, "range can't iterate over") {
		message = "range wants a list" // the library's message goes on with the value
	}
	if !hiddenCalls.MatchString(m[2]) {
		message = m[2] + ": " + message
	}
	return &Error{Line: line, Message: message}
}
