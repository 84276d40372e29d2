package caps

import (
	"slices"
	"time"
)

// The arithmetic of one scope. Times are counted from an epoch of the store;
// nothing here reads a clock.

// name stands in for the name of a unit or a holder: 128 bits of its SHA-256.
type name [16]byte

// window holds the units of one scope.
type window struct {
	// units are in the order of their times, the oldest first.
	units []unit
	// span is the longest window that any cap counted here: units are kept for
	// so long, so that caps with different windows may share a key.
	span time.Duration
}

// unit is what counts once. It has at least one holding.
type unit struct {
	name name
	// at is the latest time of its holdings.
	at       time.Duration
	holdings []holding
}

// holding is one holder's share in a unit. Each keeps its own time, so that
// refunding a holder leaves the unit as if that holder had never spent it.
type holding struct {
	holder name
	at     time.Duration
}

// within reports whether what was spent at a time counts in the window that
// ends now. The window is open at its old end.
func within(at, now, span time.Duration) bool { return at > now-span }

// room returns zero when one more unit may be spent now under a limit over a
// span, or the unit counts already. Otherwise it returns how long it takes until
// enough units have left the window: more than one when the scope is over its
// limit, as it may be after a limit was lowered.
func (w *window) room(u name, now time.Duration, limit int, span time.Duration) time.Duration {
	old := 0
	for old < len(w.units) && !within(w.units[old].at, now, span) {
		old++
	}
	counted := w.units[old:]
	excess := len(counted) - limit
	if excess < 0 || find(counted, u) >= 0 {
		return 0
	}
	return counted[excess].at + span - now
}

// spend gives a holder a share in a unit from a time on. An earlier share of
// the same holder moves to that time, never back.
func (w *window) spend(u, holder name, at, span time.Duration) {
	w.span = max(w.span, span)
	x := unit{name: u, at: at}
	if i := find(w.units, u); i >= 0 {
		x = w.units[i]
		w.units = slices.Delete(w.units, i, i+1)
	}
	if i := x.find(holder); i >= 0 {
		x.holdings[i].at = max(x.holdings[i].at, at)
	} else {
		x.holdings = append(x.holdings, holding{holder: holder, at: at})
	}
	w.insert(x)
}

// refund takes a holder's share in a unit away, and the unit with its last.
func (w *window) refund(u, holder name) {
	i := find(w.units, u)
	if i < 0 {
		return
	}
	x := w.units[i]
	j := x.find(holder)
	if j < 0 {
		return
	}
	w.units = slices.Delete(w.units, i, i+1)
	x.holdings = slices.Delete(x.holdings, j, j+1)
	w.insert(x)
}

// insert puts a unit where its time belongs; a unit without holdings is gone.
func (w *window) insert(x unit) {
	if len(x.holdings) == 0 {
		return
	}
	x.at = x.holdings[0].at
	for _, h := range x.holdings[1:] {
		x.at = max(x.at, h.at)
	}
	i := len(w.units)
	for i > 0 && w.units[i-1].at > x.at {
		i--
	}
	w.units = slices.Insert(w.units, i, x)
}

// prune drops the units that no cap counts any more.
func (w *window) prune(now time.Duration) {
	i := 0
	for i < len(w.units) && !within(w.units[i].at, now, w.span) {
		i++
	}
	w.units = slices.Delete(w.units, 0, i)
}

// ends returns when the last unit leaves the window.
func (w *window) ends() time.Duration {
	if len(w.units) == 0 {
		return 0
	}
	return w.units[len(w.units)-1].at + w.span
}

// find returns where a unit is, or -1. A repeat is mostly of a recent unit.
func find(units []unit, u name) int {
	for i := len(units) - 1; i >= 0; i-- {
		if units[i].name == u {
			return i
		}
	}
	return -1
}

func (x *unit) find(holder name) int {
	return slices.IndexFunc(x.holdings, func(h holding) bool { return h.holder == holder })
}
