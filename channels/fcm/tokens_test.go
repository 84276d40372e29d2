package fcm

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/oauth2"
)

// A token is renewed ahead of its end, without anybody's waiting for it; while
// the endpoint is away the old one is used as long as it holds, and asked for
// another no more often than every ten seconds.
func TestTokens_RenewAhead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		fetched, down := 0, false
		ts := &tokens{fetch: func() (*oauth2.Token, error) {
			fetched++
			if down {
				return nil, errors.New("away")
			}
			return &oauth2.Token{AccessToken: fmt.Sprint(fetched), Expiry: time.Now().Add(time.Hour)}, nil
		}}
		want := func(token string, fetches int) {
			t.Helper()
			got, err := ts.get(t.Context())
			synctest.Wait()
			if (err != nil) != (token == "") || got != token || fetched != fetches {
				t.Errorf("got %q, %v after %d requests, want %q after %d", got, err, fetched, token, fetches)
			}
		}
		want("1", 1)
		time.Sleep(53 * time.Minute)
		want("1", 1)
		time.Sleep(2 * time.Minute)
		want("1", 2) // and the new one has come meanwhile
		want("2", 2)
		down = true
		time.Sleep(55 * time.Minute)
		want("2", 3)
		time.Sleep(5 * time.Second)
		want("2", 3)
		time.Sleep(6 * time.Second)
		want("2", 4)
		time.Sleep(5 * time.Minute)
		want("", 5)
		down = false
		want("6", 6)
	})
}

// A token whose end is not said, or is next to now, is used for a while all the
// same: a loop of requests for better ones would end nowhere.
func TestTokens_WithoutAnEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, expiry := range []time.Duration{0, time.Second, -time.Hour} {
			fetched := 0
			ts := &tokens{fetch: func() (*oauth2.Token, error) {
				fetched++
				token := &oauth2.Token{AccessToken: "a"}
				if expiry != 0 {
					token.Expiry = time.Now().Add(expiry)
				}
				return token, nil
			}}
			for range 5 {
				if got, err := ts.get(t.Context()); got != "a" || err != nil {
					t.Errorf("%v: got %q, %v", expiry, got, err)
				}
			}
			if fetched != 1 {
				t.Errorf("%v: %d requests, want 1", expiry, fetched)
			}
		}
	})
}
