package sqlite

import (
	"errors"
	"os"

	"golang.org/x/sys/windows"
)

// flock takes the file's lock, or reports false when another process has it.
// The system drops it when the process ends, however it ends.
func flock(f *os.File, at int64) (bool, error) {
	const flags = windows.LOCKFILE_EXCLUSIVE_LOCK | windows.LOCKFILE_FAIL_IMMEDIATELY
	err := windows.LockFileEx(windows.Handle(f.Fd()), flags, 0, 1, 0, place(at))
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) {
		return false, nil
	}
	return err == nil, err
}

func funlock(f *os.File, at int64) error {
	return windows.UnlockFileEx(windows.Handle(f.Fd()), 0, 1, 0, place(at))
}

func place(at int64) *windows.Overlapped {
	return &windows.Overlapped{Offset: uint32(at), OffsetHigh: uint32(at >> 32)}
}

// syncDir does nothing: names are durable with the files here.
func syncDir(string) error { return nil }
