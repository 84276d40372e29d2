package simulate

import (
	"crypto/ecdsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"math/big"
	"strings"
	"time"
)

// How long APNs takes a provider token, and how soon it takes another one on
// the same connection ("Establishing a token-based connection to APNs").
const (
	tokenLifetime    = time.Hour
	tokenMinInterval = 20 * time.Minute
	tokenMaxSkew     = 5 * time.Minute
)

// provider is what one connection has authenticated as.
type provider struct {
	token string
	since time.Time
	// expired says that the token was refused as expired, so that a new one is
	// welcome at once.
	expired bool
}

// checkToken returns 0, or the status and reason of APNs' refusal.
func (s *apnsServer) checkToken(p *provider, authorization string, now time.Time) (int, string) {
	scheme, token, _ := strings.Cut(authorization, " ")
	if token == "" || !strings.EqualFold(scheme, "bearer") {
		return 403, "MissingProviderToken"
	}
	issued, ok := s.verified.Load(token)
	if !ok {
		t, valid := s.verify(token)
		if !valid || t.After(now.Add(tokenMaxSkew)) {
			return 403, "InvalidProviderToken"
		}
		s.verified.Store(token, t)
		issued = t
	}
	if now.Sub(issued.(time.Time)) > tokenLifetime {
		p.expired = true
		return 403, "ExpiredProviderToken"
	}
	if token != p.token {
		if p.token != "" && !p.expired && now.Sub(p.since) < tokenMinInterval {
			return 429, "TooManyProviderTokenUpdates"
		}
		*p = provider{token: token, since: now}
	}
	return 0, ""
}

// verify reports when a token was issued and whether it is one of ours: ES256
// (RFC 7518 section 3.4) with our key id and team.
func (s *apnsServer) verify(token string) (issued time.Time, ok bool) {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return issued, false
	}
	var header struct{ Alg, Kid string }
	var claims struct {
		Iss string
		Iat int64
	}
	if !decodePart(parts[0], &header) || !decodePart(parts[1], &claims) {
		return issued, false
	}
	sig, err := base64.RawURLEncoding.DecodeString(parts[2])
	if err != nil || len(sig) != 64 || header.Alg != "ES256" || header.Kid != s.files.APNsKeyID || claims.Iss != s.files.APNsTeamID {
		return issued, false
	}
	sum := sha256.Sum256([]byte(parts[0] + "." + parts[1]))
	if !ecdsa.Verify(s.key, sum[:], new(big.Int).SetBytes(sig[:32]), new(big.Int).SetBytes(sig[32:])) {
		return issued, false
	}
	return time.Unix(claims.Iat, 0), true
}

func decodePart(part string, into any) bool {
	b, err := base64.RawURLEncoding.DecodeString(part)
	return err == nil && json.Unmarshal(b, into) == nil
}
