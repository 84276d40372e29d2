//go:build !linux

package servertest

import (
	"os/exec"
	"syscall"
)

func attributes(user *syscall.Credential) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Credential: user}
}

func startChild(cmd *exec.Cmd) error { return cmd.Start() }

func children(int) []int { return nil }

func ended(pid int) bool { return syscall.Kill(pid, 0) != nil }
