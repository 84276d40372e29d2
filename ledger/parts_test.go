package ledger

import (
	"maps"
	"strings"
	"testing"
)

func TestParts(t *testing.T) {
	t.Parallel()
	for _, want := range []map[string]string{
		{}, {"": ""}, {"type": "aa", "to": "bb"}, {"upper": "AB", "odd": "abc", "digest": "00ff17", "none": "xyz"}, {"long": strings.Repeat("x", 300), strings.Repeat("k", 200): "\x00\n"},
	} {
		b := EncodeParts(want)
		got, err := DecodeParts(b)
		if err != nil || !maps.Equal(got, want) {
			t.Errorf("got %v, %v; want %v", got, err, want)
		}
		for n := range b {
			if got, err := DecodeParts(b[:n]); err == nil {
				t.Errorf("cut to %d of %d bytes: got %v, want an error", n, len(b), got)
			}
		}
	}
}
