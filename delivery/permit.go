//go:build !mutant_no_permit

package delivery

import (
	"context"

	"github.com/seed-4b260dfd/notifier"
)

// authorise is the permit: the write that turns a claim-first lease into leave
// to make one call. It is what "record sending, then send" means.
func authorise(ctx context.Context, l Leaser, owner notifier.Owner, permits []notifier.Permit) ([]bool, error) {
	return l.Permit(ctx, owner, permits)
}
