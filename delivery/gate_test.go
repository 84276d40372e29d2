package delivery

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-4b260dfd/notifier"
)

func leasedFor(lease, expiry time.Duration) *notifier.Leased {
	return &notifier.Leased{Fence: 1, Delivery: notifier.Delivery{
		ExpiresAt: time.Now().Add(expiry),
		Terms:     notifier.Terms{Lease: lease},
	}}
}

func TestLook(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name                 string
		lease, expiry, pause time.Duration
		want                 error
	}{
		{"at once", time.Minute, time.Hour, 0, nil},
		{"just before the margin", time.Minute, time.Hour, 59*time.Second + 499*time.Millisecond, nil},
		{"within the margin", time.Minute, time.Hour, 59*time.Second + 501*time.Millisecond, errLeaseSpent},
		{"a short lease keeps an eighth", time.Second, time.Hour, 876 * time.Millisecond, errLeaseSpent},
		{"a short lease before its eighth", time.Second, time.Hour, 874 * time.Millisecond, nil},
		{"expired", time.Minute, 10 * time.Second, 10 * time.Second, errTooLate},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWork(&Engine{}, &account{}, leasedFor(tc.lease, tc.expiry), readClocks())
				<-time.After(tc.pause)
				if got := w.look(); !errors.Is(got, tc.want) {
					t.Errorf("got %v, want %v", got, tc.want)
				}
			})
		})
	}
}

func TestElapsed_TheClockThatSaysMostDecides(t *testing.T) {
	t.Parallel()
	now := readClocks()
	for name, r := range map[string]reading{
		"monotonic": {mono: now.mono.Add(-time.Hour), wall: now.wall, boot: now.boot},
		"wall":      {mono: now.mono, wall: now.wall.Add(-time.Hour), boot: now.boot},
		"boot":      {mono: now.mono, wall: now.wall, boot: now.boot - time.Hour},
		"wall set back": {mono: now.mono.Add(-time.Hour), wall: now.wall.Add(time.Hour),
			boot: now.boot - time.Hour},
	} {
		if got := r.elapsed(); got < time.Hour || got > time.Hour+time.Minute {
			t.Errorf("%s: got %v, want an hour", name, got)
		}
	}
}
