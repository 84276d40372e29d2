package servertest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"
)

// URL is the pair's address as a redis+sentinel:// URL of all sentinels.
func (s *Sentinel) URL() string {
	addrs := make([]string, len(s.watchers))
	for i, w := range s.watchers {
		addrs[i] = w.port.addr()
	}
	return "redis+sentinel://" + strings.Join(addrs, ",") + "/" + sentinelName
}

// Primary is the server that takes writes, as of the last WaitPromoted.
func (s *Sentinel) Primary() *Redis { return s.primary }

// Replica is the other one, dead or alive.
func (s *Sentinel) Replica() *Redis { return s.replica }

// HoldReplica cuts the replica off: what is written from now on it does not
// have. A stopped replica alone would find the writes in its socket when it
// goes on, therefore the primary also hangs up.
func (s *Sentinel) HoldReplica() error {
	if err := s.replica.Pause(); err != nil {
		return err
	}
	s.held = true
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := s.primary.Client().ClientKillByFilter(ctx, "TYPE", "replica").Err(); err != nil {
		return fail(s.tb, err)
	}
	return fail(s.tb, poll(ctx, 5*time.Millisecond, func(ctx context.Context) error {
		return says(ctx, s.primary, "connected_slaves:0")
	}))
}

// ReleaseReplica ends HoldReplica: the replica catches up.
func (s *Sentinel) ReleaseReplica() error {
	if !s.held {
		return nil
	}
	s.held = false
	return s.replica.Resume()
}

// KillPrimary kills the primary, and then lets a replica that was held go on
// without what it has missed.
func (s *Sentinel) KillPrimary() error {
	if err := s.primary.Kill(); err != nil {
		return err
	}
	return s.ReleaseReplica()
}

// WaitPromoted waits until the replica is the primary and every sentinel says
// so. From then on Primary and Replica have changed places.
func (s *Sentinel) WaitPromoted(ctx context.Context) error {
	host, port, err := net.SplitHostPort(s.replica.Addr())
	if err != nil {
		return fail(s.tb, err)
	}
	err = poll(ctx, 20*time.Millisecond, func(ctx context.Context) error {
		for _, w := range s.watchers {
			got, err := w.client.Do(ctx, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", sentinelName).StringSlice()
			if err != nil {
				return err
			}
			if len(got) != 2 || got[0] != host || got[1] != port {
				return fmt.Errorf("await the promotion: the sentinel at %s names %v", w.port.addr(), got)
			}
		}
		return says(ctx, s.replica, "role:master")
	})
	if err == nil {
		s.primary, s.replica = s.replica, s.primary
	}
	return fail(s.tb, err)
}

// Rejoin starts a dead replica, once the primary, and waits until it follows
// the primary and the sentinels would promote it. Writes that only it had are gone.
func (s *Sentinel) Rejoin(ctx context.Context) error {
	if s.replica.Pid() == 0 {
		if err := s.replica.Restart(); err != nil {
			return err
		}
	}
	err := s.follow(ctx, s.replica, s.primary)
	if err == nil {
		err = poll(ctx, 20*time.Millisecond, s.watched)
	}
	return fail(s.tb, err)
}

// Stop kills all servers for good and removes their data.
func (s *Sentinel) Stop() error {
	var all error
	for _, w := range s.watchers {
		all = errors.Join(all, w.stop())
	}
	for _, r := range []*Redis{s.primary, s.replica} {
		if r != nil {
			all = errors.Join(all, r.Stop())
		}
	}
	return all
}
