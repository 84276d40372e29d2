package main

import (
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/seed-4b260dfd/notifier"
	"github.com/seed-4b260dfd/notifier/servertest"
)

// sharedFolder is a folder to serve from, over an empty database.
func sharedFolder(t *testing.T) (dir string) {
	t.Helper()
	dir = installation(t, startProviders(t), 0, map[string]string{
		"note": quickPolicy(notifier.OrderSendFirst, 0), "digest": quickPolicy(notifier.OrderClaimFirst, 0)})
	return nodeFolder(t, dir, servertest.SharedPostgres(t).Database(t), servertest.SharedRedis(t).URL())
}

// ended runs a command of its own process to its end.
func ended(bin, dir string, args ...string) (stdout, stderr string, code int) {
	var out, errs strings.Builder
	cmd := exec.Command(bin, append(args, "-config", filepath.Join(dir, configName))...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	cmd.Env = append(cmd.Environ(), listenVariable+"=127.0.0.1:0")
	_ = cmd.Run() // how it ended is in ProcessState
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

// Two migrators at once: each migration is applied once, by one of them, and
// to neither is it an error. Before it, a node refuses to start.
func TestMigrate_TwoProcessesAtOnce(t *testing.T) {
	t.Parallel()
	bin, dir := buildBinary(t), sharedFolder(t)
	if _, stderr, code := ended(bin, dir, "serve"); code != 1 || !strings.HasSuffix(stderr, "run \"notifier migrate\"\n") {
		t.Errorf("serve on an empty database: got exit code %d, %q; want 1, and what to run", code, stderr)
	}
	migrations, err := filepath.Glob("../../ledger/postgres/schema/*.sql")
	if err != nil || len(migrations) == 0 {
		t.Fatalf("got %d migrations, %v", len(migrations), err)
	}
	var printed [2]string
	var both sync.WaitGroup
	for i := range printed {
		both.Go(func() {
			stdout, stderr, code := ended(bin, dir, "migrate")
			if code != 0 {
				t.Errorf("migrate: got exit code %d, %s", code, stderr)
			}
			printed[i] = stdout
		})
	}
	both.Wait()
	for _, m := range migrations {
		line := "applied schema/" + filepath.Base(m) + "\n"
		if n := strings.Count(printed[0]+printed[1], line); n != 1 {
			t.Errorf("%q is printed %d times, want once:\n%s\n%s", line, n, printed[0], printed[1])
		}
	}
	if stdout, stderr, code := ended(bin, dir, "migrate"); code != 0 || !strings.HasPrefix(stdout, "nothing to do") {
		t.Errorf("migrate again: got exit code %d, %q, %s; want nothing to do", code, stdout, stderr)
	}
}

// Two nodes that begin together with an empty database both come up.
func TestServe_TwoMigrateAtOnce(t *testing.T) {
	t.Parallel()
	bin, dir := buildBinary(t), sharedFolder(t)
	var both sync.WaitGroup
	nodes := [2]*server{}
	for i := range nodes {
		nodes[i] = newServer(t, bin, dir)
		nodes[i].args = []string{"-migrate"}
		both.Go(nodes[i].start)
	}
	both.Wait()
	if t.Failed() {
		return
	}
	m := message{Key: "k", Type: "note", Recipient: "u", To: to(nil, "apns", 1), Data: map[string]string{"text": "hello"}}
	var ids [2]string
	for i, s := range nodes {
		id, err := s.send(m)
		if err != nil {
			t.Fatal(err)
		}
		ids[i] = id
	}
	if ids[0] != ids[1] {
		t.Errorf("got %v, want one notification from both nodes", ids)
	}
	if n := nodes[1].settled(ids[:1])[0]; n.State != notifier.StateSent {
		t.Errorf("got %s, want sent", n.State)
	}
}

// A node that is told that the ledger was put back sends nothing of
// claim-first, and neither does its neighbour, until a person resumes it.
func TestServe_RestoredKeepsClaimFirstPaused(t *testing.T) {
	t.Parallel()
	bin, dir := buildBinary(t), sharedFolder(t)
	told, neighbour := newServer(t, bin, dir), newServer(t, bin, dir)
	told.args = []string{"-migrate", "-restored"}
	told.start()
	told.kill()
	told.start() // the same pause is placed again, and stays one
	neighbour.start()

	pauses := cliFor(t, neighbour).ok("pauses")
	if strings.Count(pauses, "\n") != 1 || !strings.Contains(pauses, "-restored") {
		t.Fatalf("the pauses in force are %q, want one that -restored placed", pauses)
	}
	send := func(key, typ string, n int) string {
		id, err := neighbour.send(message{Key: key, Type: typ, Recipient: "u", To: to(nil, "apns", n), Data: map[string]string{"text": "hello"}})
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	note, digest := send("n", "note", 1), send("d", "digest", 2)
	if n := neighbour.settled([]string{note})[0]; n.State != notifier.StateSent {
		t.Errorf("send-first: got %s, want sent", n.State)
	}
	held := pausedOrEnded(neighbour, digest)
	if held.State != notifier.StatePending || held.Deliveries[0].Reason != notifier.ReasonPaused || len(held.Deliveries[0].Attempts) != 0 {
		t.Errorf("claim-first: got %s %s with %d attempts, want it paused and not tried", held.State, held.Deliveries[0].Reason, len(held.Deliveries[0].Attempts))
	}
	(&cluster{nodes: []*server{told, neighbour}}).awaitDegraded(t, string(notifier.PauseRewound))
	cliFor(t, neighbour).ok("resume", strings.Fields(pauses)[0], "-why", "looked at")
	if n := told.settled([]string{digest})[0]; n.State != notifier.StateSent {
		t.Errorf("claim-first after it was resumed: got %s, want sent", n.State)
	}
}

// pausedOrEnded reads a notification once it shows that a pause holds it, or
// that none does.
func pausedOrEnded(s *server, id string) (n notifier.Notification) {
	within(patience, func() (ok bool) {
		n, ok = s.notification(id)
		return ok && (n.State != notifier.StatePending || n.Deliveries[0].Reason == notifier.ReasonPaused)
	})
	return n
}
