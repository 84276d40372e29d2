package pure_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-4b260dfd/notifier/pure"
)

func TestRender(t *testing.T) {
	t.Parallel()
	data := map[string]any{
		"id": "42", "n": 3.0, "big": 1e6, "half": 2.5, "num": json.Number("7"), "huge": json.Number("123456789012345678901"),
		"yes": true, "empty": "", "nothing": nil, "tags": []any{"a", 1.0}, "user": map[string]any{"name": "Ann"},
	}
	tests := []struct {
		name, template, want string
		form                 pure.Form
	}{
		{name: "text", template: "order {{.id}}", want: "order 42"},
		{name: "whole number", template: "{{.n}} {{.big}}", want: "3 1000000"},
		{name: "fraction", template: "{{.half}}", want: "2.5"},
		{name: "number of either decoder", template: "{{.num}}", want: "7"},
		{name: "number beyond int64", template: "{{.huge}}", want: "123456789012345678901"},
		{name: "boolean", template: "{{.yes}}", want: "true"},
		{name: "numbers compare by value", template: "{{if and (gt .half 2) (eq .n 3) (lt .num 7.5) (le 1 1) (ge 2 1) (ne .n 4)}}y{{end}}", want: "y"},
		{name: "strings have an order", template: `{{if lt "a" "b"}}y{{end}}`, want: "y"},
		{name: "eq of many", template: `{{if eq .id "1" "42"}}y{{end}}`, want: "y"},
		{name: "kinds differ", template: `{{if eq .id 42}}y{{else}}n{{end}}`, want: "n"},
		{name: "absent may be asked", template: "{{if .absent}}y{{else}}n{{end}}", want: "n"},
		{name: "default of absent", template: `{{.absent | default "friend"}}`, want: "friend"},
		{name: "default of empty", template: `{{.empty | default "friend"}}`, want: "friend"},
		{name: "default of present", template: `{{.id | default "friend"}}`, want: "42"},
		{name: "range", template: "{{range .tags}}<{{.}}>{{end}}", want: "<a><1>"},
		{name: "range over a number", template: "{{range 3}}x{{end}}", want: "xxx"},
		{name: "with", template: "{{with .user}}{{.name}} {{$.id}}{{end}}", want: "Ann 42"},
		{name: "nested", template: "{{.user.name}}", want: "Ann"},
		{name: "variables", template: "{{$x := .id}}{{$x}}{{$x = .n}}{{$x}}", want: "423"},
		{name: "functions", template: `{{upper "a"}}{{lower "B"}}{{trim " c "}}{{join "," .tags}}{{urlquery "a b&c"}}{{json .user}}`, want: `Abca,1a+b%26c{"name":"Ann"}`},
		{name: "printf", template: `{{printf "%s-%05d-%.2f" .id .n .half}}`, want: "42-00003-2.50"},
		{name: "printf with a percent in the value", template: `{{printf "%s" "100%!"}}`, want: "100%!"},
		{name: "text is not escaped", template: `{{"<&>"}}`, want: "<&>"},
		{name: "page is escaped", form: pure.HTML, template: `<a href="/o?id={{"a b"}}">{{"<&>"}}</a>`, want: `<a href="/o?id=a%20b">&lt;&amp;&gt;</a>`},
		{name: "page numbers", form: pure.HTML, template: `<p>{{.big}}</p>`, want: "<p>1000000</p>"},
		{name: "json number", form: pure.JSON, template: "{{.n}}", want: "3"},
		{name: "json string", form: pure.JSON, template: "{{.id}}", want: `"42"`},
		{name: "json list", form: pure.JSON, template: "{{.tags}}", want: `["a",1]`},
		{name: "empty", template: "", want: ""},
		{name: "comment only", template: "{{/* x */}}", want: ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tmpl, err := pure.Parse(tt.template, tt.form)
			if err != nil {
				t.Fatalf("Parse: %v", err)
			}
			// Twice: the first rendering leaves nothing behind.
			for range 2 {
				got, err := tmpl.Render(data)
				if err != nil || got != tt.want {
					t.Fatalf("got %q, %v, want %q", got, err, tt.want)
				}
			}
		})
	}
}

