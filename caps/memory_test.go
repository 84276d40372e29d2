package caps_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-4b260dfd/notifier/caps"
	"github.com/seed-4b260dfd/notifier/caps/capstest"
)

func TestMemory(t *testing.T) {
	t.Parallel()
	capstest.Run(t, func(t *testing.T, test func(*testing.T, capstest.Subject)) {
		synctest.Test(t, func(t *testing.T) {
			test(t, capstest.Subject{
				Caps: caps.NewMemory(),
				Pass: func(d time.Duration) { <-time.After(d) },
			})
		})
	})
}

// After is to be relied on: a nanosecond earlier there is no room, and at it
// there is.
func TestMemory_AfterIsExact(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := caps.NewMemory()
		on := []caps.Cap{{Name: "c", Key: "k", Limit: 1, Window: time.Hour}}
		spend := func(unit string) caps.Decision {
			t.Helper()
			d, err := m.Spend(t.Context(), unit, "h", on)
			if err != nil {
				t.Fatal(err)
			}
			return d
		}
		spend("u1")
		<-time.After(20 * time.Minute)
		d := spend("u2")
		if d.Granted || d.After != 40*time.Minute {
			t.Fatalf("got %+v, want it denied for 40m", d)
		}
		<-time.After(d.After - 1)
		if d := spend("u2"); d.Granted || d.After != 1 {
			t.Fatalf("a nanosecond before: got %+v, want it denied for 1ns", d)
		}
		<-time.After(1)
		if d := spend("u2"); !d.Granted {
			t.Fatalf("after: got %+v, want it granted", d)
		}
	})
}
