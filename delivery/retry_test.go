package delivery

import (
	"testing"
	"time"

	"github.com/seed-4b260dfd/notifier"
)

func TestBackoff(t *testing.T) {
	t.Parallel()
	r := notifier.Retry{Initial: 5 * time.Second, Factor: 4, Max: time.Hour}
	for _, tc := range []struct {
		name    string
		n       int
		unknown bool
		random  float64
		want    time.Duration
	}{
		{"first, least", 0, false, 0, 2500 * time.Millisecond},
		{"first, middle", 0, false, 0.5, 3750 * time.Millisecond},
		{"third", 2, false, 0, 40 * time.Second},
		{"at most max", 9, false, 0, 30 * time.Minute},
		{"beyond every float", 5000, false, 0, 30 * time.Minute},
		{"after an unknown", 0, true, 0, 15 * time.Second},
	} {
		if got := Backoff(r, tc.n, tc.unknown, tc.random); got != tc.want {
			t.Errorf("%s: got %v, want %v", tc.name, got, tc.want)
		}
	}
}

func TestWait_NeverUndercutsTheProvider(t *testing.T) {
	t.Parallel()
	l := &notifier.Leased{Delivery: notifier.Delivery{Terms: notifier.Terms{Retry: notifier.Retry{Initial: time.Second, Factor: 2, Max: time.Minute}}}}
	for range 1000 {
		got := wait(l, 7*time.Second, false)
		if got < 7*time.Second || got > 7700*time.Millisecond {
			t.Fatalf("got %v, want between 7s and 7.7s", got)
		}
	}
}
