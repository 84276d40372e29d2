// Package rates spreads calls over time, for any number of processes together:
// so many a second and no more. It hands out slots, instants at which one call
// may begin, each further from the one before than the rate asks for.
//
// It promises that the slots of a pace are never closer together than Every,
// whoever takes them, and that those nobody took are gone: after an idle hour
// there is no burst. So n slots lie in no span shorter than (n-1) × Every. Slots
// are handed out in batches and a little ahead of their time, so that a call
// costs no round trip of its own.
//
// It does not promise that calls reach a provider as evenly as they begin, nor
// that every slot is used: a process that dies takes some along, at most Ahead's
// worth. Where the store is behind a network, see Redis for what holds without it.
package rates

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Ahead is how far ahead of their time slots are handed out: what one process
// can keep from the others, and what a dead one wastes.
const Ahead = 250 * time.Millisecond

// Pace is what is limited, and to how much.
type Pace struct {
	// Key names it: equal keys share their slots.
	Key string
	// Every is how far apart two slots are.
	Every time.Duration
}

// Slots are instants at which calls may begin, one each: the first at First from
// now on, then one every Every.
type Slots struct {
	// N is how many there are.
	N int
	// First is when the first is, as seen from the answer; without any, when it is
	// worth to ask again.
	First time.Duration
	// Every is how far apart they are. It is longer than the pace's when the
	// process goes by its own share of it.
	Every time.Duration
}

// longest bounds Every, so that the arithmetic stays exact.
const longest = 24 * time.Hour

// begin refuses what no caller means, and ended contexts.
func begin(ctx context.Context, p Pace, n int) error {
	switch {
	case p.Key == "":
		return errors.New("take slots: the key is empty")
	case p.Every < time.Microsecond || p.Every > longest:
		return fmt.Errorf("take slots of %q: they are %s apart; it must be %s to %s", p.Key, p.Every, time.Microsecond, longest)
	case n < 1:
		return fmt.Errorf("take slots of %q: %d of them; it must be 1 or more", p.Key, n)
	}
	return ctx.Err()
}

// schedule is when the next slot of a pace is, in microseconds of some clock.
type schedule int64

// take hands out up to n slots that are not further ahead than Ahead. With none
// it returns how long until there is one.
func (s *schedule) take(now, every int64, n int) (granted int, from int64) {
	ahead := Ahead.Microseconds()
	next := max(int64(*s), now)
	if next > now+ahead+every {
		next = now + ahead // the clock was set back, or slots were further apart
	}
	if next > now+ahead {
		return 0, next - now - ahead
	}
	granted = int(min(int64(n), (now+ahead-next)/every+1))
	*s = schedule(next + int64(granted)*every)
	return granted, next - now
}

func micros(d time.Duration) int64 { return (d + time.Microsecond - 1).Microseconds() }

func slots(granted int, from, every int64) Slots {
	return Slots{N: granted, First: time.Duration(from) * time.Microsecond, Every: time.Duration(every) * time.Microsecond}
}
