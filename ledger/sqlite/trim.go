package sqlite

import "fmt"

// trimSlice is how many keys one sweep looks at.
const trimSlice = 100

// trimmer walks the keys in slices, round and round, one slice a sweep. A key
// past its time is harmless (Accept looks at the time), so it may wait for
// its turn, and no index over keep_until has to be paid for at acceptance.
type trimmer struct{ tenant, key string }

// trimKeys forgets the keys of the next slice that have had their time and of
// whose notification nothing is in the queue.
func (w *writer) trimKeys() error {
	const (
		slice = `SELECT i.tenant, i.key, i.keep_until <= ? AND NOT EXISTS (
				SELECT 1 FROM notification n CROSS JOIN queue q ON q.nid = n.nid WHERE n.n = i.n)
			FROM idem i WHERE (i.tenant, i.key) > (?, ?) ORDER BY i.tenant, i.key LIMIT ?`
		forget = `DELETE FROM idem WHERE tenant = ? AND key = ?`
	)
	var at, over []trimmer
	err := w.rows(slice, func(r row) error {
		k := trimmer{r.str(0), r.str(1)}
		at = append(at, k)
		if r.int(2) != 0 {
			over = append(over, k)
		}
		return nil
	}, micros(w.now), w.trim.tenant, w.trim.key, int64(trimSlice))
	if err != nil {
		return fmt.Errorf("look for old keys: %w", err)
	}
	for _, k := range over {
		if _, err := w.exec(forget, k.tenant, k.key); err != nil {
			return fmt.Errorf("forget an old key: %w", err)
		}
	}
	w.trim = trimmer{}
	if len(at) == trimSlice {
		w.trim = at[len(at)-1]
	}
	return nil
}
