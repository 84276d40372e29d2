package servertest_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/seed-4b260dfd/notifier/servertest"
)

// doomed tells the test binary to start servers, "redis" or "all" kinds, to say
// which processes they are, and to wait for its end.
const doomed = "SERVERTEST_DOOMED"

func TestMain(m *testing.M) {
	if kinds := os.Getenv(doomed); kinds != "" {
		if err := serveUntilKilled(kinds); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	servertest.Main(m)
}

func serveUntilKilled(kinds string) error {
	r, err := servertest.StartRedis()
	if err != nil {
		return err
	}
	paused, err := servertest.StartRedis()
	if err == nil {
		err = paused.Pause()
	}
	if err != nil {
		return err
	}
	pids := []any{r.Pid(), paused.Pid()}
	if kinds == "all" {
		p, err := servertest.StartPostgres()
		if err != nil {
			return err
		}
		pids = append(pids, p.Pid())
	}
	fmt.Println(pids...)
	select {}
}

// A test process that is killed takes its servers along, stopped ones too, and
// the next one takes away what it left on the disk.
func TestServers_EndWithTheirProcess(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("-short: no servers")
	}
	temporary, err := os.MkdirTemp("", "doomed-*")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(temporary)
	if err := os.Chmod(temporary, 0o711); err != nil {
		t.Fatal(err)
	}
	var left []string
	for kinds, servers := range map[string]int{"all": 3, "redis": 2} {
		pids, kill := startDoomed(t, temporary, kinds)
		if len(pids) != servers {
			t.Errorf("%s: processes %v, want %d", kinds, pids, servers)
		}
		now, _ := filepath.Glob(filepath.Join(temporary, "servertest-*", "lock"))
		if len(now) != 1 || slices.Equal(now, left) {
			t.Errorf("folders: got %v, want one and not %v", now, left)
		}
		left = now
		kill()
		for _, pid := range pids {
			awaitEnd(t, pid)
		}
	}
}

func startDoomed(t *testing.T, temporary, kinds string) (pids []string, kill func()) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), doomed+"="+kinds, "TMPDIR="+temporary)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	kill = func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if pids = strings.Fields(line); err != nil {
		kill()
		t.Fatalf("the doomed process says %q, %v, want numbers", line, err)
	}
	return pids, kill
}

func awaitEnd(t *testing.T, pid string) {
	t.Helper()
	if _, err := strconv.Atoi(pid); err != nil {
		t.Fatal(err)
	}
	ticker, late := time.NewTicker(5*time.Millisecond), time.After(30*time.Second)
	defer ticker.Stop()
	for {
		stat, err := os.ReadFile(filepath.Join("/proc", pid, "stat"))
		if err != nil || strings.Contains(string(stat), ") Z ") {
			return
		}
		select {
		case <-ticker.C:
		case <-late:
			t.Fatalf("process %s outlives its parent", pid)
		}
	}
}
