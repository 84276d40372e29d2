package claims

import (
	"fmt"
	"runtime"
	"strconv"
	"testing"
	"testing/synctest"
	"time"
)

// Under a steady load the store holds what is alive and no more, however the
// claims end; and when the load ends it lets go of everything.
func TestMemory_HoldsOnlyWhatIsAlive(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := NewMemory()
		const perSecond, tombstone, most = 100, 4, 4 * 100
		for i := range 20 * perSecond {
			c := Claim{Key: strconv.Itoa(i), Fence: 1, Owner: "a"}
			if _, err := m.Acquire(t.Context(), c, 2*time.Second); err != nil {
				t.Fatal(err)
			}
			var err error
			switch i % 3 {
			case 0:
				err = m.Settle(t.Context(), c, "sent", tombstone*time.Second)
			case 1:
				err = m.Release(t.Context(), c)
			}
			if err != nil {
				t.Fatal(err)
			}
			if len(m.entries) > most || len(m.ends) != len(m.entries) {
				t.Fatalf("after %d claims: %d entries and %d ends, want at most %d of each", i, len(m.entries), len(m.ends), most)
			}
			<-time.After(time.Second / perSecond)
		}
		if len(m.entries) < perSecond {
			t.Fatalf("%d entries while claims are alive, want at least %d", len(m.entries), perSecond)
		}
		<-time.After(time.Minute)
		// Each call takes its share of what has ended.
		for range most/dropsPerCall + 1 {
			if err := m.Release(t.Context(), Claim{Key: "none", Fence: 1, Owner: "a"}); err != nil {
				t.Fatal(err)
			}
		}
		if len(m.entries) != 0 || len(m.ends) != 0 {
			t.Errorf("at rest: %d entries and %d ends, want none", len(m.entries), len(m.ends))
		}
	})
}

// More claims end at one instant than one call drops: whichever it leaves has
// ended all the same.
func TestMemory_EndedButNotDropped(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const n = 2 * dropsPerCall
		for first := range n {
			m := NewMemory()
			acquire := func(i int, fence int64) {
				t.Helper()
				a, err := m.Acquire(t.Context(), Claim{Key: strconv.Itoa(i), Fence: fence, Owner: "a"}, time.Second)
				if err != nil || a.Status != StatusGranted {
					t.Fatalf("claim %d, fence %d: got %+v, %v, want it granted", i, fence, a, err)
				}
			}
			for i := range n {
				acquire(i, 1)
			}
			<-time.After(time.Second)
			acquire(first, 2)
			if len(m.entries) != len(m.ends) {
				t.Fatalf("%d entries and %d ends", len(m.entries), len(m.ends))
			}
		}
	})
}

// README quotes what a claim costs; this keeps the figure honest.
// It measures the heap, so it is not parallel.
func TestMemory_BytesPerClaim(t *testing.T) {
	const n, most = 50_000, 200
	keys := make([]Claim, n)
	for i := range keys {
		keys[i] = Claim{Key: fmt.Sprintf("%064x", i), Fence: 1, Owner: "0197f3a1c9b04d8e"}
	}
	before := heapInUse()
	m := NewMemory()
	for _, c := range keys {
		if _, err := m.Acquire(t.Context(), c, time.Hour); err != nil {
			t.Fatal(err)
		}
		if err := m.Settle(t.Context(), c, "sent", time.Hour); err != nil {
			t.Fatal(err)
		}
	}
	perClaim := float64(heapInUse()-before) / n
	t.Logf("%.0f bytes per claim", perClaim)
	if perClaim > most || len(m.entries) != n {
		t.Errorf("%.0f bytes per claim for %d claims, want at most %d", perClaim, len(m.entries), most)
	}
	runtime.KeepAlive(keys)
}

func heapInUse() uint64 {
	var s runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&s)
	return s.HeapAlloc
}

// One attempt's calls: acquire, then settle.
func BenchmarkMemory(b *testing.B) {
	m := NewMemory()
	for i := range b.N {
		c := Claim{Key: strconv.Itoa(i), Fence: 1, Owner: "a"}
		if _, err := m.Acquire(b.Context(), c, time.Millisecond); err != nil {
			b.Fatal(err)
		}
		if err := m.Settle(b.Context(), c, "sent", 10*time.Millisecond); err != nil {
			b.Fatal(err)
		}
	}
}
