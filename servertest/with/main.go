// Command with runs another command with a Postgres database and a Redis of its
// own, whose URLs are in the environment as LEDGER and CLAIMS. Both end with it,
// and all that they stored goes.
//
//	go run ./servertest/with -- sh -c 'notifier bench -ledger "$LEDGER" -claims "$CLAIMS"'
//
// It is for measuring, so the servers are set as for a busy machine: durability
// is on, checkpoints are far apart.
package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"

	"github.com/seed-4b260dfd/notifier/servertest"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintf(os.Stderr, "with: %v\n", err)
		os.Exit(1)
	}
}

func run(args []string) (err error) {
	if len(args) > 0 && args[0] == "--" {
		args = args[1:]
	}
	if len(args) == 0 {
		return errors.New("name a command to run")
	}
	// An interrupt from the keyboard reaches the command too: it ends first.
	signal.Notify(make(chan os.Signal, 1), os.Interrupt)
	db, err := servertest.StartPostgres("max_wal_size=8GB", "checkpoint_timeout=15min", "wal_compression=lz4", "shared_buffers=512MB")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Stop()) }()
	ledger, err := db.CreateDatabase()
	if err != nil {
		return err
	}
	redis, err := servertest.StartRedis()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, redis.Stop()) }()
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), "LEDGER="+ledger, "CLAIMS="+redis.URL())
	return cmd.Run()
}
