package postgres

import (
	"time"

	"github.com/jackc/pgx/v5/pgtype"
)

// orNull is a time as it is stored: one that is not set is null.
func orNull(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// orNever is an expiry as it is stored: one that is not set never comes.
func orNever(t time.Time) pgtype.Timestamptz {
	if t.IsZero() {
		return pgtype.Timestamptz{InfinityModifier: pgtype.Infinity, Valid: true}
	}
	return pgtype.Timestamptz{Time: t, Valid: true}
}

// timeOf reads what orNull and orNever store.
func timeOf(t pgtype.Timestamptz) time.Time {
	if !t.Valid || t.InfinityModifier != pgtype.Finite {
		return time.Time{}
	}
	return t.Time.UTC()
}

// timePtr is timeOf for what is shown.
func timePtr(t pgtype.Timestamptz) *time.Time {
	u := timeOf(t)
	if u.IsZero() {
		return nil
	}
	return &u
}
