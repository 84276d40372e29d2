// Package caps counts what may have reached a person, and says when that is
// enough. A cap is a limit over a sliding window: at any instant, at most Limit
// units have been spent within the Window that ends then. The count is exact,
// with no buckets to round to.
//
// A unit is whatever counts once, by a name of the caller's choice: here the
// n-th attempt of one notification on one channel. Those who share in a unit,
// the addresses of that channel, are its holders. A unit is spent by its first
// holder, counts from the latest time that a holder spent it, and is free again
// when the last of them was refunded.
//
// Every method is safe to repeat after a lost answer. A denial is a Decision
// and not an error. What a store has lost can be put back with Fill from the
// records of those who spent.
package caps

import (
	"errors"
	"fmt"
	"time"
)

// Cap is a limit for one scope.
type Cap struct {
	// Name is the cap's name, for the Decision.
	Name string
	// Key names the scope that the limit holds for: whose units are counted
	// together. Caps with equal keys share their units.
	Key string
	// Slot is what the caps of one Spend have in common, a recipient say: a
	// store that is spread over nodes keeps equal slots together. Caps with
	// equal keys have equal slots. With none at all, one node keeps everything.
	Slot string
	// Limit is how many units may be spent within a Window, at least 1.
	Limit int
	// Window is how long a unit counts after it was spent. At exactly that age
	// it counts no more.
	Window time.Duration
}

// Decision is the answer to a Spend.
type Decision struct {
	// Granted says that the unit is spent on every one of the caps. Otherwise
	// it is spent on none.
	Granted bool
	// Denied is the name of the first cap, in the order given, that is full.
	Denied string
	// After is how long until every full cap has room for a unit, if nobody
	// else spends or is refunded meanwhile.
	After time.Duration
}

// check refuses what no caller means.
func check(unit, holder string, caps []Cap) error {
	if unit == "" {
		return errors.New("the unit is empty")
	}
	if holder == "" {
		return fmt.Errorf("unit %q: the holder is empty", unit)
	}
	for _, c := range caps {
		switch {
		case c.Slot != caps[0].Slot:
			return fmt.Errorf("cap %q: the slot %q differs from %q, that of the cap before it", c.Name, c.Slot, caps[0].Slot)
		case c.Key == "":
			return fmt.Errorf("cap %q: the key is empty", c.Name)
		case c.Limit < 1:
			return fmt.Errorf("cap %q: the limit is %d; it must be at least 1", c.Name, c.Limit)
		case c.Window <= 0:
			return fmt.Errorf("cap %q: the window is %s; it must be positive", c.Name, c.Window)
		}
	}
	return nil
}
