package pure_test

import (
	"encoding/json"
	"testing"
	"unicode/utf8"

	"github.com/seed-4b260dfd/notifier/pure"
)

// FuzzRender holds every template that parses to an end: text or an error,
// the same both times, and never longer than the bound.
func FuzzRender(f *testing.F) {
	for _, seed := range []string{
		"order {{.id}}", "{{range .a}}{{.}}{{end}}", "{{if .b}}{{.c.d}}{{else}}{{with .e}}{{.}}{{end}}{{end}}",
		`{{printf "%999d" .n}}`, `<a href="{{.u}}">{{.h}}</a>`, "{{$x := .a}}{{range 9}}{{$x = printf `%v%v` $x $x}}{{end}}",
		`{{define "a"}}{{template "a" .x}}{{end}}`, "{{break}}", "{{slice .id 1}}", "{{index .a 1 | json | upper}}",
	} {
		for form := range uint8(3) {
			f.Add(seed, `{"id":"42","a":[1,"x",null],"n":1e3,"u":"javascript:x"}`, form)
		}
	}
	f.Fuzz(func(t *testing.T, template, object string, form uint8) {
		var data map[string]any
		if json.Unmarshal([]byte(object), &data) != nil {
			return
		}
		tmpl, err := pure.Parse(template, pure.Form(form%3))
		if err != nil {
			return
		}
		first, err := tmpl.Render(data)
		second, again := tmpl.Render(data)
		if first != second || (err == nil) != (again == nil) {
			t.Fatalf("two renderings differ: %q, %v and %q, %v", first, err, second, again)
		}
		if len(first) > pure.MaxOutput || !utf8.ValidString(first) {
			t.Fatalf("%d bytes, valid UTF-8 %v", len(first), utf8.ValidString(first))
		}
	})
}
