package notifier_test

import (
	"encoding/json"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-4b260dfd/notifier"
)

func TestID_Layout(t *testing.T) {
	t.Parallel()
	at := time.UnixMilli(0x0197f3a1c9b0).Add(999 * time.Microsecond)
	id := notifier.NewID(at, 0xffff, [8]byte{0xff, 1, 2, 3, 4, 5, 6, 7})
	want := notifier.ID{0x01, 0x97, 0xf3, 0xa1, 0xc9, 0xb0, 0x7f, 0xff, 0xbf, 1, 2, 3, 4, 5, 6, 7}
	if id != want {
		t.Errorf("got %x, want %x", [16]byte(id), [16]byte(want))
	}
	if got := id.Time(); !got.Equal(at.Truncate(time.Millisecond)) {
		t.Errorf("time: got %v, want %v", got, at.Truncate(time.Millisecond))
	}
	if id.IsZero() || !(notifier.ID{}).IsZero() {
		t.Error("IsZero is wrong")
	}
}

// Ids sort by time, then by sequence, as bytes and as text.
func TestID_SortsByTime(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	var texts []string
	at := time.UnixMilli(1)
	for range 200 {
		at = at.Add(time.Duration(1+random.Int64N(1<<40)) * time.Millisecond / 1000)
		for seq := range uint16(4) {
			var b [8]byte
			for i := range b {
				b[i] = byte(random.Uint32())
			}
			texts = append(texts, notifier.NewID(at.Truncate(time.Millisecond), seq*1000, b).String())
		}
		at = at.Add(time.Millisecond)
	}
	if !slices.IsSorted(texts) {
		t.Error("the texts of ids in the order of their times are not sorted")
	}
}

func TestID_OneSpelling(t *testing.T) {
	t.Parallel()
	id := notifier.NewID(time.UnixMilli(0x0197f3a1c9b0), 7, [8]byte{1, 2, 3, 4, 5, 6, 7, 8})
	s := id.String()
	if got, err := notifier.ParseID(s); err != nil || got != id {
		t.Fatalf("ParseID(%q): got %v, %v", s, got, err)
	}
	last := s[:len(s)-1]
	for _, bad := range []string{
		"", "ntf_", "ntf", s + "0", last, s + "\n", s[:9] + "\r\n" + s[9:], strings.ToUpper(s),
		"ntf_" + strings.ToUpper(s[4:]), "dlv_" + s[4:], s[4:], s + "=", last + "1", // the last digit has unused bits
	} {
		if got, err := notifier.ParseID(bad); err == nil || !got.IsZero() {
			t.Errorf("ParseID(%q): got %v, %v, want an error", bad, got, err)
		}
	}
}

func TestDeliveryID_RoundTrip(t *testing.T) {
	t.Parallel()
	id := notifier.NewID(time.UnixMilli(0x0197f3a1c9b0), 7, [8]byte{1, 2, 3, 4, 5, 6, 7, 8})
	for _, ordinal := range []uint16{0, 1, 255, 256, 65535} {
		d := notifier.DeliveryID{Notification: id, Ordinal: ordinal}
		if got, err := notifier.ParseDeliveryID(d.String()); err != nil || got != d {
			t.Errorf("ParseDeliveryID(%q): got %v, %v", d, got, err)
		}
		if got, err := notifier.ParseID("ntf_" + d.String()[4:]); err == nil {
			t.Errorf("a delivery's id was read as a notification's: %v", got)
		}
	}
	if d, err := notifier.ParseDeliveryID(id.String()); err == nil {
		t.Errorf("a notification's id was read as a delivery's: %v", d)
	}
}

func TestID_JSON(t *testing.T) {
	t.Parallel()
	type both struct {
		N notifier.ID
		D notifier.DeliveryID
	}
	id := notifier.NewID(time.UnixMilli(0x0197f3a1c9b0), 7, [8]byte{1})
	in := both{id, notifier.DeliveryID{Notification: id, Ordinal: 3}}
	b, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	if want := `{"N":"` + in.N.String() + `","D":"` + in.D.String() + `"}`; string(b) != want {
		t.Errorf("got %s, want %s", b, want)
	}
	var out both
	if err := json.Unmarshal(b, &out); err != nil || out != in {
		t.Errorf("got %v, %v, want %v", out, err, in)
	}
	if err := json.Unmarshal([]byte(`{"D":"`+id.String()+`"}`), &out); err == nil {
		t.Error("a notification's id was read into a delivery's")
	}
}

func TestUUID(t *testing.T) {
	t.Parallel()
	for _, c := range [][2]string{
		{"00112233445566778899aabbccddeeff" + strings.Repeat("0", 32), "00112233-4455-8677-8899-aabbccddeeff"},
		{strings.Repeat("f", 64), "ffffffff-ffff-8fff-bfff-ffffffffffff"},
	} {
		if got := notifier.UUID(c[0]); got != c[1] {
			t.Errorf("UUID(%q): got %s, want %s", c[0], got, c[1])
		}
	}
	// What is no effect key gets a UUID all the same, and always the same one.
	for _, s := range []string{"", "ab", "not hex"} {
		if got := notifier.UUID(s); len(got) != 36 || got[14] != '8' || got != notifier.UUID(s) || got == notifier.UUID(s+"x") {
			t.Errorf("UUID(%q): got %s", s, got)
		}
	}
}

func FuzzParseID(f *testing.F) {
	id := notifier.NewID(time.UnixMilli(0x0197f3a1c9b0), 7, [8]byte{1, 2, 3})
	f.Add("")
	f.Add("ntf_")
	f.Add(id.String())
	f.Add(notifier.DeliveryID{Notification: id, Ordinal: 9}.String())
	f.Add(strings.ToUpper(id.String()))
	f.Fuzz(func(t *testing.T, s string) {
		if id, err := notifier.ParseID(s); err == nil && id.String() != s {
			t.Errorf("ParseID(%q) prints itself %q", s, id)
		}
		if id, err := notifier.ParseDeliveryID(s); err == nil && id.String() != s {
			t.Errorf("ParseDeliveryID(%q) prints itself %q", s, id)
		}
	})
}
