package caps

import (
	"fmt"
	"runtime"
	"strconv"
	"testing"
	"testing/synctest"
	"time"
)

// Under a steady load of ever new recipients the store holds the scopes whose
// units count and no more; when the load ends it lets go of everything.
func TestMemory_HoldsOnlyWhatCounts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := NewMemory()
		const perSecond, window = 100, 3
		for i := range 20 * perSecond {
			on := []Cap{{Name: "c", Key: strconv.Itoa(i), Limit: 3, Window: window * time.Second}}
			if _, err := m.Spend(t.Context(), "u", "h", on); err != nil {
				t.Fatal(err)
			}
			if i%4 == 0 {
				if err := m.Refund(t.Context(), "u", "h", on); err != nil {
					t.Fatal(err)
				}
			}
			if most := window * perSecond; len(m.scopes) > most || len(m.ends) != len(m.scopes) {
				t.Fatalf("after %d: %d scopes and %d ends, want at most %d of each", i, len(m.scopes), len(m.ends), most)
			}
			<-time.After(time.Second / perSecond)
		}
		if len(m.scopes) < perSecond {
			t.Fatalf("%d scopes while units count, want at least %d", len(m.scopes), perSecond)
		}
		<-time.After(time.Minute)
		// Each call takes its share of what is empty.
		for range window*perSecond/dropsPerCall + 1 {
			if _, err := m.Spend(t.Context(), "u", "h", nil); err != nil {
				t.Fatal(err)
			}
		}
		if len(m.scopes) != 0 || len(m.ends) != 0 {
			t.Errorf("at rest: %d scopes and %d ends, want none", len(m.scopes), len(m.ends))
		}
	})
}

// One scope that is always busy keeps no more units than count.
func TestMemory_BusyScopeKeepsWhatCounts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := NewMemory()
		on := []Cap{{Name: "c", Key: "k", Limit: 5, Window: time.Second}}
		for i := range 1000 {
			if _, err := m.Spend(t.Context(), strconv.Itoa(i), "h", on); err != nil {
				t.Fatal(err)
			}
			if n := len(m.scopes[nameOf("k")].units); n > 5 {
				t.Fatalf("after %d: %d units are kept, want at most 5", i, n)
			}
			<-time.After(100 * time.Millisecond)
		}
	})
}

// README quotes what a cap costs; this keeps the figures honest.
// It measures the heap, so it is not parallel.
func TestMemory_BytesPerScopeAndUnit(t *testing.T) {
	const n, mostScope, mostUnit = 20_000, 400, 160
	keys := make([][]Cap, n)
	for i := range keys {
		keys[i] = []Cap{{Name: "c", Key: fmt.Sprintf("%064x", i), Limit: 100, Window: time.Hour}}
	}
	units := make([]string, 9)
	for i := range units {
		units[i] = "ntf_000000000000000000000000:apns:" + strconv.Itoa(i)
	}
	m := NewMemory()
	spend := func(units []string) float64 {
		before := heapInUse()
		for _, on := range keys {
			for _, u := range units {
				if d, err := m.Spend(t.Context(), u, "dlv_000000000000000000000000", on); err != nil || !d.Granted {
					t.Fatalf("got %+v, %v", d, err)
				}
			}
		}
		return float64(heapInUse()-before) / n
	}
	scope := spend(units[:1])
	unit := spend(units[1:]) / float64(len(units)-1)
	t.Logf("%.0f bytes per scope with its first unit, %.0f per further unit", scope, unit)
	if scope > mostScope || unit > mostUnit || len(m.scopes) != n {
		t.Errorf("got %.0f bytes per scope and %.0f per unit, want at most %d and %d", scope, unit, mostScope, mostUnit)
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

// Two caps decided together, over a hundred thousand recipients.
func BenchmarkMemory(b *testing.B) {
	m := NewMemory()
	for i := range b.N {
		key := strconv.Itoa(i % 100_000)
		on := []Cap{
			{Name: "a", Key: key + "a", Limit: 3, Window: time.Hour},
			{Name: "b", Key: key + "b", Limit: 20, Window: 24 * time.Hour},
		}
		if _, err := m.Spend(b.Context(), strconv.Itoa(i), "h", on); err != nil {
			b.Fatal(err)
		}
	}
}
