package servertest

import (
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
)

// template is an initialised cluster that is copied for each server: initdb
// takes a second, a copy some hundredths.
var template struct {
	mu  sync.Mutex
	dir string
}

// newCluster makes a server's data folder in dir, owned by the user.
func newCluster(dir string, owner *syscall.Credential) (string, error) {
	template.mu.Lock()
	defer template.mu.Unlock()
	if _, err := os.Stat(template.dir); template.dir == "" || err != nil {
		made, err := initCluster(owner)
		if err != nil {
			return "", err
		}
		template.dir = made
	}
	data := filepath.Join(dir, "data")
	if err := copyTree(template.dir, data, owner); err != nil {
		return "", fmt.Errorf("copy the Postgres template: %w", err)
	}
	return data, nil
}

func initCluster(owner *syscall.Credential) (string, error) {
	binary, err := postgresBinary("initdb")
	if err != nil {
		return "", err
	}
	dir, err := newFolder("template")
	if err != nil {
		return "", err
	}
	data := filepath.Join(dir, "data")
	if err := os.Mkdir(data, 0o700); err != nil {
		return "", err
	}
	if owner != nil {
		if err := os.Chown(data, int(owner.Uid), int(owner.Gid)); err != nil {
			return "", err
		}
	}
	// Only the template goes without fsync: what the servers write later they
	// sync as ever, and a killed process loses nothing from the page cache.
	cmd := exec.Command(binary, "--pgdata", data, "--username", superuser, "--auth", "trust",
		"--encoding", "UTF8", "--locale", "C", "--no-sync", "--no-instructions")
	cmd.Dir, cmd.SysProcAttr = dir, attributes(owner)
	cmd.Env = append(os.Environ(), "HOME="+dir, "LC_ALL=C")
	if out, err := combinedOutput(cmd); err != nil {
		return "", fmt.Errorf("initialise a Postgres cluster: %w\n%s", err, out)
	}
	return data, nil
}

// combinedOutput is exec.Cmd's, with the child started by our starter.
func combinedOutput(cmd *exec.Cmd) (string, error) {
	out, err := os.CreateTemp("", "servertest-output-*")
	if err != nil {
		return "", err
	}
	defer os.Remove(out.Name())
	defer out.Close()
	cmd.Stdout, cmd.Stderr = out, out
	err = startChild(cmd)
	if err == nil {
		err = cmd.Wait()
	}
	text, _ := os.ReadFile(out.Name())
	return string(text), err
}

// postgresUser is whom the server runs as: it refuses to run as root. Nil is
// ourselves.
func postgresUser() (*syscall.Credential, error) {
	if os.Getuid() != 0 {
		return nil, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		found, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err := strconv.ParseUint(found.Uid, 10, 32)
		if err != nil {
			return nil, err
		}
		gid, err := strconv.ParseUint(found.Gid, 10, 32)
		if err != nil {
			return nil, err
		}
		return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
	}
	return nil, fmt.Errorf("run Postgres as root: there is no user postgres or nobody to run it as")
}
