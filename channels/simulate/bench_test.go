package simulate

import (
	"net/http"
	"sync/atomic"
	"testing"
)

// BenchmarkAPNs pushes with a hundred in flight over one connection. The
// client's share of the processor is in it.
func BenchmarkAPNs(b *testing.B) {
	s, err := Start(Config{Dir: b.TempDir()})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = s.Close() })
	c := newAPNsClient(b, s)
	var failed atomic.Int64
	b.ReportAllocs()
	b.SetParallelism(50)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if got := c.do(c.request(b.Context(), nil)); got.Status != http.StatusOK {
				failed.Add(1)
			}
		}
	})
	if n := failed.Load(); n > 0 {
		b.Errorf("%d of %d pushes failed", n, b.N)
	}
}
