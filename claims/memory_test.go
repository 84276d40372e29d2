package claims_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-4b260dfd/notifier/claims"
	"github.com/seed-4b260dfd/notifier/claims/claimstest"
)

func TestMemory(t *testing.T) {
	t.Parallel()
	claimstest.Run(t, func(t *testing.T, test func(*testing.T, claimstest.Subject)) {
		synctest.Test(t, func(t *testing.T) {
			test(t, claimstest.Subject{
				Claims: claims.NewMemory(),
				Pass:   func(d time.Duration) { <-time.After(d) },
			})
		})
	})
}

// A claim lives until exactly its end.
func TestMemory_EndsOnTheNanosecond(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := claims.NewMemory()
		acquire := func(fence int64) claims.Answer {
			t.Helper()
			a, err := m.Acquire(t.Context(), claims.Claim{Key: "k", Fence: fence, Owner: "a"}, time.Second)
			if err != nil {
				t.Fatal(err)
			}
			return a
		}
		acquire(1)
		<-time.After(time.Second - 1)
		if a := acquire(2); a.Status != claims.StatusHeld || a.Left != 1 {
			t.Fatalf("a nanosecond before the end: got %+v, want it held for 1ns", a)
		}
		<-time.After(1)
		if a := acquire(2); a.Status != claims.StatusGranted {
			t.Fatalf("at the end: got %+v, want it granted", a)
		}
	})
}
