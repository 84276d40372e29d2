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

// locks keep every other process off a ledger: a file beside it, whose name goes
// with the ledger's when that is replaced, and the ledger itself, which another
// name of it (a hard link) leads to as well.
type locks struct{ beside, itself *os.File }

// lockLedger takes both, until unlock or the end of the process, and makes the
// ledger's file if there is none. SQLite's own locks are of another kind, and
// would go if any file of this process at path were closed while it is open:
// what is opened here is closed after it.
func lockLedger(path string) (k locks, err error) {
	if k.beside, err = lock(path); err != nil {
		return k, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, k.unlock())
		}
	}()
	// Made here and not by SQLite, because it holds addresses: nobody else's
	// to read. The log files get the same mode.
	if k.itself, err = os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600); err != nil {
		return k, fmt.Errorf("open ledger %q: %w", path, err)
	}
	ok, err := flock(k.itself, lockedPast)
	switch {
	case err != nil:
		return k, fmt.Errorf("lock ledger %q: %w", path, err)
	case !ok:
		return k, fmt.Errorf("%w: another process has the file %q open under another name; one process at a time: stop it, or give this one a ledger of its own (ledger: sqlite:other.db)", ErrLocked, path)
	}
	return k, nil
}

// unlock gives the locks back at once: a process that is being forked off may
// hold the files open a moment longer than we do.
func (k locks) unlock() error {
	var errs []error
	if k.itself != nil {
		errs = append(errs, funlock(k.itself, lockedPast), k.itself.Close())
	}
	if k.beside != nil {
		errs = append(errs, funlock(k.beside, lockedByte), k.beside.Close())
	}
	return errors.Join(errs...)
}

// Where a lock is, for systems that lock bytes: in the file beside past what it
// holds, so that the text in it can be read, and in the ledger past all that it
// can ever hold.
const (
	lockedByte = 1 << 20
	lockedPast = 1 << 62
)

// lock takes the lock beside the ledger at path.
func lock(path string) (*os.File, error) {
	f, err := os.OpenFile(path+".lock", os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the lock of ledger %q: %w", path, err)
	}
	ok, err := flock(f, lockedByte)
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
		return nil, errors.Join(fmt.Errorf("write the lock of ledger %q: %w", path, err), f.Close())
	}
	return f, nil
}

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
