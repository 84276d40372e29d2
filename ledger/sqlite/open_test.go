package sqlite

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/seed-4b260dfd/notifier"
)

func TestOpen_FilesAreTheOwnersAlone(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		return // no such modes
	}
	dir := t.TempDir()
	l, err := Open(t.Context(), filepath.Join(dir, "notifier.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if _, err := l.Accept(t.Context(), []notifier.Intent{intent("k")}); err != nil {
		t.Fatal(err)
	}
	files, err := os.ReadDir(dir)
	if err != nil || len(files) < 4 { // database, log, its index, lock
		t.Fatalf("got %v, %v", files, err)
	}
	for _, f := range files {
		if i, err := f.Info(); err != nil || i.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v, %v; want 0600", f.Name(), i.Mode(), err)
		}
	}
}

func TestOpen_PathsThatAreHard(t *testing.T) {
	t.Parallel()
	l, err := Open(t.Context(), filepath.Join(t.TempDir(), "a b?c#d%20&mode=ro.db"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.Accept(t.Context(), []notifier.Intent{intent("k")}); err != nil {
		t.Error(err)
	}
	if _, err := l.ByKey(t.Context(), "shop", "k"); err != nil {
		t.Error(err)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}

func TestOpen_Refusals(t *testing.T) {
	t.Parallel()
	write := func(name, text string) func(t *testing.T, dir string) {
		return func(t *testing.T, dir string) {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, c := range []struct {
		name, file string
		prepare    func(t *testing.T, dir string)
		want       string
	}{
		{"no such folder", "missing/notifier.db", func(*testing.T, string) {}, "no such file"},
		{"a folder", "sub", func(t *testing.T, dir string) {
			if err := os.Mkdir(filepath.Join(dir, "sub"), 0o700); err != nil {
				t.Fatal(err)
			}
		}, "is a directory"},
		{"another kind of file", "notes.txt", write("notes.txt", strings.Repeat("not a ledger\n", 100)), "not a database"},
		{"a newer schema", "notifier.db", newerSchema, "run the newer one"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			c.prepare(t, dir)
			_, err := Open(t.Context(), filepath.Join(dir, c.file))
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), filepath.Join(dir, c.file)) {
				t.Errorf("got %v, want the path and %q", err, c.want)
			}
		})
	}
}

func newerSchema(t *testing.T, dir string) {
	t.Helper()
	l, err := Open(t.Context(), filepath.Join(dir, "notifier.db"))
	if err != nil {
		t.Fatal(err)
	}
	err = l.write(t.Context(), func(w *writer) error {
		_, err := w.exec("PRAGMA user_version = 99")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}

// A ledger that is opened again goes on where it was: ids, words and rows.
func TestOpen_Again(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "notifier.db")
	var seen []notifier.ID
	for _, key := range []string{"a", "b", "c"} {
		l, err := Open(t.Context(), path)
		if err != nil {
			t.Fatal(err)
		}
		s, err := l.Accept(t.Context(), []notifier.Intent{intent(key), intent("a")})
		if err != nil {
			t.Fatal(err)
		}
		if !s[1].Replayed {
			t.Errorf("the key of the first run is new in the run of %q", key)
		}
		seen = append(seen, s[0].ID)
		for _, id := range seen {
			if _, err := l.Notification(t.Context(), "shop", id); err != nil {
				t.Errorf("after %q: %v: %v", key, id, err)
			}
		}
		for _, wrong := range append(l.Check(t.Context()), l.CheckTally(t.Context())...) {
			t.Errorf("check: %s", wrong)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// walk makes every transition once, so that its statements are prepared.
func walk(t *testing.T, l *Ledger) {
	t.Helper()
	in := intent("k")
	in.Lease = notifier.FirstLease{Owner: "me", Count: 1}
	s, err := l.Accept(t.Context(), []notifier.Intent{in, in, intent("other")})
	must(t, err)
	leased, err := l.Lease(t.Context(), in.Deliveries[0].Lane, 1, "me")
	must(t, err)
	first, second := s[0].Leased[0].Hold(), leased[0].Hold()
	_, err = l.Renew(t.Context(), "me", []notifier.Hold{first})
	must(t, err)
	_, err = l.Permit(t.Context(), "me", []notifier.Permit{{Hold: first}})
	must(t, err)
	_, err = l.Return(t.Context(), "me", []notifier.Return{{Hold: first, Record: true}, {Hold: first}})
	must(t, err)
	_, err = l.Complete(t.Context(), "me", []notifier.Completion{{Hold: second, State: notifier.StateSent}, {Hold: second, State: notifier.StateSent}})
	must(t, err)
	_, err = l.Cancel(t.Context(), "shop", []notifier.DeliveryID{first.ID, second.ID}, notifier.ReasonCaller)
	must(t, err)
	_, err = l.Sweep(t.Context(), 10, true)
	must(t, err)
	_, err = l.Expire(t.Context(), 10)
	must(t, err)
	must(t, l.Witness(t.Context(), "me", []notifier.Evidence{{Hold: first}}))
}

// The statements of the hot path find their rows by a key or an index, however
// large the tables are: none reads a table from end to end.
func TestStatements_NoneScansATable(t *testing.T) {
	t.Parallel()
	l := open(t)
	walk(t, l)
	plans := 0
	err := l.write(t.Context(), func(w *writer) error {
		var texts []string
		for text := range w.stmts {
			texts = append(texts, text)
		}
		for _, text := range texts {
			err := w.unbound("EXPLAIN QUERY PLAN "+text, func(r row) {
				plans++
				if d := r.str(3); strings.HasPrefix(d, "SCAN") && !strings.Contains(d, "CONSTANT") {
					t.Errorf("%s\n%s", d, text)
				}
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	must(t, err)
	if plans < 20 {
		t.Errorf("only %d steps were looked at", plans)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// unbound runs a statement whose parameters do not matter.
func (w *writer) unbound(text string, each func(row)) error {
	args := make([]any, strings.Count(text, "?"))
	return w.rows(text, func(r row) error {
		each(r)
		return nil
	}, args...)
}
