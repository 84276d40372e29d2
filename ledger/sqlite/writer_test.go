package sqlite

import (
	"context"
	"errors"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seed-4b260dfd/notifier"
)

func open(t *testing.T) *Ledger {
	t.Helper()
	l, err := Open(t.Context(), filepath.Join(t.TempDir(), "notifier.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return l
}

func intent(key string) notifier.Intent {
	return notifier.Intent{
		Tenant: "shop", Key: key, Type: "t", Order: notifier.OrderSendFirst, KeepFor: time.Hour,
		Deliveries: []notifier.Delivery{{Lane: notifier.Lane{Channel: notifier.ChannelEmail, Account: "main", Priority: notifier.PriorityNormal}}},
	}
}

// hold keeps the writer busy until the function that it returns is called.
func hold(t *testing.T, l *Ledger) (release func()) {
	t.Helper()
	started, free := make(chan struct{}), make(chan struct{})
	ended := make(chan error, 1)
	go func() {
		ended <- l.write(context.Background(), func(*writer) error {
			close(started)
			<-free
			return nil
		})
	}()
	<-started
	return func() {
		close(free)
		if err := <-ended; err != nil {
			t.Errorf("the operation that held the writer: %v", err)
		}
	}
}

func TestWriter_SyncsEveryCommit(t *testing.T) {
	t.Parallel()
	l := open(t)
	const full = 2 // https://www.sqlite.org/pragma.html#pragma_synchronous
	var got, journal row
	err := l.write(t.Context(), func(w *writer) (err error) {
		if got, err = w.first("PRAGMA synchronous"); err != nil {
			return err
		}
		journal, err = w.first("PRAGMA journal_mode")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if got.int(0) != full || journal.str(0) != "wal" {
		t.Errorf("synchronous is %d and the journal is %q; want %d and wal", got.int(0), journal.str(0), full)
	}
}

func TestWriter_OperationsThatWaitShareACommit(t *testing.T) {
	t.Parallel()
	l := open(t)
	// Acceptances wait while a commit is under way; however the scheduler has
	// it, they do not get one each.
	const n = 200
	before := l.Commits()
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			if _, err := l.Accept(t.Context(), []notifier.Intent{intent(strconv.Itoa(i))}); err != nil {
				t.Errorf("accept: %v", err)
			}
		})
	}
	all.Wait()
	if got := l.Commits() - before; got == 0 || got > n/2 {
		t.Errorf("%d acceptances took %d commits, want them shared", n, got)
	}
}

func TestWriter_ReadingCommitsNothing(t *testing.T) {
	t.Parallel()
	l := open(t)
	before := l.Commits()
	if _, err := l.Lease(t.Context(), intent("").Deliveries[0].Lane, 10, "me"); err != nil {
		t.Fatal(err)
	}
	first := l.Commits() // the lane is new
	for range 3 {
		if _, err := l.Lease(t.Context(), intent("").Deliveries[0].Lane, 10, "me"); err != nil {
			t.Fatal(err)
		}
		if _, err := l.Sweep(t.Context(), 10, false); err != nil {
			t.Fatal(err)
		}
	}
	if l.Commits() != first || first > before+1 {
		t.Errorf("%d commits for nothing", l.Commits()-first)
	}
}

func TestWriter_ABadOperationStandsAlone(t *testing.T) {
	t.Parallel()
	l := open(t)
	bad := errors.New("bad")
	group := make([]*op, 5)
	for i := range group {
		key := strconv.Itoa(i)
		group[i] = &op{done: make(chan struct{}), run: func(w *writer) error {
			in := intent(key)
			_, err := w.accept(&in)
			if err == nil && key == "2" {
				err = bad // after it has written
			}
			return err
		}}
	}
	// The writer waits in an operation, so the group may use what it owns.
	err := l.write(t.Context(), func(w *writer) error {
		if _, err := w.exec("COMMIT"); err != nil {
			return err
		}
		l.commit(w, group)
		return w.begin()
	})
	if err != nil {
		t.Fatal(err)
	}
	for i, o := range group {
		<-o.done
		if want := i == 2; errors.Is(o.err, bad) != want {
			t.Errorf("operation %d: got %v", i, o.err)
		}
		_, err := l.ByKey(t.Context(), "shop", strconv.Itoa(i))
		if stored := err == nil; stored == (i == 2) {
			t.Errorf("operation %d: stored %v", i, stored)
		}
	}
	for _, wrong := range append(l.Check(t.Context()), l.CheckTally(t.Context())...) {
		t.Errorf("check: %s", wrong)
	}
}

func TestWriter_OutcomeRowIsUnique(t *testing.T) {
	t.Parallel()
	l := open(t)
	in := intent("k")
	in.Lease = notifier.FirstLease{Owner: "me", Count: 1}
	s, err := l.Accept(t.Context(), []notifier.Intent{in, intent("other")})
	if err != nil {
		t.Fatal(err)
	}
	h := s[0].Leased[0].Hold()
	done := notifier.Completion{Hold: h, State: notifier.StateSent}
	if _, err := l.Complete(t.Context(), "me", []notifier.Completion{done}); err != nil {
		t.Fatal(err)
	}
	// A queue row that must not exist: the key of the outcome table refuses it
	// a second outcome, and everything of the operation with it.
	err = l.write(t.Context(), func(w *writer) error {
		_, err := w.exec(`INSERT INTO queue SELECT o.nid, o.ch, o.d, q.lane, q.ord, 0, 'leased', '', 0, 1, NULL, 'me', '', 0, 0, 0, q.expires_at, 0, 0, 0, ''
			FROM outcome o, queue q`)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if wrong := l.Check(t.Context()); len(wrong) == 0 {
		t.Error("check saw nothing")
	}
	if _, err := l.Complete(t.Context(), "me", []notifier.Completion{done}); err == nil || !strings.Contains(err.Error(), "UNIQUE") {
		t.Errorf("got %v, want the table's key to refuse it", err)
	}
}

func TestWriter_ContextEndsWhileQueued(t *testing.T) {
	t.Parallel()
	l := open(t)
	release := hold(t, l)
	ctx, cancel := context.WithCancel(t.Context())
	answered := make(chan error, 1)
	go func() {
		_, err := l.Accept(ctx, []notifier.Intent{intent("k")})
		answered <- err
	}()
	cancel()
	if err := <-answered; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want canceled", err)
	}
	release()
	if _, err := l.ByKey(t.Context(), "shop", "k"); err == nil {
		t.Error("what was taken out of the queue was written")
	}
}

func TestWriter_ContextEndsWhileItWrites(t *testing.T) {
	t.Parallel()
	l := open(t)
	ctx, cancel := context.WithCancel(t.Context())
	err := l.write(ctx, func(w *writer) error {
		cancel()
		in := intent("k")
		_, err := w.accept(&in)
		return err
	})
	if err != nil {
		t.Errorf("got %v, want the commit's answer", err)
	}
	if _, err := l.ByKey(t.Context(), "shop", "k"); err != nil {
		t.Errorf("not written: %v", err)
	}
}

func TestClose_LaterOperationsAreRefused(t *testing.T) {
	t.Parallel()
	l, err := Open(t.Context(), filepath.Join(t.TempDir(), "notifier.db"))
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := l.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	}
	if _, err := l.Accept(t.Context(), []notifier.Intent{intent("k")}); !errors.Is(err, ErrClosed) {
		t.Errorf("got %v, want ErrClosed", err)
	}
}

func TestWriter_EndsATransactionThatWasLeftOpen(t *testing.T) {
	t.Parallel()
	l := open(t)
	err := l.write(t.Context(), func(w *writer) error {
		return w.begin() // there is one open: it is ended, and a fresh one begun
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.Accept(t.Context(), []notifier.Intent{intent("k")}); err != nil {
		t.Error(err)
	}
}
