package delivery

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-4b260dfd/notifier"
	"github.com/seed-4b260dfd/notifier/channels"
)

func result(o notifier.Outcome, r notifier.Reason) *channels.Result {
	return &channels.Result{Outcome: o, Reason: r}
}

var (
	well     = result(notifier.OutcomeSent, notifier.ReasonNone)
	lost     = result(notifier.OutcomeUnknown, notifier.ReasonReplyLost)
	badKey   = result(notifier.OutcomeNotSent, notifier.ReasonBadCredentials)
	slowDown = result(notifier.OutcomeNotSent, notifier.ReasonThrottled)
)

func TestJudge(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		res  *channels.Result
		want judgement
	}{
		{"nothing said", &channels.Result{}, saysFault},
		{"reply lost", lost, saysFault},
		{"500", result(notifier.OutcomeUnknown, notifier.ReasonProviderError), saysFault},
		{"never connected", result(notifier.OutcomeNotSent, notifier.ReasonUnreachable), saysFault},
		{"our key", badKey, saysFault},
		{"our key has been renewed", &channels.Result{Outcome: notifier.OutcomeNotSent, Again: true}, saysNothing},
		{"our own gate", result(notifier.OutcomeNotSent, notifier.ReasonGate), saysNothing},
		{"throttled", slowDown, saysWell},
		{"sent", well, saysWell},
		{"bad content", result(notifier.OutcomeRejected, notifier.ReasonBadContent), saysWell},
		{"dead address", result(notifier.OutcomeInvalidAddress, notifier.ReasonInvalidAddress), saysWell},
	} {
		if got := judge(tc.res); got != tc.want {
			t.Errorf("%s: got %d, want %d", tc.name, got, tc.want)
		}
	}
}

func TestBreaker_OpensAfterSoManyInARow(t *testing.T) {
	t.Parallel()
	b := &breaker{Breaker: Breaker{After: 3, Probe: time.Second}}
	now := time.Now()
	for i, res := range []*channels.Result{lost, lost, well, lost, badKey, slowDown, lost, badKey} {
		if b.note(res, false, now) || b.now() != breakerClosed {
			t.Fatalf("opened by result %d, with no three faults in a row", i)
		}
	}
	if !b.note(lost, false, now) || b.now() != breakerOpen {
		t.Fatalf("got %v after three faults in a row, want open", b.now())
	}
	if why, until := b.hold(now); why != notifier.ReasonBreaker || !until.IsZero() {
		t.Errorf("got %s until %v, want breaker without an end", why, until)
	}
	if b.note(well, false, now) || b.now() != breakerOpen {
		t.Error("closed by a call that was begun before it opened")
	}
	if b.note(badKey, false, now) {
		t.Error("opened a second time")
	}
}

func TestBreaker_OneProbeAtATime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := &breaker{Breaker: Breaker{After: 1, Probe: 10 * time.Second}}
		admits := func(wantAll, wantProbe bool, wantWait time.Duration) {
			t.Helper()
			if all, probe, wait := b.admits(time.Now()); all != wantAll || probe != wantProbe || wait != wantWait {
				t.Fatalf("got %v, %v, %v; want %v, %v, %v", all, probe, wait, wantAll, wantProbe, wantWait)
			}
		}
		admits(true, false, 0)
		b.note(badKey, false, time.Now())
		if why, _ := b.hold(time.Now()); why != notifier.ReasonBadCredentials {
			t.Errorf("got %s, want bad_credentials", why)
		}
		admits(false, false, 10*time.Second)
		<-time.After(10 * time.Second)
		admits(false, true, 0)
		b.begin()
		admits(false, false, 10*time.Second)
		b.abandon(time.Now())
		admits(false, false, probeAgain)
		<-time.After(probeAgain)
		admits(false, true, 0)
		b.begin()
		b.note(lost, true, time.Now())
		admits(false, false, 10*time.Second)
		if why, _ := b.hold(time.Now()); why != notifier.ReasonBreaker {
			t.Errorf("got %s after another fault, want breaker", why)
		}
		<-time.After(10 * time.Second)
		b.begin()
		if !b.note(slowDown, true, time.Now()) {
			t.Error("a provider that answered is still held for down")
		}
		admits(true, false, 0)
		b.abandon(time.Now())
		admits(true, false, 0)
	})
}

