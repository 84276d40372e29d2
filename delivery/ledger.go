package delivery

import (
	"context"
	"time"

	"github.com/seed-4b260dfd/notifier"
)

// The ledger decides. Each of its methods is one transition, in one commit,
// guarded by fence and owner; ledger/ledgertest holds every implementation to
// the same rows. A method that returns an error may have committed: the caller
// repeats it, and the guards tell.

// Accepter takes new notifications in.
type Accepter interface {
	// Accept stores each intent, or finds the first copy of its key (T0). The
	// answers are in the order of the intents; one key may stand twice among
	// them. When it returns without error all is durable.
	Accept(ctx context.Context, intents []notifier.Intent) ([]notifier.Stored, error)
}

// Leaser hands out the right to make attempts.
type Leaser interface {
	// Lease leases up to limit due deliveries of a lane to owner, oldest first,
	// each for its own Terms.Lease, and raises their fences (T1). A delivery
	// past its expiry is not leased: Expire ends it.
	Lease(ctx context.Context, lane notifier.Lane, limit int, owner notifier.Owner) ([]notifier.Leased, error)
	// Renew makes leases last their Terms.Lease from now on, and reports for
	// each whether it still is owner's. Permits are not renewable.
	Renew(ctx context.Context, owner notifier.Owner, holds []notifier.Hold) ([]bool, error)
	// Permit authorises claim-first calls (T4), and reports for each whether
	// it is granted: leased by owner under this fence, not cancelled, not
	// expired. Only what is granted by an answer without error may be called.
	Permit(ctx context.Context, owner notifier.Owner, permits []notifier.Permit) ([]bool, error)
	// Lanes returns the lanes that hold deliveries that are not finished, with
	// the time at which the first of each is due: zero or past when one is due now.
	Lanes(ctx context.Context) (map[notifier.Lane]time.Time, error)
}

// Settler writes down how attempts ended.
type Settler interface {
	// Complete ends deliveries for good (T6): row out, outcome in.
	Complete(ctx context.Context, owner notifier.Owner, done []notifier.Completion) ([]notifier.Settled, error)
	// Return hands leases back (T7, T7'), and ends the deliveries whose
	// attempts are used up by it, or that were cancelled meanwhile.
	Return(ctx context.Context, owner notifier.Owner, back []notifier.Return) ([]notifier.Settled, error)
	// Witness keeps word of attempts whose outcome was already decided.
	Witness(ctx context.Context, owner notifier.Owner, evidence []notifier.Evidence) error
}

// Sweeper closes what its owner left.
type Sweeper interface {
	// Sweep closes up to limit lapsed leases (T8) and permits (T8'): leased →
	// due again, or finished when its attempts are used up; permitted →
	// unknown. With all set, every lease and permit counts as lapsed: for a
	// ledger whose only owner has just started. Sweep also makes due again, some
	// thousands a call, what waits as paused and no pause in force holds.
	Sweep(ctx context.Context, limit int, all bool) ([]notifier.Swept, error)
	// Expire ends up to limit waiting deliveries whose expiry has passed (T10).
	Expire(ctx context.Context, limit int) ([]notifier.Swept, error)
	// Cancel ends what is not on the wire, and keeps the rest from being
	// attempted again (T9).
	Cancel(ctx context.Context, tenant string, ids []notifier.DeliveryID, reason notifier.Reason) ([]notifier.Cancelled, error)
	// Spent calls yield with every cap unit that attempts since a time took.
	Spent(ctx context.Context, since time.Time, yield func(notifier.Spent) error) error
}

// Pauser keeps the pauses. Lease knows nothing of them: the engine does not ask
// for what is paused, and hands back what it was given all the same.
type Pauser interface {
	// Pause places a pause, and sets its ID and Since. The same pause placed
	// again while it is in force gives the first.
	Pause(ctx context.Context, p notifier.Pause) (notifier.Pause, error)
	// Resume ends a pause and keeps who did and why; ended is set by the call that
	// did. It is answered the same however often it is said; an id that never was is an *notifier.Error with CodeNotFound. What waited
	// for it is made due by the sweeps that follow. Said again, it has them look
	// again: for what a node that had not heard of it yet handed back since.
	Resume(ctx context.Context, id, by, why string) (p notifier.Pause, ended bool, err error)
	// Pauses returns those in force, oldest first: not resumed, and Until zero
	// or still to come.
	Pauses(ctx context.Context) ([]notifier.Pause, error)
	// PausesEnded returns those that have ended since a time, the last first, at
	// most some hundred.
	PausesEnded(ctx context.Context, since time.Time) ([]notifier.Pause, error)
}

// Suppressor keeps the suppressions. Lease, and Accept where it leases, say of
// each delivery which of them holds for it, and Complete places one with an outcome.
type Suppressor interface {
	// Suppress places a suppression, and sets its ID and At, and Since if that
	// is zero. The same subject, channel, type and cause again while it is in
	// force gives the first; one that found the address dead later than it moves
	// it on to that.
	Suppress(ctx context.Context, s notifier.Suppression) (notifier.Suppression, error)
	// Unsuppress ends a tenant's suppression and keeps who did and why; ended is
	// set by the call that did. It is answered the same however often it is said;
	// an id that never was is an *notifier.Error with CodeNotFound.
	Unsuppress(ctx context.Context, tenant, id, by, why string) (s notifier.Suppression, ended bool, err error)
	// Suppressions lists those in force, the newest first, at most f.Limit.
	Suppressions(ctx context.Context, f notifier.SuppressionFilter) ([]notifier.Suppression, error)
}

// Finder finds what the provider is to be asked about.
type Finder interface {
	// Unsettled returns up to limit deliveries that ended unknown at since or
	// later, whose terms say UnknownLookup, and about which no evidence says
	// that they were sent, or that the provider was asked.
	Unsettled(ctx context.Context, since time.Time, limit int) ([]notifier.Unsettled, error)
}

// Reader reads the ledger for people and programs.
type Reader interface {
	// Notification returns a tenant's notification with all its deliveries and
	// attempts, or an *notifier.Error with CodeNotFound.
	Notification(ctx context.Context, tenant string, id notifier.ID) (*notifier.Notification, error)
	// ByKey is Notification for the newest notification of a key.
	ByKey(ctx context.Context, tenant, key string) (*notifier.Notification, error)
	// Backlog counts what is not finished, and what ended unknown, for the gauges.
	Backlog(ctx context.Context) ([]notifier.Backlog, error)
	// Unknowns counts what ended unknown, by type.
	Unknowns(ctx context.Context) ([]notifier.Unknowns, error)
}
