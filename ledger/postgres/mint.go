package postgres

import (
	"crypto/rand"
	"encoding/hex"
	"sync"
	"time"

	"github.com/seed-4b260dfd/notifier"
)

// minter makes all of an id but its time, which the database adds when it
// takes the row in: ids of one process grow, also when the clock steps back,
// and no node's clock decides where a row lands.
type minter struct {
	mu sync.Mutex
	// floor is the smallest millisecond that the next ids may have.
	floor int64
	seq   int
}

// maxSeq is the largest sequence number that an id has room for.
const maxSeq = 0x0fff

// tails returns the parts of n ids behind their time, as hex digits, and the
// floor of their milliseconds.
func (m *minter) tails(n int) (floor int64, tails []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.seq+n > maxSeq+1 {
		// No room for them in this millisecond: they go into a later one.
		m.floor, m.seq = m.floor+1, 0
	}
	tails = make([]string, n)
	for i := range tails {
		var r [8]byte
		rand.Read(r[:]) // never fails: it ends the process instead
		id := notifier.NewID(epoch, uint16(m.seq+i), r)
		tails[i] = hex.EncodeToString(id[6:])
	}
	m.seq += n
	return m.floor, tails
}

// saw notes an id that the database made.
func (m *minter) saw(id notifier.ID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.floor = max(m.floor, id.Time().UnixMilli())
}

// now returns a whole id, for what has no row of its own to be ordered by.
func (m *minter) now(at time.Time) notifier.ID {
	var r [8]byte
	rand.Read(r[:])
	return notifier.NewID(at, 0, r)
}