func TestParse_Refused(t *testing.T) {
	t.Parallel()
	const allowed = "allowed: and, default, eq, ge, gt, index, join, json, le, len, lower, lt, ne, not, or, printf, slice, trim, upper, urlquery"
	tests := []struct {
		name, template, want string
		line                 int
		form                 pure.Form
	}{
		{name: "clock", template: "a\n{{now}}", line: 2, want: `there is no function "now" here; ` + allowed},
		{name: "call", template: "{{call .f}}", line: 1, want: `there is no function "call" here; ` + allowed},
		{name: "hidden function", template: "{{_print `x` .f}}", line: 1, want: `there is no function "_print" here; ` + allowed},
		{name: "call within parentheses", template: "{{upper (html .a)}}", line: 1, want: `there is no function "html" here; ` + allowed},
		{name: "unclosed", template: "a\n\n{{.x", line: 3, want: "unclosed action"},
		{name: "no end", template: "{{if .x}}", line: 1, want: "unexpected EOF"},
		{name: "define", template: `{{define "x"}}y{{end}}{{.a}}`, line: 1, want: "define and block are not allowed: a template is one piece"},
		{name: "define only", template: `{{define "x"}}y{{end}}`, line: 1, want: "define and block are not allowed: a template is one piece"},
		{name: "block", template: `{{block "x" .a}}y{{end}}`, line: 1, want: "define and block are not allowed: a template is one piece"},
		{name: "recursion", template: "x\n" + `{{template "t" .a}}`, line: 2, want: `{{template "t" .a}} is not allowed: a template is one piece`},
		{name: "all data", template: "{{json .}}", line: 1, want: ". alone stands for all data here; name a variable, such as .order_id"},
		{name: "all data by $", template: "{{range .x}}\n{{$}}{{end}}", line: 2, want: "$ alone stands for all data; name a variable, such as $.order_id"},
		{name: "all data in else", template: "{{with .x}}{{.}}{{else}}{{.}}{{end}}", line: 1, want: ". alone stands for all data here; name a variable, such as .order_id"},
		{name: "page that cannot be escaped", form: pure.HTML, template: "<p>\n<a href='{{.x}}", line: 1, want: "the page ends inside a tag, an attribute, a script or a style"},
		{name: "not UTF-8", template: "\xff", line: 1, want: "the template is not valid UTF-8"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := pure.Parse(tt.template, tt.form)
			e, ok := err.(*pure.Error)
			if !ok {
				t.Fatalf("got error %v, want a *pure.Error", err)
			}
			if diff := cmp.Diff(pure.Error{Line: tt.line, Message: tt.want}, *e); diff != "" {
				t.Errorf("error (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRender_Fails(t *testing.T) {
	t.Parallel()
	data := map[string]any{"x": "x", "list": []any{1.0, 2.0}, "obj": map[string]any{"a": 1.0}, "é": "é", "n": 1e12, "fmt": "%9999d"}
	grow := `{{$x := "aaaaaaaaaaaaaaaa"}}{{range 60}}{{$x = printf "%s%s" $x $x}}{{end}}{{$x}}`
	tests := []struct {
		name, template, want string
		line                 int
		form                 pure.Form
	}{
		{name: "absent", template: "a\nb {{.absent}}", line: 2, want: ".absent is not set"},
		{name: "absent in a page", form: pure.HTML, template: "<p>\n{{.absent}}</p>", line: 2, want: ".absent is not set"},
		{name: "absent as JSON", form: pure.JSON, template: "{{.absent}}", line: 1, want: ".absent is not set"},
		{name: "absent field", template: "{{.obj.b}}", line: 1, want: ".obj.b: map has no entry for key \"b\""},
		{name: "absent index", template: `{{index .obj "b"}}`, line: 1, want: `index .obj "b" is not set`},
		{name: "absent in printf", template: `{{printf "%s" .absent}}`, line: 1, want: `printf "%s" .absent: value 1 of printf is not set`},
		{name: "absent in upper", template: `{{upper .absent}}`, line: 1, want: `upper .absent: is not set`},
		{name: "printf without a value", template: `{{printf "%s %s" .x}}`, line: 1, want: `printf "%s %s" .x: printf has a verb without its value, or a value without its verb`},
		{name: "printf width", template: `{{printf .fmt 1}}`, line: 1, want: `printf .fmt 1: printf takes no width over 999 and no *`},
		{name: "list", template: "{{.list}}", line: 1, want: ".list is a list; use range, join or json"},
		{name: "object", template: "{{.obj}}", line: 1, want: ".obj is an object; name one of its fields, or use json"},
		{name: "join of no list", template: `{{join "," .x}}`, line: 1, want: `join "," .x: join wants a list`},
		{name: "no order", template: "{{if lt .x 1}}{{end}}", line: 1, want: "lt .x 1: only two numbers or two strings have an order"},
		{name: "endless loop", template: "{{range .n}}{{end}}", line: 1, want: "the template takes more than 100000 steps"},
		{name: "nested loops", template: "{{range 9999}}{{range 9999}}{{$x := 1}}{{end}}{{end}}", line: 1, want: "the template takes more than 100000 steps"},
		{name: "long output", template: `{{range 9999}}{{printf "%999s" "x"}}{{end}}`, line: 1, want: "the result is longer than 1048576 bytes"},
		{name: "growing value", template: grow, line: 1, want: `printf "%s%s" $x $x: the result is longer than 1048576 bytes`},
		{name: "half a letter", template: `{{slice "é" 0 1}}`, line: 1, want: "the result is not valid UTF-8: slice cuts bytes, not letters"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tmpl, err := pure.Parse(tt.template, tt.form)
			if err != nil {
				t.Fatalf("Parse: %v", err)
			}
			_, err = tmpl.Render(data)
			e, ok := err.(*pure.Error)
			if !ok {
				t.Fatalf("got error %v, want a *pure.Error", err)
			}
			if diff := cmp.Diff(pure.Error{Line: tt.line, Message: tt.want}, *e); diff != "" {
				t.Errorf("error (-want +got):\n%s", diff)
			}
		})
	}
}

func TestUses(t *testing.T) {
	t.Parallel()
	tmpl, err := pure.Parse(strings.Join([]string{
		"{{.a}}{{if .b}}{{.c.d}}{{end}}",
		"{{range .list}}{{.inner}}{{$.e}}{{else}}{{.f}}{{end}}",
		"{{with $x := .g}}{{$x.h}}{{.i}}{{end}}{{(index .j 0).k | default .a}}",
	}, "\n"), pure.Text)
	if err != nil {
		t.Fatal(err)
	}
	want := []pure.Use{{"a", 1}, {"b", 1}, {"c", 1}, {"list", 2}, {"e", 2}, {"f", 2}, {"g", 3}, {"j", 3}, {"a", 3}}
	if diff := cmp.Diff(want, tmpl.Uses()); diff != "" {
		t.Errorf("uses (-want +got):\n%s", diff)
	}
}

func TestRender_SeesOnlyWhatItNames(t *testing.T) {
	t.Parallel()
	tmpl, err := pure.Parse("{{range .list}}{{.}}{{end}}", pure.Text)
	if err != nil {
		t.Fatal(err)
	}
	list := []any{json.Number("1")}
	if _, err := tmpl.Render(map[string]any{"list": list, "other": make(chan int)}); err != nil {
		t.Fatal(err)
	}
	if list[0] != json.Number("1") {
		t.Errorf("the caller's data was changed to %#v", list[0])
	}
}
