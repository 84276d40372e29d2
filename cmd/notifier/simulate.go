package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/seed-4b260dfd/notifier/channels/simulate"
)

// simulate runs the simulated providers until the process is told to end.
func (c command) simulate(ctx context.Context, p *process, args []string) (err error) {
	f := c.flags()
	cfg := simulate.Config{}
	f.StringVar(&cfg.Dir, "dir", "", "the `DIR` of keys, certificates and the log; what is missing is made")
	f.StringVar(&cfg.APNs, "apns", simulate.DefaultAPNs, "the `address` for APNs")
	f.StringVar(&cfg.FCM, "fcm", simulate.DefaultFCM, "the `address` for FCM and its token endpoint")
	f.StringVar(&cfg.SMTP, "smtp", simulate.DefaultSMTP, "the `address` for mail")
	f.StringVar(&cfg.HTTP, "http", simulate.DefaultHTTP, "the `address` for web push, text messages, webhooks and control")
	faults := f.String("faults", "", "a JSON `FILE` of what goes wrong")
	if _, err := c.parse(p, f, args); err != nil {
		return err
	}
	if cfg.Dir == "" {
		return wrongUsage(`simulate: -dir is missing: add -dir and the folder of "notifier init -simulated"`)
	}
	list, err := readFaults(*faults)
	if err != nil {
		return err
	}
	s, err := simulate.Start(cfg)
	if err != nil {
		return withPortAdvice(fmt.Errorf("simulate: %w", err), "stop the other process, or give another address with -apns, -fcm, -smtp, -http")
	}
	defer func() {
		if e := s.Close(); err == nil {
			err = e
		}
	}()
	s.SetFaults(list)
	fmt.Fprintf(p.stdout, "apns     %s\nfcm      %s\nwebpush  %s\nemail    %s\nsms      %s\nwebhook  %s\nlog      %s\n", s.APNsURL(), s.FCMURL(), s.HTTPURL(), s.SMTPAddr(), s.HTTPURL(), s.HTTPURL(), filepath.Join(cfg.Dir, simulate.LogName))
	<-ctx.Done()
	return nil
}

func readFaults(file string) ([]simulate.Fault, error) {
	if file == "" {
		return nil, nil
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, fmt.Errorf("read the faults: %w", err)
	}
	defer f.Close()
	list, err := simulate.ReadFaults(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return list, nil
}
