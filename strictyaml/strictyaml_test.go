package strictyaml_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/seed-4b260dfd/notifier/strictyaml"
)

type Shared struct {
	Endpoint string `yaml:"endpoint"`
}

type sample struct {
	Shared  `yaml:",inline"`
	Name    string              `yaml:"name"`
	Count   int                 `yaml:"count"`
	Small   int8                `yaml:"small"`
	Factor  float64             `yaml:"factor"`
	On      bool                `yaml:"on"`
	Wait    time.Duration       `yaml:"wait"`
	Wait2   strictyaml.Duration `yaml:"wait2"`
	Words   []string            `yaml:"words"`
	Nested  nested              `yaml:"nested"`
	Maybe   *nested             `yaml:"maybe"`
	ByName  map[string]nested   `yaml:"by_name"`
	Any     any                 `yaml:"any"`
	Text    strictyaml.Text     `yaml:"text"`
	Tree    strictyaml.Tree     `yaml:"tree"`
	Skipped string              `yaml:"-"`
}

type nested struct {
	A string `yaml:"a"`
	B int    `yaml:"b"`
}

func TestDecode(t *testing.T) {
	t.Parallel()
	src := `# a comment
endpoint: https://example.com
name: x
count: 1_000
factor: 2
on: true
wait: 1h30m
wait2: 20s
words: [a, "1"]
nested: {a: y}
maybe: {b: 2}
by_name:
  one: {a: z}
  two:
any: {list: [1, 2.5, x, null, true, 2026-01-01]}
`
	got := sample{Nested: nested{A: "was", B: 7}, Name: "was"}
	doc, problems := strictyaml.Decode("f.yaml", []byte(src), &got)
	if len(problems) > 0 {
		t.Fatalf("problems: %v", problems)
	}
	want := sample{
		Shared: Shared{"https://example.com"}, Name: "x", Count: 1000, Factor: 2, On: true, Wait: 90 * time.Minute, Wait2: strictyaml.Duration(20 * time.Second),
		// What is not written stays: one file is laid over another.
		Words: []string{"a", "1"}, Nested: nested{A: "y", B: 7}, Maybe: &nested{B: 2},
		ByName: map[string]nested{"one": {A: "z"}, "two": {}},
		Any:    map[string]any{"list": []any{int64(1), 2.5, "x", nil, true, "2026-01-01"}},
	}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(strictyaml.Text{})); diff != "" {
		t.Errorf("decoded (-want +got):\n%s", diff)
	}
	for _, tt := range []struct {
		path []any
		has  bool
		line int
	}{
		{[]any{"name"}, true, 3},
		{[]any{"words", 1}, true, 9},
		{[]any{"by_name", "two"}, true, 14},
		{[]any{"by_name", "three"}, false, 12},
		{[]any{"nested", "b"}, false, 10},
		{[]any{"words", 2}, false, 9},
		{[]any{"text", "x"}, false, 2},
	} {
		p := doc.Problem(tt.path, "m")
		if doc.Has(tt.path...) != tt.has || p.Line != tt.line || p.File != "f.yaml" {
			t.Errorf("%s: has %v, line %d, want %v, %d", strictyaml.Path(tt.path...), doc.Has(tt.path...), p.Line, tt.has, tt.line)
		}
	}
}

