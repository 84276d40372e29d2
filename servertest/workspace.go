package servertest

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"
)

// workspace is the folder of this process, with a folder in it per server. Its
// lock file is locked while the process lives: a folder whose lock is free was
// left behind, and goes.
var workspace struct {
	mu   sync.Mutex
	dir  string
	lock *os.File
}

const (
	workspacePattern = "servertest-*"
	workspaceLock    = "lock"
)

// newFolder makes an empty folder for one server.
func newFolder(name string) (string, error) {
	workspace.mu.Lock()
	defer workspace.mu.Unlock()
	for attempt := 0; workspace.dir == ""; attempt++ {
		dir, lock, err := makeWorkspace()
		if err == nil {
			workspace.dir, workspace.lock = dir, lock
		} else if attempt == 5 {
			return "", fmt.Errorf("make a folder for test servers: %w", err)
		}
	}
	dir, err := os.MkdirTemp(workspace.dir, name+"-*")
	if err != nil {
		return "", fmt.Errorf("make a folder for %s: %w", name, err)
	}
	return dir, os.Chmod(dir, 0o711)
}

// makeWorkspace removes what others left and makes a folder for this process.
// A sweeper may meet it before it is locked and take it away: then the lock
// fails, or the folder is gone, and the caller tries again.
func makeWorkspace() (string, *os.File, error) {
	base := temporary()
	sweepWorkspaces(base)
	dir, err := os.MkdirTemp(base, workspacePattern)
	if err != nil {
		return "", nil, err
	}
	// Postgres may run as another user, who has to get through.
	if err := os.Chmod(dir, 0o711); err != nil {
		return "", nil, err
	}
	lock, err := tryLock(filepath.Join(dir, workspaceLock))
	if err != nil {
		return "", nil, err
	}
	if _, err := os.Stat(filepath.Join(dir, workspaceLock)); err != nil {
		_ = lock.Close()
		return "", nil, err
	}
	return dir, lock, nil
}

func sweepWorkspaces(base string) {
	left, _ := filepath.Glob(filepath.Join(base, workspacePattern))
	for _, dir := range left {
		name := filepath.Join(dir, workspaceLock)
		if _, err := os.Stat(name); err != nil {
			continue // not ours, or not locked yet
		}
		if lock, err := tryLock(name); err == nil {
			_ = os.RemoveAll(dir)
			_ = lock.Close()
		}
	}
}

func removeWorkspace() {
	workspace.mu.Lock()
	defer workspace.mu.Unlock()
	if workspace.dir == "" {
		return
	}
	_ = os.RemoveAll(workspace.dir)
	_ = workspace.lock.Close()
	workspace.dir, workspace.lock = "", nil
}

// tryLock opens a file and locks it until it is closed or the process ends.
func tryLock(name string) (*os.File, error) {
	file, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = file.Close()
		return nil, err
	}
	return file, nil
}

// temporary is the folder for temporary files, or another one if a user that is
// not us cannot get into it.
func temporary() string {
	for _, dir := range []string{os.TempDir(), "/tmp", "/var/tmp"} {
		if os.Getuid() != 0 || open(dir) {
			return dir
		}
	}
	return os.TempDir()
}

// open reports whether every user can get into a folder.
func open(dir string) bool {
	for ; ; dir = filepath.Dir(dir) {
		info, err := os.Stat(dir)
		if err != nil || info.Mode().Perm()&0o001 == 0 {
			return false
		}
		if dir == filepath.Dir(dir) {
			return true
		}
	}
}

// copyTree copies a folder of plain files and gives the copy to an owner, if
// one is named. The copy must not exist.
func copyTree(from, to string, owner *syscall.Credential) error {
	return filepath.WalkDir(from, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, name)
		if err != nil {
			return err
		}
		target := filepath.Join(to, rel)
		switch {
		case entry.IsDir():
			err = os.Mkdir(target, 0o700)
		case entry.Type().IsRegular():
			err = copyFile(name, target)
		default:
			err = fmt.Errorf("copy %s: neither a folder nor a plain file", name)
		}
		if err != nil || owner == nil {
			return err
		}
		return os.Chown(target, int(owner.Uid), int(owner.Gid))
	})
}

func copyFile(from, to string) (err error) {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	_, err = out.ReadFrom(in)
	return err
}
