package postgres

import (
	"encoding/binary"
	"errors"
)

// errParts says that stored parts are not what encodeParts wrote.
var errParts = errors.New("the pairs are cut short")

// encodeParts writes a map as length-prefixed pairs: every acceptance stores
// one and few are ever read, so that writing must cost little. It never
// returns nil, which the column does not take.
func encodeParts(parts map[string]string) []byte {
	b := binary.AppendUvarint(make([]byte, 0, 64*len(parts)+8), uint64(len(parts)))
	for k, v := range parts {
		b = append(binary.AppendUvarint(b, uint64(len(k))), k...)
		b = append(binary.AppendUvarint(b, uint64(len(v))), v...)
	}
	return b
}

func decodeParts(b []byte) (map[string]string, error) {
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
		if v, b, ok = cut(b); !ok {
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
