package strictyaml

import (
	"fmt"
	"math"
	"reflect"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

var (
	durationType    = reflect.TypeFor[time.Duration]()
	textType        = reflect.TypeFor[Text]()
	treeType        = reflect.TypeFor[Tree]()
	unmarshalerType = reflect.TypeFor[yaml.Unmarshaler]()
)

// value decodes a node into v by v's type.
func (d *decoder) value(n *yaml.Node, v reflect.Value, path []any) {
	if n.Kind == yaml.AliasNode {
		return // reported by refuse
	}
	if d.special(n, v, path) {
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		// A scalar without a value is a slip, and is reported below.
		if e := v.Type().Elem(); isNull(n) && e != textType && e != treeType {
			return
		}
		if v.IsNil() {
			v.Set(reflect.New(v.Type().Elem()))
		}
		d.value(n, v.Elem(), path)
	case reflect.Struct:
		if d.is(n, yaml.MappingNode, path, "a mapping of fields") {
			d.structure(n, v, path)
		}
	case reflect.Map:
		if d.is(n, yaml.MappingNode, path, "a mapping") {
			d.mapping(n, v, path)
		}
	case reflect.Slice:
		if d.is(n, yaml.SequenceNode, path, "a list, such as [a, b]") {
			d.list(n, v, path)
		}
	case reflect.Interface:
		if got := plain(d.tree(n, path)); got != nil {
			v.Set(reflect.ValueOf(got))
		}
	default:
		d.scalar(n, v, path)
	}
}

// special decodes the types that read a node in their own way.
func (d *decoder) special(n *yaml.Node, v reflect.Value, path []any) bool {
	switch {
	case v.Type() == durationType:
		var duration Duration
		if err := duration.UnmarshalYAML(n); err != nil {
			d.add(n, path, "%v", err)
			return true
		}
		v.SetInt(int64(duration))
	case v.Type() == textType:
		if d.isString(n, path) {
			v.Set(reflect.ValueOf(newText(n)))
		}
	case v.Type() == treeType:
		v.Set(reflect.ValueOf(Tree{Root: d.tree(n, path)}))
	case reflect.PointerTo(v.Type()).Implements(unmarshalerType):
		if err := v.Addr().Interface().(yaml.Unmarshaler).UnmarshalYAML(n); err != nil {
			d.add(n, path, "%v", err)
		}
	default:
		return false
	}
	return true
}

// is reports whether the node has the kind, or is empty, which leaves v as it is.
func (d *decoder) is(n *yaml.Node, kind yaml.Kind, path []any, want string) bool {
	if n.Kind == kind {
		return true
	}
	if !isNull(n) {
		d.add(n, path, "%s is not %s", describe(n), want)
	}
	return false
}

func (d *decoder) structure(n *yaml.Node, v reflect.Value, path []any) {
	byName, names := fields(v)
	for i := 0; i+1 < len(n.Content); i += 2 {
		k := n.Content[i]
		if k.Kind != yaml.ScalarNode || k.ShortTag() == tagMerge {
			continue // reported by refuse
		}
		f, known := byName[k.Value]
		if !known {
			d.add(k, path, "unknown field %q; allowed: %s", k.Value, strings.Join(names, ", "))
			continue
		}
		d.value(n.Content[i+1], f, join(path, k.Value))
	}
}

func (d *decoder) mapping(n *yaml.Node, v reflect.Value, path []any) {
	made := reflect.MakeMapWithSize(v.Type(), len(n.Content)/2)
	for i := 0; i+1 < len(n.Content); i += 2 {
		k := n.Content[i]
		if k.Kind != yaml.ScalarNode || k.ShortTag() == tagMerge {
			continue
		}
		e := reflect.New(v.Type().Elem()).Elem()
		d.value(n.Content[i+1], e, join(path, k.Value))
		made.SetMapIndex(reflect.ValueOf(k.Value).Convert(v.Type().Key()), e)
	}
	v.Set(made)
}

func (d *decoder) list(n *yaml.Node, v reflect.Value, path []any) {
	made := reflect.MakeSlice(v.Type(), len(n.Content), len(n.Content))
	for i, c := range n.Content {
		d.value(c, made.Index(i), join(path, i))
	}
	v.Set(made)
}

// scalar decodes strings, booleans and numbers. Nothing is converted: an
// account named 0123 that YAML takes for a number must be quoted.
func (d *decoder) scalar(n *yaml.Node, v reflect.Value, path []any) {
	switch v.Kind() {
	case reflect.String:
		if d.isString(n, path) {
			v.SetString(n.Value)
		}
		return
	case reflect.Bool:
		if n.Kind != yaml.ScalarNode || n.ShortTag() != tagBool {
			d.add(n, path, "%s is not a boolean; allowed: true, false", describe(n))
			return
		}
	case reflect.Float32, reflect.Float64:
		if n.Kind != yaml.ScalarNode || n.ShortTag() != tagInt && n.ShortTag() != tagFloat {
			d.add(n, path, "%s is not a number", describe(n))
			return
		}
	default:
		if n.Kind != yaml.ScalarNode || n.ShortTag() != tagInt {
			d.add(n, path, "%s is not a whole number", describe(n))
			return
		}
	}
	if err := n.Decode(v.Addr().Interface()); err != nil {
		d.add(n, path, "%s is out of range", n.Value)
	}
	if v.CanFloat() && (math.IsNaN(v.Float()) || math.IsInf(v.Float(), 0)) {
		d.add(n, path, "%s is not a number", n.Value)
		v.SetFloat(0)
	}
}

// isString reports whether the node is a string. A date is one: JSON has no dates.
func (d *decoder) isString(n *yaml.Node, path []any) bool {
	switch {
	case n.Kind == yaml.ScalarNode && (n.ShortTag() == tagStr || n.ShortTag() == tagTimestamp):
		return true
	case isNull(n):
		d.add(n, path, "has no value; write a string, or leave the field out")
	case n.Kind == yaml.ScalarNode:
		d.add(n, path, "%s is %s, not a string; put it in quotes", n.Value, kindOf(n))
	default:
		d.add(n, path, "%s is not a string", describe(n))
	}
	return false
}

// tree decodes a node of any shape.
func (d *decoder) tree(n *yaml.Node, path []any) any {
	switch n.Kind {
	case yaml.MappingNode:
		made := make(map[string]any, len(n.Content)/2)
		for i := 0; i+1 < len(n.Content); i += 2 {
			if k := n.Content[i]; k.Kind == yaml.ScalarNode {
				made[k.Value] = d.tree(n.Content[i+1], join(path, k.Value))
			}
		}
		return made
	case yaml.SequenceNode:
		made := make([]any, len(n.Content))
		for i, c := range n.Content {
			made[i] = d.tree(c, join(path, i))
		}
		return made
	case yaml.ScalarNode:
		return d.leaf(n, path)
	default:
		return nil
	}
}

func (d *decoder) leaf(n *yaml.Node, path []any) any {
	switch n.ShortTag() {
	case tagNull:
		return nil
	case tagBool:
		var b bool
		d.scalar(n, reflect.ValueOf(&b).Elem(), path)
		return b
	case tagInt:
		var i int64
		d.scalar(n, reflect.ValueOf(&i).Elem(), path)
		return i
	case tagFloat:
		var f float64
		d.scalar(n, reflect.ValueOf(&f).Elem(), path)
		return f
	default:
		return newText(n)
	}
}

// plain is a tree without the places of its strings.
func plain(v any) any {
	switch v := v.(type) {
	case Text:
		return v.Value
	case []any:
		for i := range v {
			v[i] = plain(v[i])
		}
	case map[string]any:
		for k := range v {
			v[k] = plain(v[k])
		}
	}
	return v
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.ShortTag() == tagNull }

// describe names a node's value in a message.
func describe(n *yaml.Node) string {
	switch {
	case n.Kind == yaml.MappingNode:
		return "a mapping"
	case n.Kind == yaml.SequenceNode:
		return "a list"
	case isNull(n):
		return "no value"
	case n.ShortTag() == tagStr:
		return fmt.Sprintf("%q", short(n.Value))
	default:
		return short(n.Value)
	}
}

func short(s string) string {
	if r := []rune(s); len(r) > 40 {
		return string(r[:40]) + "…"
	}
	return s
}

func kindOf(n *yaml.Node) string {
	switch n.ShortTag() {
	case tagInt, tagFloat:
		return "a number"
	case tagBool:
		return "a boolean"
	case tagNull:
		return "empty"
	default:
		return "of the type " + n.ShortTag()
	}
}
