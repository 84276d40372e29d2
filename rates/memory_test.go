package rates_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-4b260dfd/notifier/rates"
	"github.com/seed-4b260dfd/notifier/rates/ratestest"
)

func TestMemory(t *testing.T) {
	t.Parallel()
	ratestest.Run(t, func(t *testing.T, test func(*testing.T, ratestest.Subject)) {
		synctest.Test(t, func(t *testing.T) {
			m := rates.NewMemory()
			test(t, ratestest.Subject{Rates: m, Other: m, Exact: true, Pass: func(d time.Duration) { <-time.After(d) }})
		})
	})
}

// Whoever takes, and however many: no two slots are closer than they should be.
func TestMemory_SlotsAreApart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m, start := rates.NewMemory(), time.Now()
		p := rates.Pace{Key: "k", Every: 7 * time.Millisecond}
		last := -p.Every
		for i := range 2000 {
			got, err := m.Take(t.Context(), p, i%40+1)
			if err != nil {
				t.Fatal(err)
			}
			for j := range got.N {
				at := time.Since(start) + got.First + time.Duration(j)*got.Every
				if at-last < p.Every || at > time.Since(start)+rates.Ahead {
					t.Fatalf("a slot at %v, after one at %v; now it is %v", at, last, time.Since(start))
				}
				last = at
			}
			<-time.After(time.Duration(i*i%97) * time.Millisecond)
		}
	})
}
