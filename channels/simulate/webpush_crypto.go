package simulate

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/ecdh"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"math/big"
	"strings"
	"time"
)

// maxVAPIDLife is the longest that a token may be good for (RFC 8292 section 2).
const maxVAPIDLife = 24 * time.Hour

// checkVAPID returns whom an Authorization header names, or why the push
// service refuses it (RFC 8292 sections 2 to 4).
func (b *browser) checkVAPID(authorization string, now time.Time) (subject string, err error) {
	scheme, params, _ := strings.Cut(authorization, " ")
	if authorization == "" && !b.bound {
		return "", nil // anybody may send to it
	}
	if !strings.EqualFold(scheme, "vapid") {
		return "", errors.New("missing VAPID token")
	}
	var token, key string
	for p := range strings.SplitSeq(params, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(p), "=")
		switch name {
		case "t":
			token = value
		case "k":
			key = value
		}
	}
	point, err := base64.RawURLEncoding.DecodeString(key)
	if err != nil {
		return "", errors.New("invalid VAPID public key")
	}
	public, err := ecdsa.ParseUncompressedPublicKey(elliptic.P256(), point)
	if err != nil {
		return "", errors.New("invalid VAPID public key")
	}
	if b.bound && !bytes.Equal(ownerHash(point), b.owner[:]) {
		return "", errors.New("VAPID public key mismatch")
	}
	return checkVAPIDToken(token, public, b.origin, now)
}

func checkVAPIDToken(token string, key *ecdsa.PublicKey, origin string, now time.Time) (subject string, err error) {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return "", errors.New("invalid VAPID token")
	}
	var header struct{ Typ, Alg string }
	var claims struct {
		Aud, Sub string
		Exp      int64
	}
	if !decodePart(parts[0], &header) || !decodePart(parts[1], &claims) || header.Alg != "ES256" {
		return "", errors.New("invalid VAPID token")
	}
	signature, err := base64.RawURLEncoding.DecodeString(parts[2])
	if err != nil || len(signature) != 64 {
		return "", errors.New("invalid VAPID signature")
	}
	sum := sha256.Sum256([]byte(parts[0] + "." + parts[1]))
	if !ecdsa.Verify(key, sum[:], new(big.Int).SetBytes(signature[:32]), new(big.Int).SetBytes(signature[32:])) {
		return "", errors.New("invalid VAPID signature")
	}
	expires := time.Unix(claims.Exp, 0)
	switch {
	case claims.Aud != origin:
		return "", fmt.Errorf("invalid VAPID audience: it is to be %s", origin)
	case !expires.After(now):
		return "", errors.New("VAPID token expired")
	case expires.Sub(now) > maxVAPIDLife:
		return "", errors.New("VAPID token expires more than a day from now")
	case !strings.HasPrefix(claims.Sub, "mailto:") && !strings.HasPrefix(claims.Sub, "https:"):
		return "", errors.New("invalid VAPID subject: it is to be a mailto: or an https: URL")
	}
	return claims.Sub, nil
}

// The parts of an encrypted message (RFC 8188 section 2.1).
const (
	saltBytes    = 16
	codingHeader = saltBytes + 4 + 1
	tagBytes     = 16
	pointBytes   = 65
)

// decrypt does what the browser does with a message (RFC 8291 sections 3 and
// 4): one record of aes128gcm, the sender's public key in its header.
func decrypt(body []byte, key *ecdh.PrivateKey, auth []byte) ([]byte, error) {
	if len(body) < codingHeader+pointBytes+tagBytes+1 {
		return nil, errors.New("the message is too short for its header")
	}
	salt, size, idLen := body[:saltBytes], binary.BigEndian.Uint32(body[saltBytes:]), int(body[codingHeader-1])
	if idLen != pointBytes {
		return nil, fmt.Errorf("the key id has %d bytes and not the 65 of a public key", idLen)
	}
	point, record := body[codingHeader:codingHeader+pointBytes], body[codingHeader+pointBytes:]
	if size < tagBytes+2 || uint64(len(record)) > uint64(size) {
		return nil, fmt.Errorf("the record has %d bytes and the record size says %d: a message is one record", len(record), size)
	}
	sender, err := ecdh.P256().NewPublicKey(point)
	if err != nil {
		return nil, errors.New("the key id is not a point on the curve")
	}
	gcm, nonce, err := contentKeys(salt, auth, key, sender)
	if err != nil {
		return nil, err
	}
	text, err := gcm.Open(nil, nonce, record, nil)
	if err != nil {
		return nil, errors.New("the record does not decrypt with this subscription's keys")
	}
	text = bytes.TrimRight(text, "\x00")
	if len(text) == 0 || text[len(text)-1] != 2 {
		return nil, errors.New("the record does not end with the delimiter of a last one")
	}
	return text[:len(text)-1], nil
}

// contentKeys derives cipher and nonce (RFC 8291 section 3.4).
func contentKeys(salt, auth []byte, key *ecdh.PrivateKey, sender *ecdh.PublicKey) (cipher.AEAD, []byte, error) {
	shared, err := key.ECDH(sender)
	if err != nil {
		return nil, nil, err
	}
	info := "WebPush: info\x00" + string(key.PublicKey().Bytes()) + string(sender.Bytes())
	secret, err := hkdf.Key(sha256.New, shared, auth, info, 32)
	if err != nil {
		return nil, nil, err
	}
	content, err := hkdf.Key(sha256.New, secret, salt, "Content-Encoding: aes128gcm\x00", 16)
	if err != nil {
		return nil, nil, err
	}
	nonce, err := hkdf.Key(sha256.New, secret, salt, "Content-Encoding: nonce\x00", 12)
	if err != nil {
		return nil, nil, err
	}
	block, err := aes.NewCipher(content)
	if err != nil {
		return nil, nil, err
	}
	gcm, err := cipher.NewGCM(block)
	return gcm, nonce, err
}
