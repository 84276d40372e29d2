package notifier

import "time"

// The values in this file are what goes into and comes out of the ledger's
// transitions. Each transition is one conditional write; its guard is the
// delivery's fence and the owner of its lease.

// Intent is a new notification, complete, ready to be stored: T0 accept.
type Intent struct {
	Tenant        string
	Key           string
	Type          string
	Recipient     string
	Order         Order
	PolicyVersion string
	// Fingerprint covers type, recipient, data, entity and version.
	Fingerprint [32]byte
	// Parts are digests of the fields that the fingerprint covers and of those
	// that the first copy decides, by field name, so that a later copy can be
	// told where it differs.
	Parts     map[string]string
	SendAt    time.Time // zero: at once
	ExpiresAt time.Time
	// KeepFor is how long after the latest of acceptance, SendAt and ExpiresAt
	// the key is remembered.
	KeepFor time.Duration
	// ReplayOnly asks for the first copy of the key alone: nothing is made, and
	// Stored.Replayed is false when there is none.
	ReplayOnly bool
	Deliveries []Delivery // ID, AcceptedAt and SendAt are set by the ledger
	// Lease, when its Owner is set, asks for the first Lease.Count deliveries
	// to be inserted as leased under it: accept and the first lease in one commit.
	Lease FirstLease
}

// FirstLease asks Accept to lease what it inserts.
type FirstLease struct {
	Owner Owner
	// Count is how many of the intent's deliveries, from the first on.
	Count int
}

// Owner identifies one process from its start to its end. It is never reused.
type Owner string

// Stored is what became of an Intent.
type Stored struct {
	ID ID
	// Replayed says that the key was there: the intent made nothing.
	Replayed bool
	// Fingerprint, Type and Parts are those of the first copy.
	Fingerprint [32]byte
	Parts       map[string]string
	AcceptedAt  time.Time
	// FirstAge is how long ago the first copy was accepted.
	FirstAge time.Duration
	// Leased are the deliveries that Intent.Lease asked for.
	Leased []Leased
}

// Hold names a lease: a delivery under one fence.
type Hold struct {
	ID    DeliveryID
	Fence int64
}

// Leased is a delivery under a lease, with what its earlier attempts came to.
type Leased struct {
	Delivery
	Fence int64
	// Tries counts the calls so far that were not refused with "later", and
	// the leases that lapsed.
	Tries int
	// Maybe counts the attempts so far that may have arrived.
	Maybe int
	// Fails counts the attempts so far that ended badly, for the back-off.
	Fails int
	// LeasedAt is when the ledger started the lease; it lasts Terms.Lease.
	LeasedAt time.Time
	// Suppressed is the id of a suppression that held for the delivery when it
	// was leased; empty: there was none.
	Suppressed string
}

// Hold returns the lease's name.
func (l *Leased) Hold() Hold { return Hold{ID: l.ID, Fence: l.Fence} }

// Permit asks for leave to call (T4, claim-first only). The permit lasts For:
// when it is over the sweep closes the delivery as unknown.
type Permit struct {
	Hold
	For time.Duration
}

// Attempt is how one attempt ended.
type Attempt struct {
	StartedAt      time.Time
	Outcome        Outcome
	Reason         Reason
	ProviderStatus string
	ProviderID     string
}

// Completion ends a delivery for good (T6).
type Completion struct {
	Hold
	State  State
	Reason Reason
	// Called says that Attempt describes a provider call; false for deliveries
	// that end without one (capped, expired).
	Called  bool
	Attempt Attempt
	// Suppress is placed with the outcome, in the same commit, if the delivery
	// still is the caller's to end; nil: nothing is.
	Suppress *Suppression
}

// Return hands a lease back (T7; T7' when Unsent is set).
type Return struct {
	Hold
	// Reason is the pending state's reason; Attempt.Reason is how the attempt ended.
	Reason Reason
	// After is how long from now the delivery is due again.
	After time.Duration
	// Try, Maybe and Fail say what the attempt adds to Tries, Maybe and Fails.
	Try, Maybe, Fail bool
	// Unsent says that the caller has proof that nothing was processed, which
	// alone takes a delivery back from under a permit.
	Unsent bool
	// Record keeps Attempt in the timeline; false for a lease without any event.
	Record  bool
	Attempt Attempt
}

// Verdict is what a guarded write came to.
type Verdict uint8

const (
	// VerdictDone says that the write was made.
	VerdictDone Verdict = iota + 1
	// VerdictAlready says that this very write had been made before.
	VerdictAlready
	// VerdictClosed says that the write was made and ended the delivery: its
	// attempts are used up, or it was cancelled meanwhile.
	VerdictClosed
	// VerdictFenced says that the lease is no longer the caller's.
	VerdictFenced
)

// Settled is what became of a Completion or a Return.
type Settled struct {
	Verdict Verdict
	// State and Reason are the delivery's after the write, when the verdict is
	// VerdictDone, VerdictAlready or VerdictClosed.
	State  State
	Reason Reason
}

// EvidenceKind says what an Evidence row is.
type EvidenceKind string

const (
	// EvidenceLate is the answer of an owner that had been fenced off.
	EvidenceLate EvidenceKind = "late"
	// EvidenceLateUnsent is such an owner's proof that it sent nothing.
	EvidenceLateUnsent EvidenceKind = "late_unsent"
	// EvidenceLookup is the provider's word, when asked, that it has the message.
	EvidenceLookup EvidenceKind = "lookup"
	// EvidenceLookupNone says that the provider was asked and knew of none. It
	// proves nothing, and nobody asks again.
	EvidenceLookupNone EvidenceKind = "lookup_none"
)

// Settles reports whether evidence says that an unknown delivery was sent.
func (e Evidence) Settles() bool {
	return (e.Kind == EvidenceLate || e.Kind == EvidenceLookup) && e.Attempt.Outcome == OutcomeSent
}

// Unsettled is a delivery that ended unknown, whose policy has the provider
// asked and whose provider has not been asked to the end.
type Unsettled struct {
	Delivery
	// Fence is that of the attempt with which it ended.
	Fence      int64
	FinishedAt time.Time
}

// Evidence is word of an attempt that came after its outcome was decided. It
// is kept and changes no outcome row.
type Evidence struct {
	Hold
	Kind    EvidenceKind
	Attempt Attempt
}

// Swept is a delivery whose lease or permit had lapsed, and what the sweep did.
type Swept struct {
	ID        DeliveryID
	Type      string
	Order     Order
	Lane      Lane
	Fence     int64
	EffectKey string
	Tombstone time.Duration
	// State is StatePending when it is due again.
	State  State
	Reason Reason
	// Repeats says that a further attempt may be a repeat.
	Repeats bool
}

// Cancelled is what became of one cancellation.
type Cancelled struct {
	ID DeliveryID
	// TooLate says that the delivery is on the wire: no further attempt
	// follows, but this one may arrive. Otherwise State is its end.
	TooLate bool
	State   State
}

// Spent is a cap unit that the ledger knows of: what caps are filled from.
type Spent struct {
	Cap     Cap
	Unit    string // as CapUnit makes it
	Holder  DeliveryID
	SpentAt time.Time
}

// Backlog is how much one lane and reason hold.
type Backlog struct {
	Channel Channel
	State   State
	Reason  Reason
	Count   int
	// OldestDue is the due time of the oldest, zero if none is due.
	OldestDue time.Time
}

// Unknowns is how many deliveries of a type ended unknown and are not settled
// by anybody's later word.
type Unknowns struct {
	Type  string
	Count int
	// Oldest is when the first of them ended.
	Oldest time.Time
}