func TestDecode_AllProblemsAtOnce(t *testing.T) {
	t.Parallel()
	src := `nmae: x
name: 012
count: many
small: 300
factor: .inf
on: yes
wait: 5
wait2: []
words: {a: b}
words: [a, 2]
nested: [a]
maybe: {a: ~, c: 1}
by_name: {x: &anchor {a: y}, y: *anchor}
any: !!binary aGk=
text: [x]
tree: {1: a, <<: {b: c}}
---
more: true
`
	_, problems := strictyaml.Decode("f.yaml", []byte(src), &sample{})
	var got []string
	for _, p := range problems {
		got = append(got, p.String())
	}
	want := []string{
		`f.yaml:1: unknown field "nmae"; allowed: endpoint, name, count, small, factor, on, wait, wait2, words, nested, maybe, by_name, any, text, tree`,
		`f.yaml:2: name: 012 is a number, not a string; put it in quotes`,
		`f.yaml:3: count: "many" is not a whole number`,
		`f.yaml:4: small: 300 is out of range`,
		`f.yaml:5: factor: .inf is not a number`,
		`f.yaml:6: on: "yes" is not a boolean; allowed: true, false`,
		`f.yaml:7: wait: 5 is not a duration; write a number with its unit, such as "20s", "12m" or "168h"`,
		`f.yaml:8: wait2: a list is not a duration; write a number with its unit, such as "20s", "12m" or "168h"`,
		`f.yaml:9: words: a mapping is not a list, such as [a, b]`,
		`f.yaml:10: field "words" is written twice; the first one is on line 9`,
		`f.yaml:10: words[1]: 2 is a number, not a string; put it in quotes`,
		`f.yaml:11: nested: a list is not a mapping of fields`,
		`f.yaml:12: maybe.a: has no value; write a string, or leave the field out`,
		`f.yaml:12: maybe: unknown field "c"; allowed: a, b`,
		`f.yaml:13: by_name.x: the anchor &anchor is not allowed; write the value out where it is needed`,
		`f.yaml:13: by_name.y: the alias *anchor is not allowed; write the value out`,
		`f.yaml:14: any: the tag !!binary is not allowed; write the plain value`,
		`f.yaml:15: text: a list is not a string`,
		`f.yaml:16: tree: the key 1 is a number; put it in quotes`,
		`f.yaml:16: tree: the merge key << is not allowed; write the fields out`,
		`f.yaml:17: a second document begins here; one file holds one document`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
}

func TestDecode_NotYAML(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, src, want string }{
		{"first line", "a: b: c\n", "f.yaml:1: not YAML: mapping values are not allowed in this context"},
		{"later line", "a: 1\nb: c: d\n", "f.yaml:2: not YAML: mapping values are not allowed in this context"},
		{"open list", "a: 1\nb: [1\nc: 2\n", "f.yaml:2: not YAML: did not find expected ',' or ']'"},
		{"bad indentation", "a:\n  b: 1\n c: 2\n", "f.yaml:3: not YAML: did not find expected key"},
		{"tab", "a: 1\nb:\n\tc: 1\n", "f.yaml:3: not YAML: found character that cannot start any token"},
		{"unknown alias", "a: *x\n", "f.yaml:1: not YAML: unknown anchor 'x' referenced"},
		{"no mapping", "- a\n", "f.yaml:1: a list is not a mapping of fields"},
		{"a word", "hello\n", `f.yaml:1: "hello" is not a mapping of fields`},
		{"too long", strings.Repeat("#", strictyaml.MaxBytes+1), "f.yaml:1: the file has 1048577 bytes; at most 1048576 are read"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, problems := strictyaml.Decode("f.yaml", []byte(tt.src), &sample{})
			if len(problems) != 1 || problems[0].String() != tt.want {
				t.Errorf("got %v, want %s", problems, tt.want)
			}
		})
	}
}

func TestDecode_Empty(t *testing.T) {
	t.Parallel()
	for _, src := range []string{"", "# only a comment\n", "---\n", "null\n"} {
		got := sample{Name: "was"}
		doc, problems := strictyaml.Decode("f.yaml", []byte(src), &got)
		if len(problems) > 0 || got.Name != "was" || doc.Line("name") != 1 || doc.Has("name") {
			t.Errorf("%q: got %v, %v, line %d", src, problems, got.Name, doc.Line("name"))
		}
	}
}

func TestText_LineAt(t *testing.T) {
	t.Parallel()
	var got struct {
		Literal strictyaml.Text `yaml:"literal"`
		Folded  strictyaml.Text `yaml:"folded"`
		Plain   strictyaml.Text `yaml:"plain"`
	}
	src := "literal: |\n\n  two\n  three\nfolded: >\n  one\n  more\nplain: \"a\n  b\"\n"
	if _, problems := strictyaml.Decode("f.yaml", []byte(src), &got); len(problems) > 0 {
		t.Fatal(problems)
	}
	if got.Literal.Value != "\ntwo\nthree\n" || got.Literal.LineAt(3) != 4 {
		t.Errorf("literal: %q, third line on %d, want 4", got.Literal.Value, got.Literal.LineAt(3))
	}
	if got.Folded.LineAt(2) != 6 || got.Plain.LineAt(2) != 8 {
		t.Errorf("folded on %d, want 6; plain on %d, want 8", got.Folded.LineAt(2), got.Plain.LineAt(2))
	}
}

func TestProblem_String(t *testing.T) {
	t.Parallel()
	p := strictyaml.Problem{File: "a.yaml", Line: 3, Message: "m", Warning: true}
	if got, want := p.String(), "a.yaml:3: warning: m"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
