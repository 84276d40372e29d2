package notifier

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
)

// MaxKeyBytes is the longest idempotency key that is accepted.
const MaxKeyBytes = 255

// Child derives a key from parts: the lower-case hex SHA-256 over the parts,
// each preceded by its length as eight bytes, so that ("a", "b/c") and
// ("a/b", "c") never meet. The same parts give the same key for ever.
func Child(parts ...string) string {
	h := sha256.New()
	var n [8]byte
	for _, p := range parts {
		binary.BigEndian.PutUint64(n[:], uint64(len(p)))
		h.Write(n[:])
		h.Write([]byte(p))
	}
	return hex.EncodeToString(h.Sum(nil))
}

// EffectKey identifies one effect: it is equal in every attempt, and in a
// ledger that lost the row. Providers and claims are given ids made from it.
func EffectKey(tenant, key string, channel Channel, address string) string {
	return Child(tenant, key, string(channel), address)
}

// CheckKey returns an *Error with CodeInvalid when key is not 1 to 255 bytes
// of printable ASCII.
func CheckKey(key string) error {
	if len(key) > MaxKeyBytes {
		return &Error{Code: CodeInvalid, Field: "key", Message: fmt.Sprintf("the key has %d bytes; at most %d are allowed", len(key), MaxKeyBytes)}
	}
	for i := range len(key) {
		if key[i] < 0x20 || key[i] > 0x7e {
			return &Error{Code: CodeInvalid, Field: "key", Message: fmt.Sprintf("the key has the byte 0x%02x at position %d; only printable ASCII is allowed", key[i], i)}
		}
	}
	if key == "" {
		return &Error{Code: CodeKeyRequired, Field: "key", Message: "an idempotency key is required: send the header Idempotency-Key or the field key, equal in every copy of the same request"}
	}
	return nil
}
