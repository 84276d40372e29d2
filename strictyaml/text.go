package strictyaml

import "go.yaml.in/yaml/v3"

// Text is a string that remembers where it stands, for what is itself a
// program with lines, such as a template.
type Text struct {
	Value string
	// Line is the line of the text's first line.
	Line    int
	literal bool
}

// LineAt is the line in the file of the text's n-th line, counted from 1. Only
// a literal block ("|") keeps its lines; of the other forms it is the line on
// which the text begins.
func (t Text) LineAt(n int) int {
	if t.literal {
		return t.Line + n - 1
	}
	return t.Line
}

func newText(n *yaml.Node) Text {
	t := Text{Value: n.Value, Line: n.Line}
	if n.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0 {
		// The node begins at its indicator, the text below it.
		t.Line++
		t.literal = n.Style&yaml.LiteralStyle != 0
	}
	return t
}

// Tree is a value of any shape that JSON has: Root is nil, a bool, an int64, a
// float64, a Text, a []any or a map[string]any of these.
type Tree struct{ Root any }
