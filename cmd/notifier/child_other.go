//go:build !linux

package main

import "syscall"

// dieWithParent asks for nothing: there is no portable way to say it. Ctrl-C at
// the terminal reaches parent and children alike.
func dieWithParent() *syscall.SysProcAttr { return nil }
