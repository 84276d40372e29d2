// Command notifier sends notifications that are accepted once and end in one
// outcome each. "notifier -h" lists what it does.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	os.Exit(start())
}

// start is main with an exit code, so that what is deferred runs.
func start() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// The first signal asks to end in order. Whoever sends a second one wants
	// the process gone, which loses nothing but time.
	context.AfterFunc(ctx, stop)
	return execute(ctx, os.Args[1:], os.Getenv, os.Stdout, os.Stderr)
}

// execute runs a command and returns its exit code. What went wrong is one
// line on stderr.
func execute(ctx context.Context, args []string, getenv func(string) string, stdout, stderr io.Writer) int {
	err := run(ctx, args, getenv, stdout, stderr)
	if err != nil {
		fmt.Fprintln(stderr, "notifier: "+oneLine(err))
	}
	return exitCode(err)
}
