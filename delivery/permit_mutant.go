//go:build mutant_no_permit

package delivery

import (
	"context"

	"github.com/seed-4b260dfd/notifier"
)

// authorise grants without writing: a build with this tag breaks the promise of
// claim_first, so that the tests can show that they would see it.
func authorise(_ context.Context, _ Leaser, _ notifier.Owner, permits []notifier.Permit) ([]bool, error) {
	granted := make([]bool, len(permits))
	for i := range granted {
		granted[i] = true
	}
	return granted, nil
}
