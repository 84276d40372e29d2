package apns

import (
	"time"

	"github.com/sideshow/apns2/token"
)

// renewEvery is how often Apple lets a token be replaced; a connection that
// changes its token sooner is refused with TooManyProviderTokenUpdates.
// https://developer.apple.com/documentation/usernotifications/establishing-a-token-based-connection-to-apns
const renewEvery = 20 * time.Minute

// renew makes sure that the account's token is not the one that Apple called
// expired, which it says to every call under way at once, and reports whether
// another attempt can do better.
//
// The key's own clock replaces a token after fifty minutes, so this happens to
// a process that was paused, or whose clock is late. A token younger than
// twenty minutes is kept: that it has expired can only mean that our clock is
// more than forty minutes late, and then the next one would be born expired too.
func renew(key *token.Token, refused string, now time.Time) bool {
	key.Lock()
	defer key.Unlock()
	if key.Bearer != refused {
		return true // another call has brought a new one
	}
	if now.Sub(time.Unix(key.IssuedAt, 0)) < renewEvery {
		return false
	}
	ok, err := key.Generate()
	return ok && err == nil
}
