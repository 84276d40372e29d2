package servertest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// patience is how long a server may take to answer after its start, or to end
// after a signal: long, because the machine may be busy with other tests.
const patience = 60 * time.Second

// process is one server process, started anew after each end. Its output goes
// to a file and not to ours: go test waits for whoever holds its output.
type process struct {
	name   string
	binary string
	dir    string // where it runs and where its output goes
	user   *syscall.Credential
	ready  func(ctx context.Context, pid int) error

	mu   sync.Mutex
	args []string
	cmd  *exec.Cmd
	done chan struct{} // closed when cmd has ended and has been reaped
}

func (p *process) output() string { return filepath.Join(p.dir, "output") }

// start starts the process and waits until it answers.
func (p *process) start() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.running() {
		return fmt.Errorf("start %s: it runs already", p.name)
	}
	out, err := os.Create(p.output())
	if err != nil {
		return fmt.Errorf("start %s: %w", p.name, err)
	}
	defer out.Close()
	cmd := exec.Command(p.binary, p.args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = p.dir, out, out
	cmd.Env = append(os.Environ(), "HOME="+p.dir, "LC_ALL=C")
	cmd.SysProcAttr = attributes(p.user)
	if err := startChild(cmd); err != nil {
		return fmt.Errorf("start %s: %w", p.name, err)
	}
	done := make(chan struct{})
	p.cmd, p.done = cmd, done
	go func() {
		_ = cmd.Wait()
		close(done)
	}()
	if err := p.awaitReady(); err != nil {
		_ = p.end(syscall.SIGKILL)
		return err
	}
	return nil
}

func (p *process) awaitReady() error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	err := poll(ctx, 10*time.Millisecond, func(ctx context.Context) error {
		select {
		case <-p.done:
			return final{errors.New("it ended at once")}
		default:
			return p.ready(ctx, p.cmd.Process.Pid)
		}
	})
	if err == nil {
		return nil
	}
	said := p.said()
	if strings.Contains(strings.ToLower(said), errAddressInUse.Error()) {
		err = errAddressInUse
	}
	return fmt.Errorf("start %s: %w\n%s", p.name, err, said)
}

// said is the end of what the process wrote.
func (p *process) said() string {
	text, _ := os.ReadFile(p.output())
	const most = 2000
	return string(text[max(0, len(text)-most):])
}

func (p *process) running() bool {
	if p.cmd == nil {
		return false
	}
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// stop sends a signal and waits until the process and its children have gone.
// One that does not run is left alone.
func (p *process) stop(signal syscall.Signal) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.end(signal)
}

func (p *process) end(signal syscall.Signal) error {
	if !p.running() {
		return nil
	}
	pid := p.cmd.Process.Pid
	family := children(pid)
	if signal == syscall.SIGKILL {
		// Stopped first, it starts no child while the family is being read.
		_ = p.cmd.Process.Signal(syscall.SIGSTOP)
		family = children(pid)
		for _, child := range family {
			_ = syscall.Kill(child, signal)
		}
	}
	if err := p.cmd.Process.Signal(signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stop %s: %w", p.name, err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	select {
	case <-p.done:
	case <-ctx.Done():
		return fmt.Errorf("stop %s: it does not end on %v", p.name, signal)
	}
	// What a child still holds open, memory and files, the next start needs.
	return poll(ctx, time.Millisecond, func(context.Context) error {
		for _, child := range family {
			if !ended(child) {
				return fmt.Errorf("stop %s: its child %d does not end", p.name, child)
			}
		}
		return nil
	})
}

// pause stops the process and its children where they are; resume lets them go
// on. The parent comes first and last, so that it neither starts a child nor
// sees one missing in between.
func (p *process) pause() error {
	return p.signalAll("pause", func(parent int) error {
		if err := syscall.Kill(parent, syscall.SIGSTOP); err != nil {
			return err
		}
		for _, child := range children(parent) {
			_ = syscall.Kill(child, syscall.SIGSTOP)
		}
		return nil
	})
}

func (p *process) resume() error {
	return p.signalAll("resume", func(parent int) error {
		for _, child := range children(parent) {
			_ = syscall.Kill(child, syscall.SIGCONT)
		}
		return syscall.Kill(parent, syscall.SIGCONT)
	})
}

func (p *process) signalAll(verb string, send func(parent int) error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.running() {
		return fmt.Errorf("%s %s: it does not run", verb, p.name)
	}
	if err := send(p.cmd.Process.Pid); err != nil {
		return fmt.Errorf("%s %s: %w", verb, p.name, err)
	}
	return nil
}

// pid is the number of the process, 0 when it does not run.
func (p *process) pid() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.running() {
		return 0
	}
	return p.cmd.Process.Pid
}

// final is an error that waiting does not mend.
type final struct{ error }

// poll asks until the answer is nil, is final, or the context ends; then it
// returns the last answer.
func poll(ctx context.Context, every time.Duration, ask func(context.Context) error) error {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		err := ask(ctx)
		var last final
		if err == nil || errors.As(err, &last) {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", ctx.Err(), err)
		case <-ticker.C:
		}
	}
}
