package strictyaml

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// MaxBytes is the longest file that is read.
const MaxBytes = 1 << 20

// Short tags of the values that JSON has too, and of those that are refused.
const (
	tagStr       = "!!str"
	tagInt       = "!!int"
	tagFloat     = "!!float"
	tagBool      = "!!bool"
	tagNull      = "!!null"
	tagMerge     = "!!merge"
	tagTimestamp = "!!timestamp"
)

// Decode reads src into the struct or map that into points to, and reports
// every problem it finds. Fields that are not written keep the value that into
// already has, so one file can be laid over another. Fields are named by their
// yaml tags; ",inline" is understood. The document is never nil.
func Decode(file string, src []byte, into any) (*Document, []Problem) {
	doc := &Document{file: file}
	if len(src) > MaxBytes {
		return doc, []Problem{{File: file, Line: 1, Message: fmt.Sprintf("the file has %d bytes; at most %d are read", len(src), MaxBytes)}}
	}
	dec := yaml.NewDecoder(bytes.NewReader(src))
	var first, second yaml.Node
	switch err := dec.Decode(&first); {
	case errors.Is(err, io.EOF):
		return doc, nil
	case err != nil:
		return doc, []Problem{syntaxProblem(file, err)}
	}
	d := &decoder{file: file}
	switch err := dec.Decode(&second); {
	case errors.Is(err, io.EOF):
	case err != nil:
		d.problems = append(d.problems, syntaxProblem(file, err))
	default:
		d.add(&second, nil, "a second document begins here; one file holds one document")
	}
	root := first.Content[0]
	if root.Kind == yaml.ScalarNode && root.ShortTag() == tagNull {
		return doc, d.problems
	}
	doc.root = root
	d.refuse(root, nil)
	d.value(root, reflect.ValueOf(into).Elem(), nil)
	return doc, Sort(d.problems)
}

var (
	syntaxLine = regexp.MustCompile(`^yaml: (?:line (\d+): )?`)
	// parserSays are the messages in which the library counts lines from 0.
	parserSays = regexp.MustCompile(`^did not find expected (<|node content|key|',' or|'-' indicator)`)
)

func syntaxProblem(file string, err error) Problem {
	m := syntaxLine.FindStringSubmatch(err.Error())
	if m == nil {
		return Problem{File: file, Line: 1, Message: "not YAML: " + err.Error()}
	}
	message := err.Error()[len(m[0]):]
	line, _ := strconv.Atoi(m[1])
	if m[1] == "" || parserSays.MatchString(message) {
		line++
	}
	return Problem{File: file, Line: line, Message: "not YAML: " + message}
}

type decoder struct {
	file     string
	problems []Problem
}

func (d *decoder) add(n *yaml.Node, path []any, format string, args ...any) {
	message := fmt.Sprintf(format, args...)
	if len(path) > 0 {
		message = Path(path...) + ": " + message
	}
	d.problems = append(d.problems, Problem{File: d.file, Line: n.Line, Message: message})
}

// refuse reports the parts of YAML that hide what a file says, wherever they are.
func (d *decoder) refuse(n *yaml.Node, path []any) {
	if n.Anchor != "" && n.Kind != yaml.AliasNode {
		d.add(n, path, "the anchor &%s is not allowed; write the value out where it is needed", n.Anchor)
	}
	if n.Kind == yaml.AliasNode {
		d.add(n, path, "the alias *%s is not allowed; write the value out", n.Value)
	}
	if n.Style&yaml.TaggedStyle != 0 {
		d.add(n, path, "the tag %s is not allowed; write the plain value", n.Tag)
	}
	switch n.Kind {
	case yaml.MappingNode:
		d.refuseKeys(n, path)
	case yaml.SequenceNode:
		for i, c := range n.Content {
			d.refuse(c, join(path, i))
		}
	}
}

// refuseKeys reports keys that are written twice or are not plain strings.
func (d *decoder) refuseKeys(n *yaml.Node, path []any) {
	seen := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		k := n.Content[i]
		switch {
		case k.Kind != yaml.ScalarNode:
			d.add(k, path, "a key must be a plain word")
			continue
		case k.ShortTag() == tagMerge:
			d.add(k, path, "the merge key << is not allowed; write the fields out")
			continue
		case k.ShortTag() != tagStr:
			d.add(k, path, "the key %s is %s; put it in quotes", k.Value, kindOf(k))
		}
		if line, again := seen[k.Value]; again {
			d.add(k, path, "field %q is written twice; the first one is on line %d", k.Value, line)
		} else {
			seen[k.Value] = k.Line
		}
		d.refuse(k, path)
		d.refuse(n.Content[i+1], join(path, k.Value))
	}
}

// join appends without touching the array under path, which its siblings share.
func join(path []any, step any) []any {
	return append(path[:len(path):len(path)], step)
}

// fields returns the fields of a struct by their yaml names, and the names in
// the order of declaration.
func fields(v reflect.Value) (map[string]reflect.Value, []string) {
	byName, names := map[string]reflect.Value{}, []string{}
	for i := range v.NumField() {
		f := v.Type().Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		switch {
		case options == "inline":
			inner, more := fields(v.Field(i))
			for _, n := range more {
				byName[n] = inner[n]
			}
			names = append(names, more...)
		case !f.IsExported() || name == "-":
		default:
			if name == "" {
				name = strings.ToLower(f.Name)
			}
			byName[name] = v.Field(i)
			names = append(names, name)
		}
	}
	return byName, names
}
