package templates_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-4b260dfd/notifier/templates"
)

var update = flag.Bool("update", false, "write the golden files anew")

// TestLoad_Bad walks one folder per kind of mistake and holds the problems to
// its want.txt, line by line.
func TestLoad_Bad(t *testing.T) {
	t.Parallel()
	folders, err := filepath.Glob("testdata/bad/*")
	if err != nil || len(folders) < 30 {
		t.Fatalf("%d folders in testdata/bad, %v; want at least 30", len(folders), err)
	}
	for _, folder := range folders {
		t.Run(filepath.Base(folder), func(t *testing.T) {
			t.Parallel()
			_, problems := templates.Load(os.DirFS(folder), ".")
			if len(problems) == 0 {
				t.Fatal("no problem was found")
			}
			var got strings.Builder
			for _, p := range problems {
				got.WriteString(p.String() + "\n")
			}
			golden := filepath.Join(folder, "want.txt")
			if *update {
				if err := os.WriteFile(golden, []byte(got.String()), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got.String()); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
		})
	}
}
