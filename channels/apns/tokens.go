package apns

import (
	"sync"
	"time"

	"github.com/sideshow/apns2/token"
)

// renewEvery is how often Apple lets a token be replaced.
// https://developer.apple.com/documentation/usernotifications/establishing-a-token-based-connection-to-apns
const renewEvery = 20 * time.Minute

// tokens replaces the account's token when Apple says that it has expired,
// which it says to every call under way at once.
type tokens struct {
	key *token.Token

	mu      sync.Mutex
	renewed time.Time // the last time that we were told to
}

// current returns the token that calls use now.
func (t *tokens) current() string { return t.key.GenerateIfExpired() }

// renew makes sure that the token is not the one that was refused, and reports
// whether another attempt can do better. It makes a new token once in twenty
// minutes: Apple refuses a connection that changes its token more often.
func (t *tokens) renew(refused string, now time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.key.Lock()
	defer t.key.Unlock()
	if t.key.Bearer != refused {
		return true // another call's refusal has brought a new one
	}
	if !t.renewed.IsZero() && now.Sub(t.renewed) < renewEvery {
		return false
	}
	if ok, err := t.key.Generate(); !ok || err != nil {
		return false
	}
	t.renewed = now
	return true
}
