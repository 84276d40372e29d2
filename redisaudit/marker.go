package redisaudit

import (
	"context"
	"crypto/rand"
	_ "embed"
	"fmt"
	"maps"
	"slices"
	"strings"

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
	//go:embed mark.lua
	markSource string

	intactScript = redisscript.New(intactSource)
	filledScript = redisscript.New(filledSource)
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
