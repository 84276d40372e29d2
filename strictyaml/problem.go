// Package strictyaml reads YAML files written by people and leaves nothing
// unsaid: unknown fields, fields written twice, wrong types, second documents
// and everything else that is wrong are reported together, each with its line
// and with what is allowed there.
//
// It reads less than YAML: anchors, aliases, merge keys and tags are refused.
// A file means what it shows.
package strictyaml

import (
	"cmp"
	"fmt"
	"slices"
)

// Problem is one thing that is wrong with a file.
type Problem struct {
	File    string
	Line    int
	Message string
	// Warning marks what is allowed and probably not meant.
	Warning bool
}

// String returns "file:line: message", as editors and terminals link it; a
// warning says so in front of its message.
func (p Problem) String() string {
	if p.Warning {
		return fmt.Sprintf("%s:%d: warning: %s", p.File, p.Line, p.Message)
	}
	return fmt.Sprintf("%s:%d: %s", p.File, p.Line, p.Message)
}

// Sort orders problems by file, line and message, and drops repeats.
func Sort(problems []Problem) []Problem {
	slices.SortStableFunc(problems, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Message, b.Message))
	})
	return slices.Compact(problems)
}

// Place is "file:line".
func (p Problem) Place() string { return fmt.Sprintf("%s:%d", p.File, p.Line) }
