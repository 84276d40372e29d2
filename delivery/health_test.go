package delivery

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-4b260dfd/notifier"
)

// triedLedger is a ledger as its probes see it.
type triedLedger struct {
	mu    sync.Mutex
	no    error
	hangs int // how many more probes get no answer
	tries int
}

func (l *triedLedger) set(no error, hangs int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.no, l.hangs = no, hangs
}

func (l *triedLedger) Probe(ctx context.Context) error {
	l.mu.Lock()
	l.tries++
	hang, no := l.hangs > 0, l.no
	l.hangs = max(l.hangs-1, 0)
	l.mu.Unlock()
	if hang {
		<-ctx.Done()
		return ctx.Err()
	}
	return no
}

// probed runs the loop over a ledger in a bubble of time.
func probed(t *testing.T, alone bool, test func(*testing.T, *health, *triedLedger)) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := &triedLedger{}
		e := &Engine{log: slog.New(slog.DiscardHandler), health: newHealth(l, alone)}
		if err := e.health.try(t.Context()); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var loop sync.WaitGroup
		loop.Go(func() { e.healthLoop(ctx) })
		test(t, e.health, l)
		cancel()
		loop.Wait()
	})
}

// becomes wants the ledger to be taken for writable, or not, within a time.
func becomes(t *testing.T, h *health, want bool, within time.Duration) {
	t.Helper()
	began := time.Now()
	for h.writable() != want {
		if time.Since(began) > within {
			t.Fatalf("after %v it is writable %v, want %v", within, !want, want)
		}
		<-time.After(10 * time.Millisecond)
	}
}

// stays wants it to be for a time.
func stays(t *testing.T, h *health, want bool, lasts time.Duration) {
	t.Helper()
	for began := time.Now(); time.Since(began) < lasts; <-time.After(10 * time.Millisecond) {
		if h.writable() != want {
			t.Fatalf("after %v it is writable %v, want %v for %v", time.Since(began), !want, want, lasts)
		}
	}
}

var errFull = errors.New("no space left")

func TestHealth_LedgerThatSaysNo(t *testing.T) {
	probed(t, false, func(t *testing.T, h *health, l *triedLedger) {
		stays(t, h, true, time.Minute)
		l.set(errFull, 0)
		becomes(t, h, false, 2*time.Second)
		stays(t, h, false, time.Minute)
		l.set(nil, 0)
		becomes(t, h, true, 2*time.Second)
	})
}

func TestHealth_LedgerThatDoesNotAnswer(t *testing.T) {
	probed(t, false, func(t *testing.T, h *health, l *triedLedger) {
		l.set(nil, 1<<30)
		becomes(t, h, false, 3*time.Second+100*time.Millisecond)
		stays(t, h, false, time.Minute)
		l.set(nil, 0)
		becomes(t, h, true, ledgerTimeout)
		stays(t, h, true, time.Minute)
	})
}

// One that hangs, and one whose connection had died, are no outage.
func TestHealth_OneStatementIsNoOutage(t *testing.T) {
	for name, alone := range map[string]bool{"shared": false, "alone": true} {
		t.Run(name, func(t *testing.T) {
			probed(t, alone, func(t *testing.T, h *health, l *triedLedger) {
				for range 5 {
					l.set(nil, 1)
					stays(t, h, true, 30*time.Second)
				}
			})
		})
	}
}

// A file is tried seldom, but at once when a write has failed; and not for what
// was wrong in itself.
func TestHealth_AFailedWriteAsks(t *testing.T) {
	probed(t, true, func(t *testing.T, h *health, l *triedLedger) {
		<-time.After(time.Second) // after the first one
		l.set(errFull, 0)
		h.note(&notifier.Error{Code: notifier.CodeKeyBusy})
		stays(t, h, true, time.Second)
		h.note(errFull)
		becomes(t, h, false, 2*probeLook)
		l.set(nil, 0)
		becomes(t, h, true, 2*time.Second)
		h.note(errFull)
		stays(t, h, true, time.Minute)
	})
}

// While notifications are accepted nothing is tried beside them.
func TestHealth_AcceptingIsProofEnough(t *testing.T) {
	probed(t, false, func(t *testing.T, h *health, l *triedLedger) {
		for range 600 {
			h.note(nil)
			<-time.After(100 * time.Millisecond)
		}
		if l.tries != 1 {
			t.Errorf("the ledger was tried %d times, want once, at the start", l.tries)
		}
	})
}
