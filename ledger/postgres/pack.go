package postgres

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/seed-4b260dfd/notifier"
)

// The first byte of what packs as little as it can says how.
const (
	packedText = 't' // the text itself
	packedHex  = 'x' // the bytes that its hexadecimal digits stand for
	packedJSON = '{' // JSON, which begins so
)

var errPacked = errors.New("it was packed in no known way")

// pack writes a text in half its room when it is hexadecimal, as keys of
// effects and most tokens of devices are.
func pack(s string) []byte {
	if raw, err := hex.DecodeString(s); err == nil && strings.ToLower(s) == s {
		return append([]byte{packedHex}, raw...)
	}
	return append([]byte{packedText}, s...)
}

// unpack reads what pack wrote.
func unpack(b []byte) (string, error) {
	switch {
	case len(b) == 0:
	case b[0] == packedHex:
		return hex.EncodeToString(b[1:]), nil
	case b[0] == packedText:
		return string(b[1:]), nil
	}
	return "", errPacked
}

// packAddress writes an address: its value alone when it has no more.
func packAddress(a notifier.Address) ([]byte, error) {
	if a == (notifier.Address{Value: a.Value}) {
		return pack(a.Value), nil
	}
	b, err := json.Marshal(a)
	if err != nil {
		return nil, fmt.Errorf("encode an address: %w", err)
	}
	return b, nil
}

// unpackAddress reads what packAddress wrote.
func unpackAddress(b []byte) (a notifier.Address, err error) {
	if len(b) > 0 && b[0] == packedJSON {
		err = json.Unmarshal(b, &a)
	} else {
		a.Value, err = unpack(b)
	}
	if err != nil {
		return a, fmt.Errorf("decode an address: %w", err)
	}
	return a, nil
}

// packCollapse writes a collapse id: nothing when it is the effect key, which
// it is unless the type says otherwise.
func packCollapse(id, effectKey string) []byte {
	if id == effectKey {
		return nil
	}
	return pack(id)
}

// unpackCollapse reads what packCollapse wrote.
func unpackCollapse(b []byte, effectKey string) (string, error) {
	if b == nil {
		return effectKey, nil
	}
	return unpack(b)
}
