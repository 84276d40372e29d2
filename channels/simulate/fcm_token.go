package simulate

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

const (
	// tokenPath is the OAuth token endpoint's, as at oauth2.googleapis.com.
	tokenPath = "/token"
	// assertionLife is the longest that Google lets an assertion be good for.
	// https://developers.google.com/identity/protocols/oauth2/service-account
	assertionLife = time.Hour
	assertionSkew = 5 * time.Minute
	accessLife    = time.Hour
)

// grant answers a request for an access token by a signed assertion (RFC 7523
// section 2.1).
func (s *fcmServer) grant(p *push, now time.Time) *answer {
	form, err := url.ParseQuery(string(p.body))
	switch {
	case p.method != http.MethodPost || err != nil || p.size > len(p.body):
		return tokenError(http.StatusBadRequest, "invalid_request", "Not a form.")
	case form.Get("grant_type") != "urn:ietf:params:oauth:grant-type:jwt-bearer":
		return tokenError(http.StatusBadRequest, "unsupported_grant_type", "Invalid grant_type: "+form.Get("grant_type"))
	}
	if code, why := s.checkAssertion(form.Get("assertion"), now); code != "" {
		return tokenError(http.StatusBadRequest, code, why)
	}
	var b [24]byte
	_, _ = rand.Read(b[:]) // it never fails: it ends the process instead
	token := "ya29." + base64.RawURLEncoding.EncodeToString(b[:])
	s.issuedMu.Lock()
	s.issued[token] = now.Add(accessLife)
	s.issuedMu.Unlock()
	return &answer{status: http.StatusOK, payload: mustJSON(map[string]any{
		"access_token": token, "token_type": "Bearer", "expires_in": int(accessLife/time.Second) - 1})}
}

// checkAssertion returns why an assertion is not one of ours, if it is not:
// RS256 (RFC 7518 section 3.3) with our key, our account, this endpoint, and
// times that hold now.
func (s *fcmServer) checkAssertion(assertion string, now time.Time) (code, why string) {
	parts := strings.Split(assertion, ".")
	var header struct{ Alg, Kid string }
	var claims struct {
		Iss, Aud, Scope string
		Iat, Exp        int64
	}
	if len(parts) != 3 || !decodePart(parts[0], &header) || !decodePart(parts[1], &claims) {
		return "invalid_grant", "Bad Request"
	}
	sig, err := base64.RawURLEncoding.DecodeString(parts[2])
	sum := sha256.Sum256([]byte(parts[0] + "." + parts[1]))
	iat, exp := time.Unix(claims.Iat, 0), time.Unix(claims.Exp, 0)
	switch {
	case claims.Iss != s.account.ClientEmail:
		return "invalid_grant", "Invalid grant: account not found"
	case err != nil || header.Alg != "RS256" || header.Kid != s.account.PrivateKeyID ||
		rsa.VerifyPKCS1v15(s.key, crypto.SHA256, sum[:], sig) != nil:
		return "invalid_grant", "Invalid JWT Signature."
	case claims.Aud != s.account.TokenURI:
		return "invalid_grant", "Invalid JWT: Failed audience check."
	case iat.After(now.Add(assertionSkew)) || exp.Before(now.Add(-assertionSkew)) || exp.Sub(iat) > assertionLife || !exp.After(iat):
		return "invalid_grant", "Invalid JWT: Token must be a short-lived token (60 minutes) and in a reasonable timeframe. " +
			"Check your iat and exp values in the JWT claim."
	case !slices.ContainsFunc(strings.Fields(claims.Scope), opensMessaging):
		return "invalid_scope", "Invalid OAuth scope or ID token audience provided."
	}
	return "", ""
}

func opensMessaging(scope string) bool {
	return scope == "https://www.googleapis.com/auth/firebase.messaging" || scope == "https://www.googleapis.com/auth/cloud-platform"
}

// tokenError is a refusal as RFC 6749 section 5.2 spells it.
func tokenError(status int, code, why string) *answer {
	return &answer{status: status, reason: code, payload: mustJSON(map[string]string{"error": code, "error_description": why})}
}

// good reports whether an access token was issued here and has not expired. A
// simulator that is started again has forgotten them.
func (s *fcmServer) good(token string, now time.Time) bool {
	s.issuedMu.Lock()
	defer s.issuedMu.Unlock()
	until, ok := s.issued[token]
	if ok && now.After(until) {
		delete(s.issued, token)
		return false
	}
	return ok
}
