// Command notifier sends notifications that are accepted once and end in one
// outcome each. "notifier -h" lists what it does.
package main

import (
	"context"
	"fmt"
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
	err := run(ctx, os.Args[1:], os.Getenv, os.Stdout, os.Stderr)
	if err != nil {
		fmt.Fprintln(os.Stderr, "notifier: "+oneLine(err))
	}
	return exitCode(err)
}
