package channels

import "context"

// LiveChecker is a Channel that can try its account's credentials without
// sending anybody a message.
type LiveChecker interface {
	// Check returns why the credentials would be refused, or nil. Where there
	// is nobody to ask it looks at what it has, offline, and says so in its
	// documentation.
	Check(ctx context.Context) error
}
