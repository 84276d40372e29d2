package api

import (
	"net/http"
	"strings"
	"testing"

	"github.com/seed-4b260dfd/notifier"
)

func TestHeaderKey(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("k", notifier.MaxKeyBytes)
	for _, tc := range []struct {
		name   string
		values []string
		want   string
		code   notifier.Code
		field  string
	}{
		{"bare", []string{"order-42/shipped"}, "order-42/shipped", "", ""},
		{"quoted", []string{`"order-42/shipped"`}, "order-42/shipped", "", ""},
		{"escapes", []string{`"a\"b\\c"`}, `a"b\c`, "", ""},
		{"bare with a quote inside", []string{`a"b`}, `a"b`, "", ""},
		{"bare with a backslash", []string{`a\b`}, `a\b`, "", ""},
		{"spaces within quotes", []string{`" a "`}, " a ", "", ""},
		{"longest", []string{long}, long, "", ""},
		{"longest, quoted", []string{`"` + long + `"`}, long, "", ""},
		{"too long", []string{long + "k"}, "", notifier.CodeInvalid, "key"},
		{"empty", []string{""}, "", notifier.CodeKeyRequired, "key"},
		{"empty quoted", []string{`""`}, "", notifier.CodeKeyRequired, "key"},
		{"not closed", []string{`"abc`}, "", notifier.CodeInvalid, keyHeader},
		{"lone quote", []string{`"`}, "", notifier.CodeInvalid, keyHeader},
		{"other escape", []string{`"a\n"`}, "", notifier.CodeInvalid, keyHeader},
		{"escape at the end", []string{`"a\`}, "", notifier.CodeInvalid, keyHeader},
		{"more after the quote", []string{`"a";x=1`}, "", notifier.CodeInvalid, keyHeader},
		{"twice", []string{"a", "a"}, "", notifier.CodeInvalid, keyHeader},
		{"not ASCII", []string{"é"}, "", notifier.CodeInvalid, "key"},
		{"tab", []string{"a\tb"}, "", notifier.CodeInvalid, "key"},
		{"not ASCII, quoted", []string{"\"\xff\""}, "", notifier.CodeInvalid, "key"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			got, ok, err := headerKey(http.Header{keyHeader: tc.values})
			if tc.code == "" {
				if err != nil || !ok || got != tc.want {
					t.Fatalf("got %q, %v, %v; want %q", got, ok, err, tc.want)
				}
				return
			}
			if e := asError(err); e.Code != tc.code || e.Field != tc.field {
				t.Fatalf("got code %q, field %q; want %q, %q", e.Code, e.Field, tc.code, tc.field)
			}
		})
	}
}

func TestPost_HeaderAndBodyAgree(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, header, body string
		want               string // "": refused
	}{
		{"header only", "k", "", "k"},
		{"body only", "", "k", "k"},
		{"both", "k", "k", "k"},
		{"both, header quoted", `"k"`, "k", "k"},
		{"differ", "k", "l", ""},
		{"differ by a space", `"k "`, "k", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			s := newService()
			body, headers := `{"type":"t","recipient":"r","key":"`+tc.body+`"}`, []string{}
			if tc.header != "" {
				headers = []string{keyHeader, tc.header}
			}
			w := s.do("POST", "/v1/notifications", body, headers...)
			if tc.want == "" {
				wantProblem(t, w, http.StatusBadRequest, notifier.CodeInvalid, "key")
			} else if n := wantNotification(t, w, http.StatusAccepted); n.Key != tc.want {
				t.Errorf("got key %q, want %q", n.Key, tc.want)
			}
		})
	}
}

// FuzzIdempotencyKeyHeader: what is read is a key, and reads the same when it
// is written as a structured-field string.
func FuzzIdempotencyKeyHeader(f *testing.F) {
	for _, s := range []string{"order-42/shipped", `"order-42"`, `"a\"b\\c"`, `"`, `""`, `"a`, `"a\`, `"a"b`, " ", "é", "\x00", `a"b`, strings.Repeat("k", 256)} {
		f.Add(s)
	}
	escape := strings.NewReplacer(`\`, `\\`, `"`, `\"`)
	f.Fuzz(func(t *testing.T, value string) {
		key, _, err := headerKey(http.Header{keyHeader: {value}})
		if err != nil {
			if status, again := StatusOf(asError(err).Code); status != http.StatusBadRequest || again != AgainCorrected {
				t.Fatalf("%q: got %v", value, err)
			}
			return
		}
		if err := notifier.CheckKey(key); err != nil {
			t.Fatalf("%q was read as %q: %v", value, key, err)
		}
		again, ok, err := headerKey(http.Header{keyHeader: {`"` + escape.Replace(key) + `"`}})
		if err != nil || !ok || again != key {
			t.Fatalf("%q was read as %q, and quoted as %q, %v, %v", value, key, again, ok, err)
		}
	})
}
