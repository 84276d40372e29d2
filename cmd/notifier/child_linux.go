package main

import "syscall"

// dieWithParent has the kernel kill a process when its parent is gone. It is in
// a group of its own: Ctrl-C at the terminal is for the parent, which ends it
// in order.
func dieWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
