package sqlite

import (
	"strconv"
	"strings"
	"testing"

	"github.com/seed-4b260dfd/notifier"
)

// A disk that is full: SQLite gives a file no more pages, and says so with the
// error of a full disk. The probe says what an accept would.
func TestProbe_FullDisk(t *testing.T) {
	t.Parallel()
	l := open(t)
	grow := func(pages string) {
		t.Helper()
		must(t, l.write(t.Context(), func(w *writer) error {
			_, err := w.first("PRAGMA max_page_count = " + pages)
			return err
		}))
	}
	must(t, l.Probe(t.Context()))
	grow("1") // no less than it has
	full := error(nil)
	for i := 0; full == nil && i < 1000; i++ {
		in := intent("k-" + strconv.Itoa(i))
		in.Deliveries[0].Content = make([]byte, 8<<10)
		_, full = l.Accept(t.Context(), []notifier.Intent{in})
	}
	if full == nil || !strings.Contains(full.Error(), "full") {
		t.Fatalf("got %v, want that the disk is full", full)
	}
	for range 3 {
		if err := l.Probe(t.Context()); err == nil || !strings.Contains(err.Error(), "full") {
			t.Errorf("got %v while the disk is full, want that", err)
		}
	}
	grow("1000000")
	must(t, l.Probe(t.Context()))
	_, err := l.Accept(t.Context(), []notifier.Intent{intent("after")})
	must(t, err)
	for _, wrong := range append(l.Check(t.Context()), l.CheckTally(t.Context())...) {
		t.Errorf("check: %s", wrong)
	}
}

// However often it is done, a probe leaves nothing that grows, and counts as no commit.
func TestProbe_LeavesNothing(t *testing.T) {
	t.Parallel()
	l := open(t)
	pages := func() (n int64) {
		must(t, l.write(t.Context(), func(w *writer) error {
			r, err := w.first("PRAGMA page_count")
			n = r.int(0)
			return err
		}))
		return n
	}
	must(t, l.Probe(t.Context()))
	must(t, l.Probe(t.Context()))
	before, commits := pages(), l.Commits()
	for range 50 {
		must(t, l.Probe(t.Context()))
	}
	if got := pages(); got != before {
		t.Errorf("got %d pages after 50 probes, want %d", got, before)
	}
	if got := l.Commits(); got != commits {
		t.Errorf("probes were counted as %d commits", got-commits)
	}
}
