package servertest

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"syscall"
)

// attributes let the child die with us, also of kill -9, and keep it out of our
// process group, so that an interrupt at the terminal reaches only us.
func attributes(user *syscall.Credential) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL, Credential: user}
}

// starter runs what it is handed on one thread that never ends. Linux sends the
// signal of a parent's death when the thread that started the child ends.
var starter = sync.OnceValue(func() chan<- func() {
	work := make(chan func())
	go func() {
		runtime.LockOSThread()
		for f := range work {
			f()
		}
	}()
	return work
})

func startChild(cmd *exec.Cmd) error {
	started := make(chan error)
	starter() <- func() { started <- cmd.Start() }
	return <-started
}

// children are the processes that a process has started and that still run.
func children(parent int) []int {
	names, _ := filepath.Glob("/proc/[0-9]*/stat")
	var all []int
	for _, name := range names {
		stat, err := os.ReadFile(name)
		if err != nil {
			continue // ended meanwhile
		}
		// pid (name) state parent …, and the name may hold anything.
		fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
		if len(fields) < 2 || string(fields[1]) != strconv.Itoa(parent) || string(fields[0]) == "Z" {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(name))); err == nil {
			all = append(all, pid)
		}
	}
	return all
}

// ended reports whether a process is no more, or is only waiting to be reaped.
func ended(pid int) bool {
	stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return true
	}
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	return len(fields) == 0 || string(fields[0]) == "Z" || string(fields[0]) == "X"
}
