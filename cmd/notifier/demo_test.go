package main

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"
)

// demoRun is a "notifier demo" in a temporary folder of its own.
type demoRun struct {
	t      *testing.T
	cmd    *exec.Cmd
	tmp    string
	exited chan struct{}

	mu             sync.Mutex
	stdout, stderr bytes.Buffer
}

// writer is one of the run's outputs, safe to be read meanwhile.
type writer struct {
	r *demoRun
	b *bytes.Buffer
}

func (w writer) Write(p []byte) (int, error) {
	w.r.mu.Lock()
	defer w.r.mu.Unlock()
	return w.b.Write(p)
}

func (r *demoRun) printed() (stdout, stderr string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.stdout.String(), r.stderr.String()
}

func startDemo(t *testing.T, bin string, args ...string) *demoRun {
	t.Helper()
	r := &demoRun{t: t, tmp: t.TempDir(), exited: make(chan struct{})}
	r.cmd = exec.Command(bin, append([]string{"demo"}, args...)...)
	r.cmd.Env = append(os.Environ(), "TMPDIR="+r.tmp)
	r.cmd.Stdout, r.cmd.Stderr = writer{r, &r.stdout}, writer{r, &r.stderr}
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = r.cmd.Wait() // how it ended is in ProcessState
		close(r.exited)
	}()
	t.Cleanup(func() {
		_ = r.cmd.Process.Kill() // it has ended, unless the test failed
		<-r.exited
	})
	return r
}

// ends waits for the end of the process and checks its exit code.
func (r *demoRun) ends(want int) {
	r.t.Helper()
	select {
	case <-r.exited:
	case <-time.After(2 * demoPatience):
		out, _ := r.printed()
		r.t.Fatalf("the demo did not end:\n%s", out)
	}
	if got := r.cmd.ProcessState.ExitCode(); got != want {
		out, err := r.printed()
		r.t.Fatalf("exit code %d, want %d\n%s\n%s", got, want, out, err)
	}
}

// prints waits for a text on stdout.
func (r *demoRun) prints(text string) {
	r.t.Helper()
	eventually(r.t, "the demo prints "+text, func() bool {
		out, _ := r.printed()
		return strings.Contains(out, text)
	})
}

var (
	demoProcess = regexp.MustCompile(`process (\d+)`)
	demoURL     = regexp.MustCompile(`The API answers on (\S+) until`)
)

// leavesNothing checks that every process that was named is gone.
func (r *demoRun) leavesNothing() {
	r.t.Helper()
	out, _ := r.printed()
	named := demoProcess.FindAllStringSubmatch(out, -1)
	if len(named) < 2 {
		r.t.Fatalf("no processes are named:\n%s", out)
	}
	for _, m := range named {
		pid, err := strconv.Atoi(m[1])
		if err != nil {
			r.t.Fatal(err)
		}
		eventually(r.t, "process "+m[1]+" is gone", func() bool { return !runs(pid, r.cmd.Path) })
	}
}

// runs says whether a process runs and is of the binary: its number may have
// gone to another, and one that nobody has waited for has no files any more.
func runs(pid int, binary string) bool {
	if errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
		return false
	}
	exe, err := os.Readlink("/proc/" + strconv.Itoa(pid) + "/exe")
	return err == nil && exe == binary
}

// removesFolder checks that nothing is left in the folder for temporary files.
func (r *demoRun) removesFolder() {
	r.t.Helper()
	left, err := os.ReadDir(r.tmp)
	if err != nil {
		r.t.Fatal(err)
	}
	for _, e := range left {
		r.t.Errorf("%s is left behind", e.Name())
	}
}

// One build plays in every way in which a demo is begun and ended.
func TestDemo(t *testing.T) {
	t.Parallel()
	bin := buildBinary(t)
	for name, test := range map[string]func(*testing.T, string){
		"plays the story":                   demoPlaysTheStory,
		"serves until interrupted":          demoServesUntilInterrupted,
		"interrupted in the story":          demoInterruptedInTheStory,
		"killed, takes its processes along": demoKilledTakesItsProcessesAlong,
		"says that the port is taken":       demoSaysThatThePortIsTaken,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, bin)
		})
	}
}

