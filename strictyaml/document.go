package strictyaml

import (
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Document is a file that was read: it knows the line of each field.
type Document struct {
	file string
	// root is nil when the file has no content.
	root *yaml.Node
}

// File is the name under which the document was read.
func (d *Document) File() string { return d.file }

// Empty reports whether nothing could be read: the file has no content, or is
// not YAML.
func (d *Document) Empty() bool { return d.root == nil }

// Has reports whether the field at path was written, with whatever value.
func (d *Document) Has(path ...any) bool {
	_, depth := d.find(path)
	return depth == len(path)
}

// Line is the line of the field at path, or of the nearest parent that was
// written; 1 when there is none.
func (d *Document) Line(path ...any) int {
	line, _ := d.find(path)
	return line
}

// Problem is a problem with the field at path: its line is that of the field,
// or of the nearest parent that was written.
func (d *Document) Problem(path []any, format string, args ...any) Problem {
	return Problem{File: d.file, Line: d.Line(path...), Message: fmt.Sprintf(format, args...)}
}

// Warning is Problem for what is allowed and probably not meant.
func (d *Document) Warning(path []any, format string, args ...any) Problem {
	p := d.Problem(path, format, args...)
	p.Warning = true
	return p
}

// find follows path as far as it was written and returns the line there and
// how many steps were found.
func (d *Document) find(path []any) (line, depth int) {
	if d.root == nil {
		return 1, 0
	}
	n := d.root
	line = n.Line
	for _, step := range path {
		at, next := child(n, step)
		if next == nil {
			return line, depth
		}
		n, line = next, at
		depth++
	}
	return line, depth
}

// child returns the node under a key or index, and the line a reader looks at:
// the key's, because a value may begin further down.
func child(n *yaml.Node, step any) (line int, found *yaml.Node) {
	switch step := step.(type) {
	case string:
		if n.Kind != yaml.MappingNode {
			return 0, nil
		}
		for i := 0; i+1 < len(n.Content); i += 2 {
			if n.Content[i].Value == step {
				return n.Content[i].Line, n.Content[i+1]
			}
		}
	case int:
		if n.Kind == yaml.SequenceNode && step >= 0 && step < len(n.Content) {
			return n.Content[step].Line, n.Content[step]
		}
	}
	return 0, nil
}

// Path writes a path as people do: channels[0].template.
func Path(path ...any) string {
	var b strings.Builder
	for _, step := range path {
		switch step := step.(type) {
		case int:
			fmt.Fprintf(&b, "[%d]", step)
		default:
			if b.Len() > 0 {
				b.WriteByte('.')
			}
			fmt.Fprint(&b, step)
		}
	}
	return b.String()
}
