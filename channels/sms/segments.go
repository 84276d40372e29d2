package sms

import "strings"

// The encodings of a text message, as 3GPP TS 23.038 names them.
const (
	gsm7 = "GSM-7"
	ucs2 = "UCS-2"
)

// How much one segment holds, of 140 octets: alone, and as part of a longer
// message, where six octets say which part of which message it is (3GPP TS
// 23.040 section 9.2.3.24.1). GSM-7 counts septets, UCS-2 UTF-16 units.
const (
	gsm7Alone, gsm7Long = 160, 153
	ucs2Alone, ucs2Long = 70, 67
)

// The default alphabet and its extension (3GPP TS 23.038 section 6.2.1), by
// rows of its table. A character of the extension is two septets, escape and
// code. The table's form feed is left out: no text has one.
const (
	gsmBasic = "@£$¥èéùìòÇ\nØø\rÅå" + "Δ_ΦΓΛΩΠΨΣΘΞÆæßÉ" + " !\"#¤%&'()*+,-./" + "0123456789:;<=>?" +
		"¡ABCDEFGHIJKLMNO" + "PQRSTUVWXYZÄÖÑÜ§" + "¿abcdefghijklmno" + "pqrstuvwxyzäöñüà"
	gsmExtension = "^{}\\[~]|€"
)

// segments says how a text is encoded, and in how many segments it goes out. A
// single character outside the GSM alphabet makes all of it UCS-2.
func segments(text string) (encoding string, n int) {
	if strings.ContainsFunc(text, func(r rune) bool { return septets(r) == 0 }) {
		return ucs2, count(text, units, ucs2Alone, ucs2Long)
	}
	return gsm7, count(text, septets, gsm7Alone, gsm7Long)
}

// septets is the length of a character in GSM-7; 0: it is not in the alphabet.
func septets(r rune) int {
	switch {
	case strings.ContainsRune(gsmBasic, r):
		return 1
	case strings.ContainsRune(gsmExtension, r):
		return 2
	default:
		return 0
	}
}

// units is the length of a character in UTF-16, which is what phones take
// UCS-2 for: two beyond the first plane, a surrogate pair.
func units(r rune) int {
	if r > 0xffff {
		return 2
	}
	return 1
}

// count fills segments one after another. A character of two is never cut: it
// begins the next segment instead, and leaves one place of this empty.
func count(text string, size func(rune) int, alone, long int) int {
	total, n, used := 0, 1, 0
	for _, r := range text {
		s := size(r)
		total += s
		if used+s > long {
			n, used = n+1, 0
		}
		used += s
	}
	if total <= alone {
		return 1
	}
	return n
}