func TestBreaker_Throttle(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := &breaker{Breaker: Breaker{After: 5, Probe: time.Second}}
		start := time.Now()
		for _, tc := range []struct {
			asked, want time.Duration
			longer      bool
		}{{0, throttleTime, true}, {time.Second, throttleTime, false}, {time.Minute, time.Minute, true}, {240 * time.Hour, maxThrottle, true}} {
			if got := b.throttle(tc.asked, start); got != tc.longer {
				t.Errorf("asked for %v: got longer %v, want %v", tc.asked, got, tc.longer)
			}
			if all, probe, wait := b.admits(start); all || probe || wait != tc.want {
				t.Errorf("asked for %v: got %v, %v, %v; want nothing for %v", tc.asked, all, probe, wait, tc.want)
			}
		}
		if why, until := b.hold(start); why != notifier.ReasonThrottled || !until.Equal(start.Add(maxThrottle)) {
			t.Errorf("got %s until %v, want throttled until %v", why, until, start.Add(maxThrottle))
		}
		<-time.After(maxThrottle)
		if all, _, _ := b.admits(time.Now()); !all || b.shut(time.Now()) {
			t.Error("still throttled when its time is over")
		}
	})
}

func TestBreaker_ThatIsOffNeverOpens(t *testing.T) {
	t.Parallel()
	b := &breaker{}
	for range 1000 {
		b.note(lost, false, time.Now())
	}
	if b.shut(time.Now()) {
		t.Error("it opened")
	}
}

// The path that every delivery takes allocates nothing.
func TestBreaker_ClosedCostsNoAllocation(t *testing.T) {
	b := &breaker{Breaker: Breaker{After: 5, Probe: time.Second}}
	c := &budget{share: 0.1}
	now := time.Now()
	if n := testing.AllocsPerRun(100, func() { b.note(well, false, now); b.shut(now); b.admits(now); c.note(now) }); n != 0 {
		t.Errorf("got %v allocations, want none", n)
	}
}

func TestBudget(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := &budget{share: 0.1}
		take := func() (n int, wait time.Duration) {
			for ; n < 10_000; n++ {
				var ok bool
				if wait, ok = b.take(time.Now()); !ok {
					return n, wait
				}
			}
			return n, 0
		}
		if n, wait := take(); n != budgetBurst || wait != time.Second {
			t.Errorf("idle: got %d retries and a wait of %v, want %d and 1s", n, wait, budgetBurst)
		}
		if _, wait := take(); wait != 2*time.Second {
			t.Errorf("the second to wait: got %v, want 2s", wait)
		}
		for range 5 {
			<-time.After(time.Second)
			if n, _ := take(); n != 1 {
				t.Errorf("a second later: got %d, want 1", n)
			}
		}
		for range 1000 {
			b.note(time.Now())
		}
		// A tenth of a thousand, of which the last minute has seen fifteen.
		if n, _ := take(); n != 100-budgetBurst-5 {
			t.Errorf("after a thousand first attempts: got %d, want %d", n, 100-budgetBurst-5)
		}
		<-time.After(59 * time.Second)
		if n, _ := take(); n != budgetBurst+4+budgetBurst {
			t.Errorf("when the early retries have left: got %d, want %d", n, budgetBurst+4+budgetBurst)
		}
		<-time.After(2 * time.Second)
		if n, _ := take(); n != 2 {
			t.Errorf("when the first attempts have left: got %d, want 2 of the floor", n)
		}
		<-time.After(time.Hour)
		if n, _ := take(); n != budgetBurst {
			t.Errorf("idle again: got %d, want %d", n, budgetBurst)
		}
	})
}

func TestBudget_PutsManyAwayApart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := &budget{share: 0.5}
		for range budgetBurst {
			b.take(time.Now())
		}
		for i := range 10_000 {
			wait, ok := b.take(time.Now())
			if ok {
				t.Fatalf("retry %d is granted", i)
			}
			if want := time.Duration(i+1) * time.Second; i < 300 && wait != want {
				t.Fatalf("retry %d waits %v, want %v", i, wait, want)
			}
			if wait > budgetPatience {
				t.Fatalf("retry %d waits %v, more than %v", i, wait, budgetPatience)
			}
		}
	})
}

func TestBudget_None(t *testing.T) {
	t.Parallel()
	b := &budget{}
	for range 1000 {
		if _, ok := b.take(time.Now()); !ok {
			t.Fatal("a retry is held back by no budget")
		}
	}
}
