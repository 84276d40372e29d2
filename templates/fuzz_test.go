package templates_test

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-4b260dfd/notifier"
	"github.com/seed-4b260dfd/notifier/templates"
)

// FuzzLoadTemplate holds every file to a list of problems or a template whose
// rendering ends, is the same twice, is JSON, and keeps headers on one line.
func FuzzLoadTemplate(f *testing.F) {
	kinds := []string{"push", "email", "sms", "webhook"}
	err := fs.WalkDir(os.DirFS("testdata"), ".", func(file string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || path.Ext(file) != ".yaml" {
			return err
		}
		src, err := os.ReadFile(path.Join("testdata", file))
		for i, k := range kinds {
			if strings.HasSuffix(file, k+".yaml") {
				f.Add(uint8(i), src, `{"order_id":"42","name":"Ann\r\nBcc: x","items":["tea",1,null],"unread":7,"gift":true}`)
			}
		}
		return err
	})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, kind uint8, src []byte, object string) {
		var data map[string]any
		if json.Unmarshal([]byte(object), &data) != nil {
			return
		}
		file := "t/" + kinds[int(kind)%len(kinds)] + ".yaml"
		set, problems := templates.Load(fstest.MapFS{file: {Data: src}}, ".")
		for _, p := range problems {
			if p.File != file || p.Line < 1 || p.Message == "" {
				t.Fatalf("problem %#v has no place or no message", p)
			}
		}
		for _, tmpl := range set.All() {
			first, err := tmpl.Render(data)
			second, again := tmpl.Render(data)
			if diff := cmp.Diff(first, second); diff != "" || (err == nil) != (again == nil) {
				t.Fatalf("two renderings differ: %v, %v\n%s", err, again, diff)
			}
			checkRendered(t, first, err)
		}
	})
}

func checkRendered(t *testing.T, fields map[string]any, err error) {
	t.Helper()
	var failed *notifier.Error
	if err != nil && (!errors.As(err, &failed) || failed.Code != notifier.CodeTemplateFailed || failed.Field == "") {
		t.Fatalf("error %#v is not of the API", err)
	}
	if _, err := json.Marshal(fields); err != nil {
		t.Fatalf("not JSON: %v", err)
	}
	for _, header := range []string{"subject", "from", "reply_to", "title"} {
		if s, _ := fields[header].(string); strings.ContainsAny(s, "\r\n\x00") {
			t.Fatalf("%s is %q", header, s)
		}
	}
}
