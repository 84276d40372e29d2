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
)

// readmeCommands are the lines of README's block of first commands.
func readmeCommands(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	block := regexp.MustCompile("(?s)<!-- test:readme -->\n```sh\n(.*?)\n```").FindSubmatch(text)
	if block == nil {
		t.Fatal("README has no block of commands marked test:readme")
	}
	return strings.Split(string(block[1]), "\n")
}

// TestREADME_FirstMessage types what README says, in an empty folder with only
// the binary on the PATH, as a shell would.
func TestREADME_FirstMessage(t *testing.T) {
	dir := t.TempDir()
	bin := filepath.Dir(buildBinary(t))
	env := append(os.Environ(), "PATH="+bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	// The folder in which a shell for every line would otherwise look for settings.
	env = append(env, "HOME="+dir)
	seen := map[string]string{}
	for _, line := range readmeCommands(t) {
		background := strings.HasSuffix(line, " &")
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		cmd := exec.CommandContext(ctx, "sh", "-c", "exec "+strings.TrimSuffix(line, " &"))
		var stdout, stderr bytes.Buffer
		cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = dir, env, &stdout, &stderr
		word := strings.Fields(line)[1]
		if background {
			startInBackground(t, cmd)
			continue
		}
		if err := cmd.Run(); err != nil {
			t.Fatalf("%s: %v\n%s%s", line, err, &stdout, &stderr)
		}
		seen[word] = stdout.String()
	}
	if !strings.Contains(seen["send"], `"state":"sent"`) {
		t.Errorf("send printed %s, want a notification that is sent", seen["send"])
	}
	if !strings.Contains(seen["status"], "order-42/shipped") || !strings.Contains(seen["status"], "sent") {
		t.Errorf("status printed %s, want the timeline of the notification", seen["status"])
	}
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
