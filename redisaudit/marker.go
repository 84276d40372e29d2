package redisaudit

import (
	"context"
	"crypto/rand"
	_ "embed"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/seed-4b260dfd/notifier/redisscript"
)

// A marker is a key with a random value, and the one kind besides the mark that
// never expires: that it is gone is what it says. Its value is prefixed with
// whether what it stands for has been filled since the marker was made.
const (
	filling = "filling:"
	filled  = "filled:"
)

var (
	//go:embed intact.lua
	intactSource string
	//go:embed filled.lua
	filledSource string
	//go:embed lost.lua
	lostSource string
	//go:embed mark.lua
	markSource string

	intactScript = redisscript.New(intactSource)
	filledScript = redisscript.New(filledSource)
	lostScript   = redisscript.New(lostSource)
	markScript   = redisscript.New(markSource)
)

// Intact reports whether Redis holds what it held when this process last
// looked; the first time, whether anybody has filled it. A marker that is not
// there is made. Once the answer is no, it is no until Filled.
func (a *Audit) Intact(ctx context.Context) (bool, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.missed = map[string]string{}
	for _, key := range a.markers {
		reply, err := a.run.Run(ctx, intactScript, []string{key}, filling+rand.Text())
		if err != nil {
			return false, fmt.Errorf("look for the marker: %w", err)
		}
		value, _ := reply.(string)
		id, whole := strings.CutPrefix(value, filled)
		if !whole {
			id = strings.TrimPrefix(value, filling)
		}
		if was, known := a.seen[key]; whole && (!known || was == id) {
			a.seen[key] = id
			continue
		}
		a.missed[key] = id
	}
	return len(a.missed) == 0, nil
}

// Filled says that what was missing at the last Intact is there again. It does
// nothing for what has been lost once more since: the next Intact says so.
func (a *Audit) Filled(ctx context.Context) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, key := range slices.Sorted(maps.Keys(a.missed)) {
		id := a.missed[key]
		reply, err := a.run.Run(ctx, filledScript, []string{key}, filling+id, filled+id)
		if err != nil {
			return fmt.Errorf("note that it is filled: %w", err)
		}
		if reply == int64(1) {
			a.seen[key] = id
		}
		delete(a.missed, key)
	}
	return nil
}

// Lost returns for how much longer it is known that Redis lost what it held; zero:
// that is not known, or over. With a time it first notes that it did, for that
// long: said before Filled, it is found by every process that finds the marker
// filled, also by one that starts later. What is lost together with this note is
// noticed by its marker, and noted again.
func (a *Audit) Lost(ctx context.Context, lasts time.Duration) (time.Duration, error) {
	reply, err := a.run.Run(ctx, lostScript, []string{"{" + a.ledger + "}:lost"}, max(lasts, 0).Milliseconds())
	if err != nil {
		return 0, fmt.Errorf("keep that data was lost: %w", err)
	}
	left, _ := reply.(int64)
	return time.Duration(left) * time.Millisecond, nil
}

// Mark puts a mark in the place of another, or of none, and returns the one
// that is there then: a third one, when the other was not there. Without a new
// one it reads, and returns nothing when there is none. It never expires: a
// ledger that comes back from an old backup is recognised however long it took.
func (a *Audit) Mark(ctx context.Context, was, is string) (string, error) {
	reply, err := a.run.Run(ctx, markScript, []string{"{" + a.ledger + "}:mark"}, was, is)
	if err != nil {
		return "", fmt.Errorf("keep the ledger's mark: %w", err)
	}
	now, _ := reply.(string)
	return now, nil
}
