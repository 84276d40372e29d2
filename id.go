package notifier

import (
	"encoding/base32"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strings"
	"time"
)

// ID is a notification's internal id: a UUIDv7, so ids sort by the time of
// acceptance. It prints as ntf_… and is safe in a URL.
type ID [16]byte

// DeliveryID is a delivery's id: its notification and its ordinal within it.
// It prints as dlv_….
type DeliveryID struct {
	Notification ID
	Ordinal      uint16
}

const (
	notificationPrefix = "ntf_"
	deliveryPrefix     = "dlv_"
)

// idEncoding is base32hex (RFC 4648 section 7) in lower case.
var idEncoding = base32.NewEncoding("0123456789abcdefghijklmnopqrstuv").WithPadding(base32.NoPadding)

// NewID returns the UUIDv7 for a time, a sub-millisecond sequence (12 bits are
// kept) and eight random bytes (62 bits are kept).
func NewID(t time.Time, seq uint16, random [8]byte) ID {
	var id ID
	ms := uint64(t.UnixMilli())
	id[0], id[1], id[2] = byte(ms>>40), byte(ms>>32), byte(ms>>24)
	id[3], id[4], id[5] = byte(ms>>16), byte(ms>>8), byte(ms)
	binary.BigEndian.PutUint16(id[6:], 0x7000|seq&0x0fff)
	copy(id[8:], random[:])
	id[8] = id[8]&0x3f | 0x80
	return id
}

// Time is the time in the id, to the millisecond.
func (id ID) Time() time.Time {
	var b [8]byte
	copy(b[2:], id[:6])
	return time.UnixMilli(int64(binary.BigEndian.Uint64(b[:])))
}

// IsZero reports whether the id was never set.
func (id ID) IsZero() bool { return id == ID{} }

// String returns the id as callers see it.
func (id ID) String() string {
	return notificationPrefix + idEncoding.EncodeToString(id[:])
}

// MarshalText writes the form of String.
func (id ID) MarshalText() ([]byte, error) { return []byte(id.String()), nil }

// UnmarshalText reads what ParseID reads.
func (id *ID) UnmarshalText(b []byte) (err error) {
	*id, err = ParseID(string(b))
	return err
}

// ParseID reads the form that String writes.
func ParseID(s string) (ID, error) {
	var id ID
	b, err := decodeID(s, notificationPrefix, len(id))
	copy(id[:], b)
	return id, err
}

// String returns the id as callers see it.
func (d DeliveryID) String() string {
	b := append(d.Notification[:], byte(d.Ordinal>>8), byte(d.Ordinal))
	return deliveryPrefix + idEncoding.EncodeToString(b)
}

// MarshalText writes the form of String.
func (d DeliveryID) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText reads what ParseDeliveryID reads.
func (d *DeliveryID) UnmarshalText(b []byte) (err error) {
	*d, err = ParseDeliveryID(string(b))
	return err
}

// ParseDeliveryID reads the form that String writes.
func ParseDeliveryID(s string) (DeliveryID, error) {
	var d DeliveryID
	b, err := decodeID(s, deliveryPrefix, len(d.Notification)+2)
	if err != nil {
		return d, err
	}
	copy(d.Notification[:], b)
	d.Ordinal = binary.BigEndian.Uint16(b[len(d.Notification):])
	return d, nil
}

// decodeID accepts exactly one spelling of each id.
func decodeID(s, prefix string, size int) ([]byte, error) {
	rest, ok := strings.CutPrefix(s, prefix)
	if !ok {
		return nil, fmt.Errorf("id %q does not begin with %s", s, prefix)
	}
	b, err := idEncoding.DecodeString(rest)
	if err != nil || len(b) != size || idEncoding.EncodeToString(b) != rest {
		return nil, fmt.Errorf("id %q is not one of ours", s)
	}
	return b, nil
}

// UUID returns an effect key as a canonical lower-case UUID (version 8, RFC
// 9562 section 5.8), for providers that take nothing else.
func UUID(effectKey string) string {
	b, err := hex.DecodeString(effectKey)
	if err != nil || len(b) < 16 {
		b, _ = hex.DecodeString(Child(effectKey))
	}
	b = b[:16]
	b[6] = b[6]&0x0f | 0x80
	b[8] = b[8]&0x3f | 0x80
	var s [36]byte
	hex.Encode(s[0:], b[0:4])
	hex.Encode(s[9:], b[4:6])
	hex.Encode(s[14:], b[6:8])
	hex.Encode(s[19:], b[8:10])
	hex.Encode(s[24:], b[10:16])
	s[8], s[13], s[18], s[23] = '-', '-', '-', '-'
	return string(s[:])
}
