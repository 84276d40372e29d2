package sqlite

import (
	"crypto/rand"
	"time"

	"github.com/seed-4b260dfd/notifier"
)

// minter makes ids that only grow within the process, also when the clock
// steps back. It belongs to the writer.
type minter struct {
	ms  int64
	seq uint16
}

// maxSeq is the largest sequence number that an id has room for.
const maxSeq = 0x0fff

func (m *minter) mint(now time.Time) notifier.ID {
	ms := now.UnixMilli()
	switch {
	case ms > m.ms:
		m.ms, m.seq = ms, 0
	case m.seq < maxSeq:
		m.seq++
	default: // 4,096 ids in one millisecond, or a clock that stands still: borrow the next
		m.ms, m.seq = m.ms+1, 0
	}
	var r [8]byte
	rand.Read(r[:]) // never fails: it ends the process instead
	return notifier.NewID(time.UnixMilli(m.ms), m.seq, r)
}
