package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-4b260dfd/notifier/strictyaml"
)

// testEnv is the environment of the files in testdata.
func testEnv(name string) string {
	return map[string]string{
		"PASSWORD":       "hunter2hunter2",
		"WEBHOOK_SECRET": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwTESTTESTTEST",
	}[name]
}

// wanted returns the problems that a file of testdata announces: comments of
// the form "# want: message", each on the line of its problem. DIR stands for
// the file's folder; a message may be cut after a space.
func wanted(t *testing.T, file string) []strictyaml.Problem {
	t.Helper()
	src, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var want []strictyaml.Problem
	for i, line := range strings.Split(string(src), "\n") {
		for _, message := range strings.Split(line, "# want: ")[1:] {
			if !strings.HasSuffix(message, ": ") {
				message = strings.TrimSuffix(message, " ")
			}
			message, warning := strings.CutPrefix(message, "warning: ")
			message = strings.ReplaceAll(message, "DIR", filepath.Dir(file))
			want = append(want, strictyaml.Problem{File: file, Line: i + 1, Message: message, Warning: warning})
		}
	}
	return strictyaml.Sort(want)
}

// sameProblems compares problems with those wanted; of one whose message ends
// in ": ", only the beginning.
func sameProblems(t *testing.T, want, got []strictyaml.Problem) {
	t.Helper()
	got = slices.Clone(got)
	for i := range got {
		for _, w := range want {
			if strings.HasSuffix(w.Message, ": ") && got[i].Line == w.Line && strings.HasPrefix(got[i].Message, w.Message) {
				got[i].Message = w.Message
			}
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
}

func TestLoadConfig_EveryMistakeHasItsLine(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/config/*.yaml")
	if err != nil || len(files) < 14 {
		t.Fatalf("got %d files of testdata, %v; want 14 or more", len(files), err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			_, got, err := loadConfig(file, true, testEnv)
			if err != nil {
				t.Fatal(err)
			}
			sameProblems(t, wanted(t, file), got)
			for _, p := range got {
				if strings.Contains(p.Message, "hunter2") {
					t.Errorf("%s shows a password", p)
				}
			}
		})
	}
}

func TestLoadConfig_DefaultsWithoutAFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c, problems, err := loadConfig(filepath.Join(dir, "notifier.yaml"), false, testEnv)
	if err != nil || len(problems) > 0 {
		t.Fatal(err, problems)
	}
	got := []string{c.file, c.Listen.HTTP, c.ledger, c.Policies, c.Templates}
	want := []string{"", "127.0.0.1:8080", filepath.Join(dir, "notifier.db"), filepath.Join(dir, "policies"), filepath.Join(dir, "templates")}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("defaults (-want +got):\n%s", diff)
	}
}

func TestLoadConfig_ReferencesAndPaths(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	writeFiles(t, dir, map[string]string{
		"secrets/pass": "s3cret-pass\n",
		"notifier.yaml": `
listen: {http: "127.0.0.1:${PORT}"}
ledger: sqlite:data/n.db
policies: /etc/notifier/policies
channels:
  email:
    main: {smtp: "file:secrets/smtp", from: a@example.com, ca_file: tls/ca.pem}
`,
		"secrets/smtp": "smtp://user:s3cret@mail.example.com:587\n",
	})
	c, _, err := loadConfig(filepath.Join(dir, "notifier.yaml"), true, func(string) string { return "8099" })
	if err != nil {
		t.Fatal(err)
	}
	email := c.Channels.Email["main"]
	got := []string{c.Listen.HTTP, c.ledger, c.Policies, email.SMTP, email.CAFile}
	want := []string{"127.0.0.1:8099", filepath.Join(dir, "data/n.db"), "/etc/notifier/policies",
		"smtp://user:s3cret@mail.example.com:587", filepath.Join(dir, "tls/ca.pem")}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("values (-want +got):\n%s", diff)
	}
}

// writeFiles makes files under a folder, by their names with slashes.
func writeFiles(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, content := range files {
		name = filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
