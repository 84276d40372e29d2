package main

import (
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed-4b260dfd/notifier/strictyaml"
)

// loadTestProject loads a folder as serve would.
func loadTestProject(t *testing.T, dir string) *project {
	t.Helper()
	var from projectFlags
	f := flag.NewFlagSet("test", flag.ContinueOnError)
	from.define(f, true)
	if err := f.Parse([]string{"-config", filepath.Join(dir, "notifier.yaml")}); err != nil {
		t.Fatal(err)
	}
	pr, err := from.load(testEnv)
	if err != nil {
		t.Fatal(err)
	}
	return pr
}

func TestCrossCheck_EveryMistakeHasItsLine(t *testing.T) {
	t.Parallel()
	dirs, err := os.ReadDir("testdata/projects")
	if err != nil || len(dirs) < 4 {
		t.Fatalf("got %d projects, %v; want 4 or more", len(dirs), err)
	}
	for _, d := range dirs {
		t.Run(d.Name(), func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join("testdata/projects", d.Name())
			var want []strictyaml.Problem
			err := filepath.WalkDir(dir, func(name string, e fs.DirEntry, err error) error {
				if err == nil && !e.IsDir() {
					want = append(want, wantedIn(t, dir, name)...)
				}
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
			sameProblems(t, strictyaml.Sort(want), loadTestProject(t, dir).problems)
		})
	}
}

// wantedIn is wanted with DIR for the project's folder.
func wantedIn(t *testing.T, dir, file string) []strictyaml.Problem {
	want := wanted(t, file)
	for i := range want {
		want[i].Message = strings.ReplaceAll(want[i].Message, filepath.Dir(file)+"/", dir+"/")
	}
	return want
}

func TestLoad_FoldersAlone(t *testing.T) {
	t.Parallel()
	var from projectFlags
	f := flag.NewFlagSet("test", flag.ContinueOnError)
	from.define(f, true)
	if err := f.Parse([]string{"-policies", "../../examples/policies", "-templates", "../../examples/templates"}); err != nil {
		t.Fatal(err)
	}
	pr, err := from.load(testEnv)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range pr.problems {
		t.Errorf("got the problem %s in the examples, which need no accounts to be looked at", p)
	}
	if got := len(pr.policies.Types()); got != 5 {
		t.Errorf("got %d types, want 5", got)
	}
}
