package servertest

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"
)

// BaseBackup writes a backup of the running server into dir, which must be
// empty or not exist: the state at the end of the call, with the log that it
// takes to get there.
func (p *Postgres) BaseBackup(dir string) error {
	binary, err := postgresBinary("pg_basebackup")
	if err != nil {
		return fail(p.tb, err)
	}
	cmd := exec.Command(binary, "--pgdata", dir, "--dbname", p.URL(),
		"--checkpoint", "fast", "--wal-method", "fetch", "--no-sync", "--no-manifest")
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	if out, err := combinedOutput(cmd); err != nil {
		return fail(p.tb, fmt.Errorf("back up Postgres: %w\n%s", err, out))
	}
	return nil
}

// RestoreFrom puts the server back to a backup, on its port, killing it first
// if it still runs. What was committed after the backup is gone; the database system's
// identifier and timeline are the old ones.
func (p *Postgres) RestoreFrom(dir string) error { return fail(p.tb, p.restore(dir)) }

func (p *Postgres) restore(dir string) error {
	if err := p.proc.stop(syscall.SIGKILL); err != nil {
		return err
	}
	if err := removeAll(p.data); err != nil {
		return err
	}
	if err := copyTree(dir, p.data, p.owner); err != nil {
		return fmt.Errorf("restore Postgres: %w", err)
	}
	return p.boot()
}
