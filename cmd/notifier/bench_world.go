package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/seed-4b260dfd/notifier"
	"github.com/seed-4b260dfd/notifier/channels/simulate"
	"github.com/seed-4b260dfd/notifier/ledger/postgres"
)

// The types that are sent. Each has a cap, since real ones do, that is never
// reached and soon forgets.
const (
	benchSendFirst  = "bench_send_first"
	benchClaimFirst = "bench_claim_first"
)

var benchOrders = [...]struct {
	order notifier.Order
	typ   string
}{{notifier.OrderSendFirst, benchSendFirst}, {notifier.OrderClaimFirst, benchClaimFirst}}

const (
	benchPolicy = `order: %s
description: Load.
channels: [{channel: apns, template: bench}]
data: {n: {required: true}}
expires_after: 1h
caps: [{name: bench, per: [recipient], limit: 1000, window: 10s}]
`
	benchTemplate = `title: A measurement
body: "Number {{.n}}."
`
	benchConfig = `%slisten: {http: "127.0.0.1:0"}
log: {level: warn, format: text}
channels:
  apns:
    shop:
      key_file: %q
      key_id: %s
      team_id: %s
      topic: %s
      environment: sandbox
      endpoint: %q
      ca_file: %q
      allow_private: true
      max_in_flight: %d
`
)

// benchWorld is a folder with the processes that live in it.
type benchWorld struct {
	dir                      string
	simulator, server, chain *child
}

// startWorld starts providers, server and bare chain in a temporary folder. The
// stores are in it, or where the settings say.
func startWorld(ctx context.Context, s *benchSettings) (w *benchWorld, err error) {
	w = new(benchWorld)
	defer func() {
		if err != nil {
			w.close()
		}
	}()
	if w.dir, err = os.MkdirTemp("", "notifier-bench-"); err != nil {
		return w, fmt.Errorf("make a folder: %w", err)
	}
	files, err := simulate.Init(w.dir, simulate.Config{Dir: w.dir})
	if err != nil {
		return w, err
	}
	const anyPort = "127.0.0.1:0"
	if w.simulator, err = startChild(ctx, w.dir, "log ", "simulate", "-dir", w.dir, "-apns", anyPort, "-fcm", anyPort, "-smtp", anyPort, "-http", anyPort); err != nil {
		return w, err
	}
	w.simulator.url = w.simulator.printed("apns ")
	// Several times the requests in flight, since an accepted request frees its
	// client before it is sent: the slots are not what is measured.
	stores := ""
	if s.ledger != "" {
		stores = fmt.Sprintf("ledger: %q\nclaims: %q\n", s.ledger, s.claims)
		if _, err := postgres.Migrate(ctx, s.ledger); err != nil {
			return w, err
		}
	}
	config := fmt.Sprintf(benchConfig, stores, files.APNsKeyFile, files.APNsKeyID, files.APNsTeamID, files.APNsTopic, w.simulator.url, files.CAFile, 8*s.inflight)
	todo := []newFile{{"templates/bench/push.yaml", []byte(benchTemplate)}, {configName, []byte(config)}}
	for _, o := range benchOrders {
		todo = append(todo, newFile{"policies/" + o.typ + ".yaml", fmt.Appendf(nil, benchPolicy, o.order)})
	}
	for _, file := range todo {
		if err = file.write(w.dir); err != nil {
			return w, err
		}
	}
	if w.server, err = startChild(ctx, w.dir, listening, "serve", "-config", filepath.Join(w.dir, configName)); err != nil {
		return w, err
	}
	w.server.url = w.server.printed(listening)
	if w.chain, err = startChild(ctx, w.dir, listening, "bench", "chain", w.dir); err != nil {
		return w, err
	}
	w.chain.url = w.chain.printed(listening)
	return w, nil
}

func (w *benchWorld) log() string { return filepath.Join(w.dir, simulate.LogName) }

// close ends the processes, those that send first, and removes the folder.
func (w *benchWorld) close() {
	for _, c := range []*child{w.server, w.chain, w.simulator} {
		if c != nil {
			c.stop()
		}
	}
	_ = os.RemoveAll(w.dir) // a temporary folder: what is left is the system's to clear
}