func demoPlaysTheStory(t *testing.T, bin string) {
	r := startDemo(t, bin, "-once")
	began := time.Now()
	r.ends(0)
	if took := time.Since(began); took > time.Minute {
		t.Errorf("it took %s, want less than a minute", took)
	}
	out, stderr := r.printed()
	if stderr != "" {
		t.Errorf("stderr: %s", stderr)
	}
	for _, s := range scenes() {
		if !strings.Contains(out, ", "+s.name+": "+s.title) || !strings.Contains(out, s.moral) {
			t.Errorf("the scene %s is not told as it should come out", s.name)
		}
	}
	// type, order, intents, requests, repeats caught, effects, possibly repeated, possibly lost
	for _, row := range []string{
		"price_drop claim_first 10 11 0 10 0 7",
		"weekly_digest claim_first 9 9 0 9 0 7",
		"login_code send_first 1 1 19 1 0 0",
		"order_shipped send_first 12 23 4 23 9 0",
		"payment_event send_first 2 3 0 2 0 0",
	} {
		if !regexp.MustCompile(`(?m)^` + strings.ReplaceAll(row, " ", " +") + `$`).MatchString(out) {
			t.Errorf("the table has no row %q", row)
		}
	}
	for _, line := range strings.Split(out, "\n") {
		if n := utf8.RuneCountInString(line); n > storyWidth && !strings.Contains(line, r.tmp) {
			t.Errorf("%d columns: %s", n, line)
		}
		if strings.Contains(line, "BROKEN") {
			t.Error(line)
		}
	}
	if t.Failed() {
		t.Log(out)
	}
	r.leavesNothing()
	r.removesFolder()
}

// Without the permit a crash makes claim-first send again. The demo must see it.
func TestDemo_SeesMissingPermit(t *testing.T) {
	t.Parallel()
	r := startDemo(t, buildBinary(t, "mutant_no_permit"), "-once")
	r.ends(3)
	out, stderr := r.printed()
	want := regexp.MustCompile(`^notifier: demo: the providers' log contradicts the promise: claim_first: .* (price_drop|weekly_digest) \w+ dlv_\w+: 2 effects of 2 requests\n$`)
	if !want.MatchString(stderr) {
		t.Errorf("stderr: got %q, want one line like %s", stderr, want)
	}
	if !regexp.MustCompile(`(?m)^price_drop +claim_first +10 +17 +0 +16 `).MatchString(out) {
		t.Errorf("the table does not show the second effects:\n%s", out)
	}
	r.leavesNothing()
	r.removesFolder()
}

// Afterwards the API answers, until somebody ends it.
func demoServesUntilInterrupted(t *testing.T, bin string) {
	r := startDemo(t, bin, "-scene", "key-reuse")
	r.prints("The API answers on ")
	out, _ := r.printed()
	m := demoURL.FindStringSubmatch(out)
	if m == nil {
		t.Fatalf("it does not say where:\n%s", out)
	}
	got, err := callAPI(context.Background(), http.MethodPost, m[1]+"/v1/notifications", "demo/1", order("u_you", "1"))
	if err != nil || got.status != http.StatusAccepted {
		t.Errorf("a request like the one it shows: %+v, %v", got, err)
	}
	if err := r.cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	r.ends(0)
	r.leavesNothing()
	r.removesFolder()
}

// Interrupted in the middle, while answers are lost and repeats are due.
func demoInterruptedInTheStory(t *testing.T, bin string) {
	r := startDemo(t, bin, "-once", "-scene", "cap")
	r.prints("answer dropped")
	// Impatient people press it twice.
	for range 2 {
		if err := r.cmd.Process.Signal(os.Interrupt); err != nil {
			t.Fatal(err)
		}
	}
	r.ends(1)
	if _, stderr := r.printed(); stderr != "notifier: demo: interrupted; its processes are ended and its folder is removed\n" {
		t.Errorf("stderr: %q", stderr)
	}
	r.leavesNothing()
	r.removesFolder()
}

// Killed it can clear up nothing, but its processes end with it.
func demoKilledTakesItsProcessesAlong(t *testing.T, bin string) {
	r := startDemo(t, bin, "-once", "-scene", "cap")
	r.prints("answer dropped")
	if err := r.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	r.ends(-1)
	r.leavesNothing()
}

func demoSaysThatThePortIsTaken(t *testing.T, bin string) {
	if l, err := net.Listen("tcp", demoAddress); err == nil { // otherwise somebody else has it
		defer l.Close()
	}
	r := startDemo(t, bin, "-scene", "key-reuse")
	r.prints("The API answers on http://127.0.0.1:")
	out, _ := r.printed()
	if first, _, _ := strings.Cut(out, "\n"); !strings.HasPrefix(first, demoAddress+" is not free (address already in use)") {
		t.Errorf("the first line is %q", first)
	}
	if strings.Contains(out, "The API answers on http://"+demoAddress) {
		t.Error("it says that it answers where something else does")
	}
	if err := r.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	r.ends(0)
}

func TestDemo_UnknownScene(t *testing.T) {
	t.Parallel()
	var stdout, stderr bytes.Buffer
	code := execute(t.Context(), []string{"demo", "-scene", "finale"}, func(string) string { return "" }, &stdout, &stderr)
	want := "notifier: demo: there is no scene \"finale\"; scenes: repeats, key-reuse, lost-reply, retry-after, crash, cap, collapse\n"
	if code != 2 || stderr.String() != want || stdout.Len() > 0 {
		t.Errorf("exit code %d, stderr %q, want 2 and %q", code, stderr.String(), want)
	}
}
