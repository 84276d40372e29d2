package sqlite

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
)

// ErrLocked says that another process has the ledger open.
var ErrLocked = errors.New("ledger is in use")

// lock keeps every other process off the ledger at path, until unlock or the
// end of the process.
func lock(path string) (*os.File, error) {
	f, err := os.OpenFile(path+".lock", os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the lock of ledger %q: %w", path, err)
	}
	ok, err := flock(f)
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("lock ledger %q: %w", path, err)
	}
	if !ok {
		who := holder(f)
		f.Close()
		return nil, fmt.Errorf("%w: %s has %q open; one process at a time: stop it, or give this one a ledger of its own (ledger: sqlite:other.db)", ErrLocked, who, path)
	}
	// Only for the message above: the lock does not rest on it.
	if err := errors.Join(f.Truncate(0), writeAt(f, strconv.Itoa(os.Getpid()))); err != nil {
		return nil, errors.Join(fmt.Errorf("write the lock of ledger %q: %w", path, err), unlock(f))
	}
	return f, nil
}

// unlock gives the lock back at once: a process that is being forked off may
// hold the file open a moment longer than we do.
func unlock(f *os.File) error { return errors.Join(funlock(f), f.Close()) }

func writeAt(f *os.File, s string) error {
	_, err := f.WriteAt([]byte(s), 0)
	return err
}

func holder(f *os.File) string {
	b, err := io.ReadAll(io.LimitReader(f, 20))
	pid := strings.TrimSpace(string(b))
	if _, bad := strconv.Atoi(pid); err != nil || bad != nil {
		return "another process"
	}
	return "process " + pid
}
