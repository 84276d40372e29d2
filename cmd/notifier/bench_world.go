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
	"strings"
	"syscall"
	"time"

	"github.com/seed-4b260dfd/notifier"
	"github.com/seed-4b260dfd/notifier/channels/simulate"
)

// The types that are sent. Each has a cap, since real ones do, that is never
// reached and soon forgets.
const (
	benchSendFirst  = "bench_send_first"
	benchClaimFirst = "bench_claim_first"
)

var benchOrders = [...]struct {
	order notifier.Order
	typ   string
}{{notifier.OrderSendFirst, benchSendFirst}, {notifier.OrderClaimFirst, benchClaimFirst}}

const (
	benchPolicy = `order: %s
description: Load.
channels: [{channel: apns, template: bench}]
data: {n: {required: true}}
expires_after: 1h
caps: [{name: bench, per: [recipient], limit: 1000, window: 10s}]
`
	benchTemplate = `title: A measurement
body: "Number {{.n}}."
`
	benchConfig = `listen: {http: "127.0.0.1:0"}
log: {level: warn, format: text}
channels:
  apns:
    shop:
      key_file: %q
      key_id: %s
      team_id: %s
      topic: %s
      environment: sandbox
      endpoint: %q
      ca_file: %q
      allow_private: true
      max_in_flight: %d
`
)

// benchWorld is a folder with the processes that live in it.
type benchWorld struct {
	dir                      string
	simulator, server, chain *child
}

// startWorld starts providers, server and bare chain in a temporary folder.
func startWorld(ctx context.Context, inflight int) (w *benchWorld, err error) {
	w = new(benchWorld)
	defer func() {
		if err != nil {
			w.close()
		}
	}()
	if w.dir, err = os.MkdirTemp("", "notifier-bench-"); err != nil {
		return w, fmt.Errorf("make a folder: %w", err)
	}
	files, err := simulate.Init(w.dir, simulate.Config{Dir: w.dir})
	if err != nil {
		return w, err
	}
	const anyPort = "127.0.0.1:0"
	if w.simulator, err = startChild(ctx, w.dir, "apns ", "simulate", "-dir", w.dir, "-apns", anyPort, "-smtp", anyPort, "-http", anyPort); err != nil {
		return w, err
	}
	// Several times the requests in flight, since an accepted request frees its
	// client before it is sent: the slots are not what is measured.
	config := fmt.Sprintf(benchConfig, files.APNsKeyFile, files.APNsKeyID, files.APNsTeamID, files.APNsTopic, w.simulator.url, files.CAFile, 8*inflight)
	todo := []newFile{{"templates/bench/push.yaml", []byte(benchTemplate)}, {configName, []byte(config)}}
	for _, o := range benchOrders {
		todo = append(todo, newFile{"policies/" + o.typ + ".yaml", fmt.Appendf(nil, benchPolicy, o.order)})
	}
	for _, file := range todo {
		if err = file.write(w.dir); err != nil {
			return w, err
		}
	}
	if w.server, err = startChild(ctx, w.dir, "listening on ", "serve", "-config", filepath.Join(w.dir, configName)); err != nil {
		return w, err
	}
	w.chain, err = startChild(ctx, w.dir, "listening on ", "bench", "chain", w.dir)
	return w, err
}

func (w *benchWorld) log() string { return filepath.Join(w.dir, simulate.LogName) }

// close ends the processes, those that send first, and removes the folder.
func (w *benchWorld) close() {
	for _, c := range []*child{w.server, w.chain, w.simulator} {
		if c != nil {
			c.stop()
		}
	}
	_ = os.RemoveAll(w.dir) // a temporary folder: what is left is the system's to clear
}

// child is another process of this binary.
type child struct {
	name   string
	url    string
	cmd    *exec.Cmd
	log    string
	exited chan struct{}
}

const (
	childStart = 30 * time.Second
	childStop  = 30 * time.Second
)

// startChild runs this binary with args and returns when it has printed a line
// that begins with prefix: the rest of the line is its URL.
func startChild(ctx context.Context, dir, prefix string, args ...string) (*child, error) {
	binary, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	c := &child{name: strings.Join(args[:min(2, len(args))], " "), log: filepath.Join(dir, args[0]+".stderr"), exited: make(chan struct{})}
	stderr, err := os.OpenFile(c.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("make %s: %w", c.log, err)
	}
	defer stderr.Close()
	c.cmd = exec.CommandContext(ctx, binary, args...)
	c.cmd.Dir, c.cmd.Stderr = dir, stderr
	c.cmd.Cancel = func() error { return c.cmd.Process.Signal(syscall.SIGTERM) }
	c.cmd.WaitDelay = childStop
	stdout, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", c.name, err)
	}
	if err := c.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", c.name, err)
	}
	ready := make(chan string, 1)
	go c.watch(stdout, prefix, ready)
	late := time.NewTimer(childStart)
	defer late.Stop()
	select {
	case c.url = <-ready:
		return c, nil
	case <-c.exited:
		return nil, c.failed()
	case <-late.C:
		c.stop()
		return nil, fmt.Errorf("%s was not ready after %s", c.name, childStart)
	}
}

// watch reads what the process prints, to its end, and then waits for it.
func (c *child) watch(stdout io.Reader, prefix string, ready chan<- string) {
	lines := bufio.NewScanner(stdout)
	for lines.Scan() {
		if rest, ok := strings.CutPrefix(lines.Text(), prefix); ok {
			select {
			case ready <- strings.TrimSpace(rest):
			default:
			}
		}
	}
	_ = c.cmd.Wait() // how it ended is in ProcessState
	close(c.exited)
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

// stop ends the process in order, and otherwise kills it.
func (c *child) stop() {
	_ = c.cmd.Process.Signal(syscall.SIGTERM) // it may have ended by itself
	late := time.NewTimer(childStop)
	defer late.Stop()
	select {
	case <-c.exited:
	case <-late.C:
		_ = c.cmd.Process.Kill()
		<-c.exited
	}
}
