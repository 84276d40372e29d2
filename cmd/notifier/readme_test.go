package main

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/seed-4b260dfd/notifier/servertest"
)

// readmeCommands are the lines of a block of commands in README, by its mark.
func readmeCommands(t *testing.T, mark string) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	block := regexp.MustCompile("(?s)<!-- " + mark + " -->\n```sh\n(.*?)\n```").FindSubmatch(text)
	if block == nil {
		t.Fatalf("README has no block of commands marked %s", mark)
	}
	return strings.Split(string(block[1]), "\n")
}

// typed types lines in an empty folder with only the binary on the PATH, as a
// shell would, and returns what each command printed, by its name.
func typed(t *testing.T, lines []string) (seen map[string]string) {
	t.Helper()
	dir := t.TempDir()
	bin := filepath.Dir(buildBinary(t))
	env := append(os.Environ(), "PATH="+bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	// The folder in which a shell for every line would otherwise look for settings.
	env = append(env, "HOME="+dir)
	seen = map[string]string{}
	for _, line := range lines {
		background := strings.HasSuffix(line, " &")
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		cmd := exec.CommandContext(ctx, "sh", "-c", "exec "+strings.TrimSuffix(line, " &"))
		var stdout, stderr bytes.Buffer
		cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = dir, env, &stdout, &stderr
		if background {
			startInBackground(t, cmd)
			continue
		}
		if err := cmd.Run(); err != nil {
			t.Fatalf("%s: %v\n%s%s", line, err, &stdout, &stderr)
		}
		seen[strings.Fields(line)[1]] = stdout.String()
	}
	return seen
}

// wantSent holds that the message was sent, and that status says so.
func wantSent(t *testing.T, seen map[string]string) {
	t.Helper()
	if !strings.Contains(seen["send"], `"state":"sent"`) {
		t.Errorf("send printed %s, want a notification that is sent", seen["send"])
	}
	if !strings.Contains(seen["status"], "order-42/shipped") || !strings.Contains(seen["status"], "sent") {
		t.Errorf("status printed %s, want the timeline of the notification", seen["status"])
	}
}

// TestREADME_FirstMessage types what README says of the first message.
func TestREADME_FirstMessage(t *testing.T) {
	wantSent(t, typed(t, readmeCommands(t, "test:readme")))
}

// TestREADME_ManyNodes types what it says of three nodes on one machine.
func TestREADME_ManyNodes(t *testing.T) {
	servers := strings.NewReplacer("postgres://postgres@localhost/postgres", servertest.SharedPostgres(t).Database(t),
		"redis://localhost:6379/0", servertest.SharedRedis(t).URL())
	lines := readmeCommands(t, "test:nodes")
	for i, line := range lines {
		if lines[i] = servers.Replace(line); strings.HasPrefix(line, "sed") && strings.Contains(lines[i], "localhost") {
			t.Fatalf("%s: want it to name the servers of this test", lines[i])
		}
	}
	wantSent(t, typed(t, lines))
}

// startInBackground starts a command that goes on while the next lines are
// typed, as the shell's & does.
func startInBackground(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 20 * time.Second
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		if _ = cmd.Wait(); t.Failed() {
			t.Logf("%s printed:\n%s", cmd, &out)
		}
	})
}
