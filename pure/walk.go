package pure

import (
	"fmt"
	"strings"
	"text/template/parse"
)

// The functions that the walker adds to every action that prints. Authors
// cannot call them: a name that begins with "_" is refused.
const (
	printFunc = "_print"
	jsonFunc  = "_json"
)

// walker goes over a parsed template once. It refuses what is not pure, notes
// which variables of the data are read and where, makes every loop countable
// and every print checked.
type walker struct {
	text     string
	json     bool
	uses     []Use
	newlines []int
	err      *Error
}

func (w *walker) line(n parse.Node) int {
	at := min(int(n.Position()), len(w.text))
	return 1 + strings.Count(w.text[:at], "\n")
}

func (w *walker) refuse(n parse.Node, format string, args ...any) {
	if w.err == nil {
		w.err = &Error{Line: w.line(n), Message: fmt.Sprintf(format, args...)}
	}
}

// list walks a list; root says that the dot is the data itself.
func (w *walker) list(l *parse.ListNode, root bool) {
	if l == nil {
		return
	}
	for _, n := range l.Nodes {
		switch n := n.(type) {
		case *parse.TextNode:
			if strings.ContainsAny(string(n.Text), "\n\r") {
				w.newlines = append(w.newlines, w.line(n))
			}
		case *parse.ActionNode:
			w.pipe(n.Pipe, root)
			w.check(n)
		case *parse.IfNode:
			w.branch(&n.BranchNode, root, root)
		case *parse.WithNode:
			w.branch(&n.BranchNode, root, false)
		case *parse.RangeNode:
			w.branch(&n.BranchNode, root, false)
			// An empty text is written on every turn: the writer counts it.
			n.List.Nodes = append([]parse.Node{&parse.TextNode{NodeType: parse.NodeText, Pos: n.Pos}}, n.List.Nodes...)
		case *parse.BreakNode, *parse.ContinueNode, *parse.CommentNode:
		default:
			w.refuse(n, "%s is not allowed: a template is one piece", n)
		}
	}
}

func (w *walker) branch(b *parse.BranchNode, root, inside bool) {
	w.pipe(b.Pipe, root)
	w.list(b.List, inside)
	w.list(b.ElseList, root)
}

// check appends the checked print to an action that prints.
func (w *walker) check(n *parse.ActionNode) {
	if len(n.Pipe.Decl) > 0 {
		return
	}
	f := printFunc
	if w.json {
		f = jsonFunc
	}
	source := n.Pipe.String()
	n.Pipe.Cmds = append(n.Pipe.Cmds, &parse.CommandNode{NodeType: parse.NodeCommand, Pos: n.Pos, Args: []parse.Node{
		parse.NewIdentifier(f).SetPos(n.Pos),
		&parse.StringNode{NodeType: parse.NodeString, Pos: n.Pos, Quoted: fmt.Sprintf("%q", source), Text: source},
	}})
}

func (w *walker) pipe(p *parse.PipeNode, root bool) {
	if p == nil {
		return
	}
	for _, c := range p.Cmds {
		for _, a := range c.Args {
			w.arg(a, root)
		}
	}
}

func (w *walker) arg(n parse.Node, root bool) {
	switch n := n.(type) {
	case *parse.FieldNode:
		if root {
			w.use(n, n.Ident[0])
		}
	case *parse.VariableNode:
		switch {
		case n.Ident[0] != "$":
		case len(n.Ident) == 1:
			w.refuse(n, "$ alone stands for all data; name a variable, such as $.order_id")
		default:
			w.use(n, n.Ident[1])
		}
	case *parse.DotNode:
		if root {
			w.refuse(n, ". alone stands for all data here; name a variable, such as .order_id")
		}
	case *parse.IdentifierNode:
		if !allowed(n.Ident) {
			w.refuse(n, "%s", notAllowed(n.Ident))
		}
	case *parse.ChainNode:
		w.arg(n.Node, root)
	case *parse.PipeNode:
		w.pipe(n, root)
	}
}

func (w *walker) use(n parse.Node, name string) {
	w.uses = append(w.uses, Use{Name: name, Line: w.line(n)})
}

// singleAction reports whether a template is one printing action and no text.
func singleAction(l *parse.ListNode) bool {
	if len(l.Nodes) != 1 {
		return false
	}
	a, ok := l.Nodes[0].(*parse.ActionNode)
	return ok && len(a.Pipe.Decl) == 0
}
