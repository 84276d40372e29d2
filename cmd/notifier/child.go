package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// child is another process of this binary: the real thing, that can be
// killed. It ends with the process that started it, however that ends.
type child struct {
	name string
	// lines are what it had printed when it was ready; url is where it answers.
	lines  []string
	url    string
	pid    int
	log    string
	cmd    *exec.Cmd
	exited chan struct{}
}

// listening begins the line in which a server says where it answers.
const listening = "listening on "

const (
	// childStart is how long a process may take until it is ready. Machines are busy.
	childStart = 90 * time.Second
	// childEnd is how long a process has to end in order before it is killed.
	childEnd = 5 * time.Second
)

// startChild runs this binary with args and returns when it has printed a
// line that begins with ready.
func startChild(ctx context.Context, dir, ready string, args ...string) (*child, error) {
	binary, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	c := &child{name: args[0], log: filepath.Join(dir, args[0]+".log"), exited: make(chan struct{})}
	stderr, err := os.OpenFile(c.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("make a log: %w", err)
	}
	defer stderr.Close()
	c.cmd = exec.Command(binary, args...)
	c.cmd.Dir, c.cmd.Stderr, c.cmd.SysProcAttr = dir, stderr, dieWithParent()
	stdout, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", c.name, err)
	}
	started, printed := make(chan error, 1), make(chan string, 64)
	go c.run(stdout, started, printed)
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", c.name, err)
	}
	c.pid = c.cmd.Process.Pid
	if err := c.awaitReady(ctx, ready, printed); err != nil {
		c.kill()
		return nil, err
	}
	return c, nil
}

// run starts the process, reads what it prints to its end and waits for it.
func (c *child) run(stdout io.Reader, started chan<- error, printed chan<- string) {
	// The kernel ends the child with the thread that started it, not with the
	// process: the thread is kept for as long as the child lives.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := c.cmd.Start()
	started <- err
	if err != nil {
		return
	}
	for lines := bufio.NewScanner(stdout); lines.Scan(); {
		select {
		case printed <- lines.Text():
		default: // nobody reads what comes after it was ready
		}
	}
	_ = c.cmd.Wait() // how it ended is in ProcessState
	close(c.exited)
}

func (c *child) awaitReady(ctx context.Context, ready string, printed <-chan string) error {
	late := time.NewTimer(childStart)
	defer late.Stop()
	for {
		select {
		case line := <-printed:
			c.lines = append(c.lines, line)
			if strings.HasPrefix(line, ready) {
				return nil
			}
		case <-c.exited:
			return c.failed()
		case <-ctx.Done():
			return ctx.Err()
		case <-late.C:
			return fmt.Errorf("%s was not ready after %s", c.name, childStart)
		}
	}
}

// printed returns the last word of the line that begins with prefix.
func (c *child) printed(prefix string) string {
	for _, line := range c.lines {
		if rest, ok := strings.CutPrefix(line, prefix); ok {
			return strings.TrimSpace(rest)
		}
	}
	return ""
}

// failed says why a process ended that should not have: the end of its log.
func (c *child) failed() error {
	text, err := os.ReadFile(c.log)
	if err != nil {
		return errors.Join(fmt.Errorf("%s ended: %v", c.name, c.cmd.ProcessState), err)
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return fmt.Errorf("%s ended (%v): %s", c.name, c.cmd.ProcessState, lines[len(lines)-1])
}

// kill ends the process with SIGKILL and returns when it is gone.
func (c *child) kill() {
	_ = c.cmd.Process.Kill() // it may have ended by itself
	<-c.exited
}

// stop ends the process in order, and kills it when that takes too long.
func (c *child) stop() {
	_ = c.cmd.Process.Signal(syscall.SIGTERM) // it may have ended by itself
	late := time.NewTimer(childEnd)
	defer late.Stop()
	select {
	case <-c.exited:
	case <-late.C:
		c.kill()
	}
}
