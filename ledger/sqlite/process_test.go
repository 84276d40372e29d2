package sqlite_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/seed-4b260dfd/notifier"
	"github.com/seed-4b260dfd/notifier/ledger/sqlite"
)

// childOf names the ledger that this binary, run again, opens as another process.
const childOf = "LEDGER_TEST_CHILD"

func TestMain(m *testing.M) {
	if path := os.Getenv(childOf); path != "" {
		if err := child(path); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// child accepts, leases, permits and completes without end, and prints what it
// was told is durable, until it is killed.
func child(path string) error {
	ctx := context.Background()
	l, err := sqlite.Open(ctx, path)
	if err != nil {
		return err
	}
	fmt.Println("open")
	for i := os.Getpid() * 10_000_000; ; i++ {
		order := [...]notifier.Order{notifier.OrderClaimFirst, notifier.OrderSendFirst}[i%2]
		in := benchIntent(i, notifier.FirstLease{Owner: "child", Count: 1})
		in.Order = order
		stored, err := l.Accept(ctx, []notifier.Intent{in, benchIntent(1_000_000+i, notifier.FirstLease{})})
		if err != nil {
			return err
		}
		fmt.Println("accepted", stored[0].ID, stored[1].ID)
		leased := stored[0].Leased
		if order == notifier.OrderClaimFirst {
			if _, err := l.Permit(ctx, "child", []notifier.Permit{{Hold: leased[0].Hold(), For: time.Minute}}); err != nil {
				return err
			}
		}
		if _, err := l.Complete(ctx, "child", completions(leased)); err != nil {
			return err
		}
		fmt.Println("completed", stored[0].ID)
	}
}

// start runs the child on a ledger and returns its lines.
func start(t *testing.T, path string) (*exec.Cmd, *bufio.Scanner, *strings.Builder) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), childOf+"="+path)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd, bufio.NewScanner(out), &stderr
}

func TestOpen_SecondProcess(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "notifier.db")
	cmd, lines, _ := start(t, path)
	if !lines.Scan() || lines.Text() != "open" {
		t.Fatalf("the child said %q", lines.Text())
	}
	_, err := sqlite.Open(t.Context(), path)
	if !errors.Is(err, sqlite.ErrLocked) {
		t.Fatalf("got %v, want ErrLocked", err)
	}
	for _, want := range []string{"process " + strconv.Itoa(cmd.Process.Pid), path, "stop it", "ledger: sqlite:other.db"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q does not say %q", err, want)
		}
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // killed
	l, err := sqlite.Open(t.Context(), path)
	if err != nil {
		t.Fatalf("after the other was killed: %v", err)
	}
	second, other, stderr := start(t, path)
	for other.Scan() {
		t.Errorf("the second process opened it: %s", other.Text())
	}
	if err := second.Wait(); err == nil {
		t.Error("the second process ended without an error")
	}
	if !strings.Contains(stderr.String(), sqlite.ErrLocked.Error()) {
		t.Errorf("the second process said %q", stderr)
	}
	if err := l.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
}

func TestOpen_TwoNamesOfOneFileAreOneLock(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	folder, file := filepath.Join(dir, "folder"), filepath.Join(dir, "file.db")
	path := filepath.Join(dir, "real", "notifier.db")
	for _, step := range []error{
		os.Mkdir(filepath.Dir(path), 0o700),
		os.Symlink(filepath.Dir(path), folder),
		os.Symlink(path, file),
	} {
		if step != nil {
			t.Fatal(step)
		}
	}
	// The first one is there before the file is.
	for _, first := range []string{filepath.Join(folder, "notifier.db"), path} {
		l, err := sqlite.Open(t.Context(), first)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{path, file, filepath.Join(folder, "notifier.db")} {
			if again, err := sqlite.Open(t.Context(), name); !errors.Is(err, sqlite.ErrLocked) {
				t.Errorf("%s is open: got %v for %s, want ErrLocked", first, err, name)
				if err == nil {
					again.Close()
				}
			}
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// A hard link is a name like any other. The log files go by the name, so that
// two processes would each have a log of their own.
func TestOpen_HardLinkIsTheSameLedger(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path, link := filepath.Join(dir, "notifier.db"), filepath.Join(dir, "link.db")
	l, err := sqlite.Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Link(path, link); err != nil {
		t.Fatal(err)
	}
	second, lines, stderr := start(t, link)
	for lines.Scan() {
		t.Errorf("a second process opened it by another name: %s", lines.Text())
		_ = second.Process.Kill()
	}
	if err := second.Wait(); err == nil || !strings.Contains(stderr.String(), sqlite.ErrLocked.Error()) || !strings.Contains(stderr.String(), link) {
		t.Errorf("the second process ended with %v and said %q, want that the ledger is in use", err, stderr)
	}
	if _, err := l.Accept(t.Context(), []notifier.Intent{benchIntent(1, notifier.FirstLease{})}); err != nil {
		t.Error(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := sqlite.Open(t.Context(), link)
	if err != nil {
		t.Fatalf("after Close: %v", err)
	}
	if err := again.Close(); err != nil {
		t.Error(err)
	}
}

func TestOpen_TwiceInOneProcess(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "notifier.db")
	l, err := sqlite.Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := sqlite.Open(t.Context(), path); !errors.Is(err, sqlite.ErrLocked) {
		t.Errorf("got %v, want ErrLocked", err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := sqlite.Open(t.Context(), path)
	if err != nil {
		t.Fatalf("after Close: %v", err)
	}
	if again.ID() != l.ID() {
		t.Errorf("the ledger's id is %s, was %s", again.ID(), l.ID())
	}
	if err := again.Close(); err != nil {
		t.Error(err)
	}
}

// What a method returned without an error is there after SIGKILL, and the rest
// is whole.
func TestLedger_KilledProcess(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "notifier.db")
	want := map[string]notifier.State{}
	for kill := range 5 {
		cmd, lines, stderr := start(t, path)
		for n := 0; n < 20+7*kill && lines.Scan(); n++ {
			told(want, lines.Text())
		}
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		for lines.Scan() {
			told(want, lines.Text())
		}
		_ = cmd.Wait() // killed
		if stderr.Len() > 0 {
			t.Fatalf("the child failed: %s", stderr)
		}
	}
	l, err := sqlite.Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if _, err := l.Sweep(t.Context(), 100, true); err != nil {
		t.Fatal(err)
	}
	for _, wrong := range l.Check(t.Context()) {
		t.Errorf("check: %s", wrong)
	}
	if len(want) < 50 {
		t.Fatalf("the children were told of %d notifications only", len(want))
	}
	for text, state := range want {
		id, err := notifier.ParseID(text)
		if err != nil {
			t.Fatal(err)
		}
		n, err := l.Notification(t.Context(), "default", id)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if state != "" && n.State != state {
			t.Errorf("%s is %s, want %s", text, n.State, state)
		}
	}
}

// told notes what a child was told is durable.
func told(want map[string]notifier.State, line string) {
	words := strings.Fields(line)
	switch words[0] {
	case "accepted":
		for _, id := range words[1:] {
			want[id] = ""
		}
	case "completed":
		want[words[1]] = notifier.StateSent
	}
}
