package ledgertest

import (
	"context"
	"sync"
)

var probeRows = []row{
	{"writes and leaves nothing", func(w *world) {
		id := w.accept(w.intent("k", sendFirst, 2))[0].ID
		before := w.read(id)
		for range 3 {
			if err := w.l.Probe(context.Background()); err != nil {
				w.Fatal(err)
			}
		}
		diff(w, "the notification", w.read(id), before)
		lanes, err := w.l.Lanes(context.Background())
		if err != nil || len(lanes) != 1 {
			w.Errorf("got the lanes %v, %v, want that of the notification alone", lanes, err)
		}
	}},
	{"many at once", func(w *world) {
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				if err := w.l.Probe(context.Background()); err != nil {
					w.Error(err)
				}
			})
		}
		all.Wait()
	}},
}
