package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"text/template"
	"time"

	"github.com/seed-4b260dfd/notifier"
	"github.com/seed-4b260dfd/notifier/channels/simulate"
)

// demoDefaults is what the demo lays under the examples' policies: nobody wants
// to watch a backoff.
const demoDefaults = `# The demo's: short waits between attempts. The default begins at 5s.
retry: {initial: 100ms, factor: 2, max: 1s}
`

// demo is one run: a folder, the two processes that live in it, and what was
// asked of them.
type demo struct {
	out               *story
	dir               string
	simulator, server *child

	// intents are the requests that were made, one for each key.
	intents []*intent
	byKey   map[string]*intent
	// counted is what the servers that were killed had counted.
	counted totals
	// astray is where the story went another way than it is told.
	astray []string
	// played is how many scenes were.
	played int
}

// intent is something that a client wants to be sent.
type intent struct {
	key, typ string
	id       notifier.ID
	// repeats is how many further copies of the request were answered as repeats.
	repeats int
}

// open makes the folder and starts the processes.
func (d *demo) open(ctx context.Context, listen string) (err error) {
	if d.dir, err = os.MkdirTemp("", "notifier-demo-"); err != nil {
		return fmt.Errorf("make a folder: %w", err)
	}
	d.out.text("notifier, against simulated providers on this machine: nothing here reaches anybody.")
	const anyPort = "127.0.0.1:0"
	d.simulator, err = startChild(ctx, d.dir, "log ", "simulate", "-dir", d.dir, "-apns", anyPort, "-fcm", anyPort, "-smtp", anyPort, "-http", anyPort)
	if err != nil {
		return err
	}
	d.simulator.url = d.simulator.printed("webhook ")
	if err := d.configure(listen); err != nil {
		return err
	}
	if err := d.startServer(ctx); err != nil {
		return err
	}
	d.out.text(`
  claim_first  records, then sends: a message may be lost, and never takes effect twice
  send_first   sends, then records: a message may repeat, and is never lost

  server       process %d on %s, with its ledger on disk
  providers    process %d: apns, email, webhook; they log a request before they answer it
  policies     examples/policies, but for the wait between attempts: from 0.1s here, not from 5s
  #1, #2, …    a delivery's attempts, numbered alike in the request and in the ledger
  folder       %s, removed at the end`,
		d.server.pid, d.server.url, d.simulator.pid, d.dir)
	return nil
}

// configure writes what the server serves from: the examples, and the accounts
// of "init -simulated" with the ports that the providers were given.
func (d *demo) configure(listen string) error {
	files, err := examplesOf([]string{orderShipped, loginCode, weeklyDigest, priceDrop, paymentEvent})
	if err != nil {
		return err
	}
	keys, err := simulate.Init(d.dir, simulate.Config{Dir: d.dir})
	if err != nil {
		return err
	}
	t, err := template.ParseFS(initial, "initial/simulated.yaml")
	if err != nil {
		return fmt.Errorf("read the configuration to copy: %w", err)
	}
	var b bytes.Buffer
	err = t.Execute(&b, settings{Files: keys,
		APNsAddr: strings.TrimPrefix(d.simulator.printed("apns "), "https://"),
		FCMAddr:  strings.TrimPrefix(d.simulator.printed("fcm "), "https://"),
		SMTPAddr: d.simulator.printed("email "),
		HTTPAddr: strings.TrimPrefix(d.simulator.url, "http://"),
	})
	if err != nil {
		return fmt.Errorf("fill in the configuration: %w", err)
	}
	config := bytes.Replace(b.Bytes(), []byte(demoAddress), []byte(listen), 1)
	for _, file := range append(files, newFile{"policies/_defaults.yaml", []byte(demoDefaults)}, newFile{configName, config}) {
		if err := file.write(d.dir); err != nil {
			return err
		}
	}
	return nil
}

func (d *demo) startServer(ctx context.Context) (err error) {
	if d.server, err = startChild(ctx, d.dir, listening, "serve", "-config", filepath.Join(d.dir, configName)); err != nil {
		return err
	}
	d.server.url = d.server.printed(listening)
	return nil
}

// close ends the processes, the one that sends first, and removes the folder.
func (d *demo) close() error {
	for _, c := range []*child{d.server, d.simulator} {
		if c != nil {
			c.stop()
		}
	}
	if d.dir == "" {
		return nil
	}
	if err := os.RemoveAll(d.dir); err != nil {
		return fmt.Errorf("remove the demo's folder: %w", err)
	}
	return nil
}

// log reads what the providers have seen.
func (d *demo) log() ([]simulate.Entry, error) {
	return simulate.ReadLog(filepath.Join(d.dir, simulate.LogName))
}

// until asks again and again whether something has come about.
func (d *demo) until(ctx context.Context, what string, so func() (bool, error)) error {
	late := time.NewTimer(demoPatience)
	defer late.Stop()
	again := time.NewTicker(10 * time.Millisecond)
	defer again.Stop()
	for {
		ok, err := so()
		if ok || err != nil {
			return err
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return ctx.Err()
		case <-late.C:
			return fmt.Errorf("after %s still not so: %s", demoPatience, what)
		case <-d.simulator.exited:
			return d.simulator.failed()
		}
	}
}

// expect notes where the story goes another way than it is told.
func (d *demo) expect(so bool, format string, args ...any) {
	if !so {
		d.astray = append(d.astray, fmt.Sprintf(format, args...))
	}
}

// errAnswer is an answer that the story has no place for.
var errAnswer = errors.New("unexpected answer")
