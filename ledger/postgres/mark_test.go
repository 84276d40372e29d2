package postgres_test

import (
	"path/filepath"
	"strconv"
	"sync"
	"testing"

	"github.com/seed-4b260dfd/notifier"
	"github.com/seed-4b260dfd/notifier/ledger/postgres"
	"github.com/seed-4b260dfd/notifier/servertest"
)

// marks wants a mark to be known, and returns the one that follows it.
func marks(t *testing.T, l *postgres.Ledger, was string) string {
	t.Helper()
	is, known, err := l.Mark(t.Context(), was)
	if err != nil || !known {
		t.Fatalf("mark %q: got known %v, %v; want it known", was, known, err)
	}
	return is
}

func wantUnknown(t *testing.T, l *postgres.Ledger, was string) {
	t.Helper()
	if is, known, err := l.Mark(t.Context(), was); err != nil || known {
		t.Fatalf("mark %q: got %q, known %v, %v; want it unknown", was, is, known, err)
	}
}

func accepts(t *testing.T, l *postgres.Ledger, prefix string) {
	t.Helper()
	if _, err := l.Accept(t.Context(), intents(prefix, 1, notifier.OrderSendFirst)); err != nil {
		t.Fatal(err)
	}
}

func TestMark_MovesOnWithCommitsOnly(t *testing.T) {
	t.Parallel()
	l := open(t, asNode(t, migrated(t)))
	first := marks(t, l, "")
	if got := marks(t, l, first); got != first {
		t.Errorf("got %s while nothing was committed, want %s still", got, first)
	}
	accepts(t, l, "a")
	second := marks(t, l, first)
	if second == first {
		t.Error("a commit did not move the mark on")
	}
	marks(t, l, first) // the older one is known for good
	if _, _, err := l.Mark(t.Context(), "nonsense"); err == nil {
		t.Error("no error for what is no mark")
	}
}

// Nodes that move the mark at once all get marks that every other one knows.
func TestMark_ManyNodes(t *testing.T) {
	t.Parallel()
	url := migrated(t)
	nodes := []*postgres.Ledger{open(t, url), open(t, url), open(t, url)}
	var mu sync.Mutex
	newest := marks(t, nodes[0], "")
	seen := map[string]bool{newest: true}
	var all sync.WaitGroup
	for n, l := range nodes {
		all.Go(func() {
			for i := range 30 {
				accepts(t, l, strconv.Itoa(n)+"-"+strconv.Itoa(i)+"-")
				mu.Lock()
				was := newest
				mu.Unlock()
				is, known, err := l.Mark(t.Context(), was)
				mu.Lock()
				if err != nil || !known || seen[is] {
					t.Errorf("mark %s: got %s, known %v, %v; want a new one", was, is, known, err)
				}
				newest, seen[is] = is, true
				mu.Unlock()
			}
		})
	}
	all.Wait()
	for mark := range seen {
		marks(t, nodes[0], mark)
	}
}

// Of a ledger that was put back the newest mark is missing, also once it has
// given out as many by itself; until a person has had it go on.
func TestMark_LedgerPutBack(t *testing.T) {
	t.Parallel()
	server := servertest.NewPostgres(t)
	url := server.Database(t)
	if _, err := postgres.Migrate(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	l := open(t, url)
	accepts(t, l, "before")
	old := marks(t, l, "")
	backup := filepath.Join(t.TempDir(), "backup")
	if err := server.BaseBackup(backup); err != nil {
		t.Fatal(err)
	}
	accepts(t, l, "lost")
	lost := marks(t, l, old)
	l.Close()
	if err := server.RestoreFrom(backup); err != nil {
		t.Fatal(err)
	}

	l = open(t, url)
	wantUnknown(t, l, lost)
	newest := marks(t, l, old)
	for i := range 5 { // as a node that knows an old mark only would
		accepts(t, l, "after"+strconv.Itoa(i))
		newest = marks(t, l, newest)
	}
	wantUnknown(t, l, lost)

	p, err := l.Pause(t.Context(), notifier.Pause{Order: notifier.OrderClaimFirst, Cause: notifier.PauseRewound})
	if err != nil {
		t.Fatal(err)
	}
	wantUnknown(t, l, lost)
	if _, _, err := l.Resume(t.Context(), p.ID, "ann", ""); err != nil {
		t.Fatal(err)
	}
	next := marks(t, l, lost)
	accepts(t, l, "resumed")
	marks(t, l, next)

	// Put back once more, it has forgotten that it was resumed.
	l.Close()
	if err := server.RestoreFrom(backup); err != nil {
		t.Fatal(err)
	}
	wantUnknown(t, open(t, url), next)
}

// A pause of a person's that ends says nothing about the ledger.
func TestMark_OnlyItsOwnPauseCounts(t *testing.T) {
	t.Parallel()
	l, other := open(t, migrated(t)), open(t, migrated(t))
	accepts(t, other, "a")
	strange := marks(t, other, "")
	p, err := l.Pause(t.Context(), notifier.Pause{Order: notifier.OrderClaimFirst, Cause: notifier.PauseOperator})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := l.Resume(t.Context(), p.ID, "ann", ""); err != nil {
		t.Fatal(err)
	}
	wantUnknown(t, l, strange)
}

func TestUsed_OnceSomethingWasAccepted(t *testing.T) {
	t.Parallel()
	l := open(t, asNode(t, migrated(t)))
	for _, want := range []bool{false, true} {
		got, err := l.Used(t.Context())
		if err != nil || got != want {
			t.Errorf("got used %v, %v, want %v", got, err, want)
		}
		accepts(t, l, "a")
	}
}
