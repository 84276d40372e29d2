package postgres

import (
	"errors"

	"github.com/jackc/pgx/v5/pgconn"
)

// The classes of errors that matter here.
const (
	deadlock        = "40P01"
	serialization   = "40001"
	lockUnavailable = "55P03"
	undefinedTable  = "42P01"
	checkViolation  = "23514" // which "no partition for row" is, too
)

// aborted reports whether an error says for certain that nothing was written
// and that the same statement may do better: it lost to another transaction.
func aborted(err error) bool {
	switch sqlState(err) {
	case deadlock, serialization, lockUnavailable:
		return true
	}
	return false
}

// ambiguous reports whether a write that failed may have happened: the server
// did not say that it did not.
func ambiguous(err error) bool {
	if pgconn.SafeToRetry(err) {
		return false
	}
	var connecting *pgconn.ConnectError
	if errors.As(err, &connecting) {
		return false
	}
	state := sqlState(err)
	switch {
	case state == "": // no word from the server
		return true
	case state[:2] == "08" || state[:2] == "57" || state == "40003":
		// Connection trouble, a shutdown, a cancelled commit: all of them can
		// be reported after the commit record was written.
		return true
	}
	return false
}

func sqlState(err error) string {
	var server *pgconn.PgError
	if errors.As(err, &server) {
		return server.Code
	}
	return ""
}
