package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

// demoAddress is where the API answers once the story is over.
const demoAddress = "127.0.0.1:8080"

// demoPatience is how long anything that must happen may take. Every wait ends
// by its condition; this is for a machine that is busy with something else.
const demoPatience = 90 * time.Second

// demo plays the story of repeats, lost replies and crashes with real
// processes, and holds what the providers saw against what the ledger says.
func (c command) demo(ctx context.Context, p *process, args []string) (err error) {
	f := c.flags()
	once := f.Bool("once", false, "exit after the printout instead of serving on "+demoAddress)
	only := f.String("scene", "", "play one scene, by its `NAME`: "+strings.Join(sceneNames(), ", "))
	if _, err := c.parse(p, f, args); err != nil {
		return err
	}
	play, err := chosen(*only, wasSet(f, "scene"))
	if err != nil {
		return err
	}

	// Whatever ends the demo, its folder goes: a reader that goes away, as in
	// "demo | head", a terminal that is closed, a second Ctrl-C while it clears up.
	signal.Ignore(syscall.SIGPIPE)
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	out := &story{w: p.stdout, began: time.Now()}
	listen := demoAddress
	if *once {
		listen = "127.0.0.1:0"
	} else if err := canListen(demoAddress); err != nil {
		out.text("%s is not free (%v): the demo takes another port.", demoAddress, err)
		listen = "127.0.0.1:0"
	}
	d := &demo{out: out, byKey: map[string]*intent{}}
	defer func() {
		err = errors.Join(err, d.close())
		if ctx.Err() != nil && exitCode(err) == 1 {
			err = errors.New("demo: interrupted; its processes are ended and its folder is removed")
		}
	}()
	if err := d.open(ctx, listen); err != nil {
		return err
	}
	if err := d.play(ctx, play); err != nil {
		return err
	}
	if err := d.judge(ctx); err != nil || *once {
		return err
	}
	return d.serve(ctx)
}

// chosen is the scenes to play: the one that was asked for, or all.
func chosen(name string, asked bool) ([]scene, error) {
	all := scenes()
	if !asked {
		return all, nil
	}
	for _, s := range all {
		if s.name == name {
			return []scene{s}, nil
		}
	}
	return nil, wrongUsage("demo: there is no scene %q; scenes: %s", name, strings.Join(sceneNames(), ", "))
}

// canListen says why nothing can listen on addr.
func canListen(addr string) error {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		var call *os.SyscallError
		if errors.As(err, &call) {
			return call.Err
		}
		return err
	}
	return l.Close()
}

// play plays scenes in their order.
func (d *demo) play(ctx context.Context, play []scene) error {
	for i, s := range play {
		d.out.heading("Scene %d of %d, %s: %s", i+1, len(play), s.name, s.title)
		before := len(d.astray)
		if err := s.play(d, ctx); err != nil {
			return d.because(fmt.Errorf("play the scene %s: %w", s.name, err))
		}
		d.played++
		d.out.moral(s.moral, d.astray[before:])
		if err := d.setFaults(ctx); err != nil {
			return err
		}
		if d.out.err != nil {
			return fmt.Errorf("print the story: %w", d.out.err)
		}
	}
	return nil
}

// because is err, or what it comes from when a process has ended that should not have.
func (d *demo) because(err error) error {
	for _, c := range []*child{d.server, d.simulator} {
		select {
		case <-c.exited:
			return c.failed()
		default:
		}
	}
	return err
}

// serve leaves the server running until somebody ends it.
func (d *demo) serve(ctx context.Context) error {
	d.out.text(`
The API answers on %[1]s until Ctrl-C. In another terminal, and then once more:

  curl -i %[1]s/v1/notifications \
    -H 'Content-Type: application/json' -H 'Idempotency-Key: demo/1' -H 'Prefer: wait=5' \
    -d '{"type": "order_shipped", "recipient": "u_you", "data": {"order_id": "1", "carrier": "DHL"},
         "to": {"email": [{"address": "you@example.com"}]}}'

  curl '%[1]s/v1/notifications?key=demo/1'     what the ledger says
  curl %[2]s/_simulate/effects                 what the providers saw
  curl %[2]s/_simulate/inbox                   what phones and mailboxes show
  curl %[1]s/metrics
`, d.server.url, d.simulator.url)
	select {
	case <-ctx.Done():
		return nil
	case <-d.server.exited:
		return d.server.failed()
	case <-d.simulator.exited:
		return d.simulator.failed()
	}
}
