package ledger

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"strings"
)

// errParts says that stored parts are not what EncodeParts wrote.
var errParts = errors.New("the pairs are cut short")

// EncodeParts writes a map as length-prefixed pairs: every acceptance stores
// one and few are ever read, so that writing must cost little, and the values,
// which are digests in hexadecimal, take half their room. It never returns nil,
// which the column does not take.
func EncodeParts(parts map[string]string) []byte {
	b := binary.AppendUvarint(make([]byte, 0, 64*len(parts)+8), uint64(len(parts)))
	for k, v := range parts {
		b = append(binary.AppendUvarint(b, uint64(len(k))), k...)
		b = appendValue(b, v)
	}
	return b
}

// appendValue writes a value: twice its length, and as it is; or if that gives
// the same again, twice the length of what its digits stand for and one, and that.
func appendValue(b []byte, v string) []byte {
	if raw, err := hex.DecodeString(v); err == nil && strings.ToLower(v) == v {
		return append(binary.AppendUvarint(b, uint64(len(raw))<<1|1), raw...)
	}
	return append(binary.AppendUvarint(b, uint64(len(v))<<1), v...)
}

// cutValue takes a value off the front.
func cutValue(b []byte) (v string, rest []byte, ok bool) {
	n, size := binary.Uvarint(b)
	if size <= 0 || n>>1 > uint64(len(b)-size) {
		return "", nil, false
	}
	b = b[size:]
	if n&1 == 1 {
		return hex.EncodeToString(b[:n>>1]), b[n>>1:], true
	}
	return string(b[:n>>1]), b[n>>1:], true
}

// DecodeParts reads what EncodeParts wrote.
func DecodeParts(b []byte) (map[string]string, error) {
	n, size := binary.Uvarint(b)
	if size <= 0 {
		return nil, errParts
	}
	b = b[size:]
	parts := make(map[string]string)
	for range n {
		var k, v string
		var ok bool
		if k, b, ok = cut(b); !ok {
			return nil, errParts
		}
		if v, b, ok = cutValue(b); !ok {
			return nil, errParts
		}
		parts[k] = v
	}
	return parts, nil
}

// cut takes one length-prefixed string off the front.
func cut(b []byte) (s string, rest []byte, ok bool) {
	n, size := binary.Uvarint(b)
	if size <= 0 || n > uint64(len(b)-size) {
		return "", nil, false
	}
	b = b[size:]
	return string(b[:n]), b[n:], true
}
