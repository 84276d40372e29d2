package servertest

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
)

// redisBinary finds redis-server, which is a Sentinel as well when told so.
func redisBinary() (string, error) {
	name, err := exec.LookPath("redis-server")
	if err != nil {
		return "", missing("redis-server", "redis-server")
	}
	return name, nil
}

// postgresBinary finds a program of the Postgres server. Debian keeps them off
// the path, in a folder per version, of which the newest is taken.
func postgresBinary(name string) (string, error) {
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/" + name)
	slices.SortFunc(found, func(a, b string) int { return version(b) - version(a) })
	if len(found) > 0 {
		return found[0], nil
	}
	if onPath, err := exec.LookPath(name); err == nil {
		return onPath, nil
	}
	return "", missing(name, "postgresql")
}

// version is the folder of /usr/lib/postgresql/15/bin/postgres that is a number.
func version(name string) int {
	n, _ := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(name))))
	return n
}

func missing(binary, debian string) error {
	return fmt.Errorf("%s is not installed: apt-get install %s, or make servers", binary, debian)
}
