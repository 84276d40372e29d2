package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/seed-4b260dfd/notifier/channels"
)

// liveTimeout is what one account's provider is given.
const liveTimeout = 20 * time.Second

// checkLive tries the credentials of every account, prints a line for each, and
// returns how many were refused or could not be tried.
func (c *channelAccounts) checkLive(ctx context.Context, w io.Writer) (failed int) {
	for _, of := range c.wired() {
		for _, name := range of.names() {
			said, ok := tryAccount(ctx, of.accounts[name])
			if !ok {
				failed++
			}
			fmt.Fprintf(w, "%s.%s: %s\n", of.kind.Channel(), name, said)
		}
	}
	return failed
}

func tryAccount(ctx context.Context, a account) (said string, ok bool) {
	ch, err := a.open()
	if err != nil {
		return err.Error(), false
	}
	defer ch.Close()
	live, asks := ch.(channels.LiveChecker)
	if !asks {
		return "ok: there is nobody to ask without sending", true
	}
	ctx, cancel := context.WithTimeout(ctx, liveTimeout)
	defer cancel()
	if err := live.Check(ctx); err != nil {
		return err.Error(), false
	}
	return "ok", true
}
