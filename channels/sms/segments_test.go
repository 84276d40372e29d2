package sms

import (
	"strings"
	"testing"
	"unicode/utf16"
)

func TestSegments(t *testing.T) {
	t.Parallel()
	r := strings.Repeat
	for _, test := range []struct {
		name, text, encoding string
		n                    int
	}{
		{"a word", "Hello", gsm7, 1},
		{"160 plain", r("a", 160), gsm7, 1},
		{"161 plain", r("a", 161), gsm7, 2},
		{"306 plain", r("a", 306), gsm7, 2},
		{"307 plain", r("a", 307), gsm7, 3},
		{"1530 plain", r("a", 1530), gsm7, 10},
		{"1531 plain", r("a", 1531), gsm7, 11},
		{"the alphabet", gsmBasic, gsm7, 1},
		{"accents and Greek of the alphabet", r("éàΩñ§¿", 26), gsm7, 1},
		{"line breaks", r("a\r\n", 53) + "a", gsm7, 1},
		{"80 of the extension", r("€", 80), gsm7, 1},
		{"81 of the extension: 76 a segment, as none is cut", r("€", 81), gsm7, 2},
		{"152 of the extension", r("{", 152), gsm7, 2},
		{"153 of the extension: 306 septets, and a place is lost twice", r("{", 153), gsm7, 3},
		{"the extension's escape is not cut off", r("a", 152) + "€" + r("b", 7), gsm7, 2},
		{"305 septets, one place lost", r("a", 152) + "€" + r("b", 151), gsm7, 2},
		{"306 septets, and the place lost makes a third", r("a", 152) + "€" + r("b", 152), gsm7, 3},
		{"a tab is not in the alphabet", "a\tb", ucs2, 1},
		{"a backtick is not", r("`", 70), ucs2, 1},
		{"typographic quotes", "“" + r("a", 68) + "”", ucs2, 1},
		{"typographic quotes, 71", "“" + r("a", 69) + "”", ucs2, 2},
		{"a typographic apostrophe spoils 160", "It’s " + r("a", 155), ucs2, 3},
		{"a lower-case ç, unlike Ç", "façade", ucs2, 1},
		{"70 CJK", r("漢", 70), ucs2, 1},
		{"71 CJK", r("漢", 71), ucs2, 2},
		{"134 CJK", r("漢", 134), ucs2, 2},
		{"135 CJK", r("漢", 135), ucs2, 3},
		{"670 CJK", r("漢", 670), ucs2, 10},
		{"671 CJK", r("漢", 671), ucs2, 11},
		{"35 emoji", r("🎉", 35), ucs2, 1},
		{"36 emoji: 33 a segment, as no pair is cut", r("🎉", 36), ucs2, 2},
		{"66 emoji", r("🎉", 66), ucs2, 2},
		{"67 emoji: 134 units, and a place is lost twice", r("🎉", 67), ucs2, 3},
		{"an emoji at the seam", r("漢", 66) + "🎉" + r("漢", 65), ucs2, 2},
		{"and one more after it", r("漢", 66) + "🎉" + r("漢", 66), ucs2, 3},
		{"a flag is four units", r("🇫🇷", 17), ucs2, 1},
		{"flags, 18", r("🇫🇷", 18), ucs2, 2},
		{"the extension in UCS-2 is one unit", r("€", 69) + "“", ucs2, 1},
	} {
		if encoding, n := segments(test.text); encoding != test.encoding || n != test.n {
			t.Errorf("%s: got %d in %s, want %d in %s", test.name, n, encoding, test.n, test.encoding)
		}
	}
}

// The alphabet has 128 places, of which one is the escape; the extension nine
// that print.
func TestAlphabet(t *testing.T) {
	t.Parallel()
	if n := len([]rune(gsmBasic)); n != 127 {
		t.Errorf("got %d characters, want 127", n)
	}
	if n := len([]rune(gsmExtension)); n != 9 {
		t.Errorf("got %d characters in the extension, want 9", n)
	}
	seen := map[rune]bool{}
	for _, r := range gsmBasic + gsmExtension {
		if seen[r] {
			t.Errorf("%q is there twice", r)
		}
		seen[r] = true
	}
}

// What segments says is what comes of cutting the text as a phone puts it
// together again: every part within its room, and none ends in half a pair.
func FuzzSegments(f *testing.F) {
	for _, s := range []string{"", "a", strings.Repeat("€", 200), strings.Repeat("🎉漢", 99), strings.Repeat("a", 152) + "€b"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		text = strings.ToValidUTF8(text, "?")
		encoding, n := segments(text)
		size, alone, long := septets, gsm7Alone, gsm7Long
		if encoding == ucs2 {
			size, alone, long = units, ucs2Alone, ucs2Long
		}
		total := 0
		for _, r := range text {
			if size(r) == 0 {
				t.Fatalf("%q is not in %s", r, encoding)
			}
			total += size(r)
		}
		if encoding == ucs2 && total != len(utf16.Encode([]rune(text))) {
			t.Errorf("got %d units, want %d", total, len(utf16.Encode([]rune(text))))
		}
		// At most one place of each segment but the last is left empty.
		least, most := (total+long-1)/long, (total+long-2)/(long-1)
		if total <= alone {
			least, most = 1, 1
		}
		if n < least || n > most {
			t.Errorf("%d in %s: got %d segments, want %d to %d", total, encoding, n, least, most)
		}
	})
}
