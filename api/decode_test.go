package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"text/template"

	"github.com/seed-4b260dfd/notifier"
)

// nested is a document whose data has depth levels below it.
func nested(depth int) string {
	return `{"type":"t","recipient":"r","data":` + strings.Repeat(`{"a":`, depth) + "1" + strings.Repeat("}", depth) + "}"
}

func items(n int) string {
	return `{"type":"t","recipient":"r","data":{"l":[` + strings.TrimSuffix(strings.Repeat("1,", n), ",") + `]}}`
}

func withData(value string) string { return `{"type":"t","recipient":"r","data":{"x":` + value + `}}` }

func TestPost_HostileJSON(t *testing.T) {
	t.Parallel()
	const ok, invalid, unknown, unsupported = notifier.Code(""), notifier.CodeInvalid, notifier.CodeUnknownField, notifier.CodeUnsupportedField
	for _, tc := range []struct {
		name, body string
		code       notifier.Code
		field      string
	}{
		{"not JSON", `hello`, invalid, "body"},
		{"null", `null`, invalid, "body"},
		{"array", `[]`, invalid, "body"},
		{"string", `"x"`, invalid, "body"},
		{"empty object", `{}`, invalid, "type"},
		{"cut off", `{"type":"t","recipient":"r"`, invalid, "body"},
		{"cut off in a string", `{"type":"t`, invalid, "body"},
		{"second value", `{"type":"t","recipient":"r"} {}`, invalid, "body"},
		{"rubbish after it", `{"type":"t","recipient":"r"}x`, invalid, "body"},
		{"white space after it", "{\"type\":\"t\",\"recipient\":\"r\"}\r\n\t ", ok, ""},
		{"byte order mark", "\ufeff" + `{"type":"t","recipient":"r"}`, invalid, "body"},
		{"comment", `{"type":"t",/**/"recipient":"r"}`, invalid, "type"},
		{"trailing comma", `{"type":"t","recipient":"r",}`, invalid, "recipient"},
		{"single quotes", `{'type':"t"}`, invalid, "body"},

		{"duplicate name", `{"type":"t","recipient":"r","type":"u"}`, invalid, "recipient"},
		{"duplicate name by escape", `{"type":"t","recipient":"r","t\u0079pe":"u"}`, invalid, "recipient"},
		{"duplicate name in data", withData(`{"a":1,"a":2}`), invalid, "data.x.a"},
		{"name in other letters", `{"Type":"t","recipient":"r"}`, unknown, "Type"},

		{"invalid UTF-8", withData("\"\xff\""), invalid, "data.x"},
		{"overlong UTF-8", withData("\"\xc0\xaf\""), invalid, "data.x"},
		{"raw surrogate", withData("\"\xed\xa0\x80\""), invalid, "data.x"},
		{"lone high surrogate", withData(`"\ud800"`), invalid, "data.x"},
		{"lone low surrogate", withData(`"\udc00"`), invalid, "data.x"},
		{"surrogates the wrong way round", withData(`"\udc00\ud800"`), invalid, "data.x"},
		{"surrogate pair", withData(`"\ud83d\ude00"`), ok, ""},
		{"NUL", withData(`"a\u0000b"`), invalid, "data.x"},
		{"NUL in a name", `{"type":"t","recipient":"r","data":{"a\u0000":1}}`, invalid, "data.a\x00"},
		{"raw NUL", withData("\"\x00\""), invalid, "data.x"},
		{"raw line feed", withData("\"\n\""), invalid, "data.x"},
		{"bad escape", withData(`"\x41"`), invalid, "data.x"},
		{"line feed", withData(`"a\nb"`), ok, ""},

		{"deepest", nested(maxDepth - 1), ok, ""},
		{"too deep", nested(maxDepth), invalid, "data" + strings.Repeat(".a", maxDepth-1)},
		{"much too deep", nested(30000), invalid, "data" + strings.Repeat(".a", maxDepth-1)},
		{"arrays too deep", withData(strings.Repeat("[", 60000)), invalid, "data.x" + strings.Repeat("[0]", maxDepth-2)},
		{"longest array", items(maxItems), ok, ""},
		{"array too long", items(maxItems + 1), invalid, "data.l[1000]"},
		{"longest string", withData(`"` + strings.Repeat("s", maxString) + `"`), ok, ""},
		{"string too long", withData(`"` + strings.Repeat("s", maxString+1) + `"`), invalid, "data.x"},
		{"name too long", `{"type":"t","recipient":"r","data":{"` + strings.Repeat("n", maxName+1) + `":1}}`, invalid, "data." + strings.Repeat("n", maxName-5) + "…"},

		{"number out of range", withData("1e400"), invalid, "data.x"},
		{"number too small", withData("1e-999999999"), invalid, "data.x"},
		{"number too long", withData(strings.Repeat("9", maxNumber+1)), invalid, "data.x"},
		{"NaN", withData("NaN"), invalid, "data.x"},
		{"leading zero", withData("01"), invalid, "data.x"},
		{"plus", withData("+1"), invalid, "data.x"},
		{"hex", withData("0x10"), invalid, "data.x"},
		{"small zero", withData("0e-999999999"), ok, ""},

		{"data is an array", `{"type":"t","recipient":"r","data":[1]}`, invalid, "data"},
		{"data is null", `{"type":"t","recipient":"r","data":null}`, ok, ""},
		{"unknown field", `{"type":"t","recipient":"r","priority":"high"}`, unknown, "priority"},
		{"unknown field, null", `{"type":"t","recipient":"r","prority":null}`, unknown, "prority"},
		{"entity", `{"type":"t","recipient":"r","entity":"order-42"}`, unsupported, "entity"},
		{"version", `{"type":"t","recipient":"r","version":3}`, unsupported, "version"},
		{"time zone", `{"type":"t","recipient":"r","time_zone":"Europe/Paris"}`, unsupported, "time_zone"},
		{"entity null", `{"type":"t","recipient":"r","entity":null}`, ok, ""},

		{"type missing", `{"recipient":"r"}`, invalid, "type"},
		{"type empty", `{"type":"","recipient":"r"}`, invalid, "type"},
		{"type is a number", `{"type":1,"recipient":"r"}`, invalid, "type"},
		{"type too long", `{"type":"` + strings.Repeat("t", maxType+1) + `","recipient":"r"}`, invalid, "type"},
		{"recipient missing", `{"type":"t"}`, invalid, "recipient"},
		{"recipient null", `{"type":"t","recipient":null}`, invalid, "recipient"},
		{"recipient with a line feed", `{"type":"t","recipient":"a\nb"}`, invalid, "recipient"},
		{"recipient too long", `{"type":"t","recipient":"` + strings.Repeat("r", maxRecipient+1) + `"}`, invalid, "recipient"},
		{"locale climbs", `{"type":"t","recipient":"r","locale":"../../etc"}`, invalid, "locale"},
		{"locale with underscore", `{"type":"t","recipient":"r","locale":"fr_CA"}`, invalid, "locale"},
		{"key is a number", `{"type":"t","recipient":"r","key":1}`, invalid, "key"},
		{"key not ASCII", `{"type":"t","recipient":"r","key":"é"}`, invalid, "key"},
		{"send_at without a zone", `{"type":"t","recipient":"r","send_at":"2026-12-01T09:00:00"}`, invalid, "send_at"},
		{"send_at a number", `{"type":"t","recipient":"r","send_at":1800000000}`, invalid, "send_at"},
		{"send_at empty", `{"type":"t","recipient":"r","send_at":""}`, invalid, "send_at"},
		{"expires_at in the year 9999", `{"type":"t","recipient":"r","expires_at":"9999-12-31T23:59:59Z"}`, invalid, "expires_at"},

		{"to is an array", `{"type":"t","recipient":"r","to":[]}`, invalid, "to"},
		{"to a string", `{"type":"t","recipient":"r","to":{"email":"ann@example.com"}}`, invalid, "to.email"},
		{"to an object", `{"type":"t","recipient":"r","to":{"email":{"address":"ann@example.com"}}}`, invalid, "to.email"},
		{"address is a string", `{"type":"t","recipient":"r","to":{"email":["ann@example.com"]}}`, invalid, "to.email[0]"},
		{"address is null", `{"type":"t","recipient":"r","to":{"apns":[{"token":"a"},null]}}`, invalid, "to.apns[1]"},
		{"token missing", `{"type":"t","recipient":"r","to":{"apns":[{"token":"a"},{"account":"x"}]}}`, invalid, "to.apns[1].token"},
		{"address missing", `{"type":"t","recipient":"r","to":{"email":[{"name":"Ann"}]}}`, invalid, "to.email[0].address"},
		{"url missing", `{"type":"t","recipient":"r","to":{"webhook":[{}]}}`, invalid, "to.webhook[0].url"},
		{"field of another channel", `{"type":"t","recipient":"r","to":{"email":[{"address":"a@b","token":"a"}]}}`, unknown, "to.email[0].token"},
		{"registered_at wrong", `{"type":"t","recipient":"r","to":{"apns":[{"token":"a","registered_at":"yesterday"}]}}`, invalid, "to.apns[0].registered_at"},
		{"header injection", `{"type":"t","recipient":"r","to":{"email":[{"address":"a@b\r\nBcc: c@d"}]}}`, invalid, "to.email[0].address"},
		{"name injection", `{"type":"t","recipient":"r","to":{"email":[{"address":"a@b","name":"A\r\nBcc: c@d"}]}}`, invalid, "to.email[0].name"},
		{"same url, other secret", `{"type":"t","recipient":"r","to":{"webhook":[{"url":"u"},{"url":"u","secret":"s"}]}}`, invalid, "to.webhook[1]"},
		{"same url twice", `{"type":"t","recipient":"r","to":{"webhook":[{"url":"u"},{"url":"u"}]}}`, ok, ""},
		{"fcm", `{"type":"t","recipient":"r","to":{"fcm":[{"token":"a","registered_at":"2026-01-02T03:04:05Z","account":"shop"}]}}`, ok, ""},
		{"fcm without a token", `{"type":"t","recipient":"r","to":{"fcm":[{"account":"shop"}]}}`, invalid, "to.fcm[0].token"},
		{"webpush", `{"type":"t","recipient":"r","to":{"webpush":[{"endpoint":"https://a","keys":{"p256dh":"k","auth":"s"},"expirationTime":null,"account":"x"}]}}`, ok, ""},
		{"webpush expires", `{"type":"t","recipient":"r","to":{"webpush":[{"endpoint":"https://a","expirationTime":1796308800000}]}}`, ok, ""},
		{"webpush expires in words", `{"type":"t","recipient":"r","to":{"webpush":[{"endpoint":"https://a","expirationTime":"soon"}]}}`, invalid, "to.webpush[0].expirationTime"},
		{"endpoint missing", `{"type":"t","recipient":"r","to":{"webpush":[{"keys":{"p256dh":"k","auth":"s"}}]}}`, invalid, "to.webpush[0].endpoint"},
		{"keys not an object", `{"type":"t","recipient":"r","to":{"webpush":[{"endpoint":"https://a","keys":"k"}]}}`, invalid, "to.webpush[0].keys"},
		{"key of another name", `{"type":"t","recipient":"r","to":{"webpush":[{"endpoint":"https://a","keys":{"p256":"k"}}]}}`, unknown, "to.webpush[0].keys.p256"},
		{"key is a number", `{"type":"t","recipient":"r","to":{"webpush":[{"endpoint":"https://a","keys":{"auth":1}}]}}`, invalid, "to.webpush[0].keys.auth"},
		{"same endpoint, other keys", `{"type":"t","recipient":"r","to":{"webpush":[{"endpoint":"https://a"},{"endpoint":"https://a","keys":{"auth":"s"}}]}}`, invalid, "to.webpush[1]"},
		{"sms without a number", `{"type":"t","recipient":"r","to":{"sms":[{"account":"main"}]}}`, invalid, "to.sms[0].number"},
		{"sms, field of another channel", `{"type":"t","recipient":"r","to":{"sms":[{"number":"+1","token":"x"}]}}`, unknown, "to.sms[0].token"},
		{"pigeon", `{"type":"t","recipient":"r","to":{"pigeon":[]}}`, unknown, "to.pigeon"},
		{"name with a dot", `{"type":"t","recipient":"r","to":{"a.b/c~d":[]}}`, unknown, "to.a.b/c~d"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			s := newService()
			w := s.do("POST", "/v1/notifications", tc.body, keyHeader, "k")
			if tc.code == ok {
				wantNotification(t, w, http.StatusAccepted)
				return
			}
			wantProblem(t, w, http.StatusBadRequest, tc.code, tc.field)
			if len(s.byKey) != 0 {
				t.Error("a refused request was accepted")
			}
		})
	}
}

// What a template prints is what the caller wrote, and whole numbers compare.
func TestNumbers_PrintAsWritten(t *testing.T) {
	t.Parallel()
	for _, written := range []string{"0", "1", "-1", "10.50", "1e3", "1E+3", "-0", "0.1", "9223372036854775807",
		"9223372036854775808", "-9223372036854775809", "0.1000000000000000055511151231257827", "3.14159265358979323846"} {
		p, err := parseRequest([]byte(withData(written)))
		if err != nil {
			t.Fatalf("%s: %v", written, err)
		}
		var out bytes.Buffer
		if err := template.Must(template.New("").Parse("{{.x}}")).Execute(&out, p.req.Data); err != nil || out.String() != written {
			t.Errorf("%s is printed as %q, %v", written, &out, err)
		}
		if b, err := json.Marshal(p.req.Data["x"]); err != nil || string(b) != written {
			t.Errorf("%s is written as %q, %v", written, b, err)
		}
	}
	p, err := parseRequest([]byte(withData("1")))
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := template.Must(template.New("").Parse(`{{if eq .x 1}}one{{end}}`)).Execute(&out, p.req.Data); err != nil || out.String() != "one" {
		t.Errorf("got %q, %v, want one", &out, err)
	}
}

// FuzzPostNotification: whatever comes in, nothing panics, nothing is a fault
// of ours, and what is accepted holds what the rest of the service relies on.
func FuzzPostNotification(f *testing.F) {
	for _, body := range []string{shipped, `{}`, `null`, `{"type":"t","recipient":"r","key":"k"}`, `{"type":"t","recipient":"r","type":"t"}`,
		withData(`"\ud800"`), withData(`1e400`), withData(`"\u0000"`), nested(40), items(3), `{"type":"t","recipient":"r","entity":1}`,
		`{"type":"t","recipient":"r","to":{"apns":[{"token":"a"},null]}}`, `{"type":"t","recipient":"r","to":{"sms":[]}}`,
		`{"type":"t","recipient":"r","send_at":"2026-12-01T09:00:00Z"}`, "\xff", `[[[[`, `{"a`} {
		f.Add([]byte(body), "k", "")
	}
	f.Add([]byte(shipped), `"k`, "wait=0")
	f.Add([]byte(shipped), `"k"`, `respond-async, wait="0";x`)
	f.Fuzz(func(t *testing.T, body []byte, key, prefer string) {
		s := newService()
		close(s.settled)
		w := s.do("POST", "/v1/notifications", string(body), keyHeader, key, "Prefer", prefer)
		if w.Code >= http.StatusInternalServerError || !json.Valid(w.Body.Bytes()) {
			t.Fatalf("got %d: %s\n%s", w.Code, w.Body, s.log)
		}
		if w.Code != http.StatusAccepted {
			return
		}
		if err := notifier.CheckKey(s.last.Key); err != nil || s.last.Type == "" || s.last.Recipient == "" {
			t.Fatalf("accepted %+v: %v", s.last, err)
		}
		if _, err := json.Marshal(s.last.Data); err != nil {
			t.Fatalf("accepted data that cannot be written: %v", err)
		}
		for ch, to := range s.last.To {
			for _, a := range to {
				if a.Value == "" || strings.ContainsAny(a.Value+a.Name, "\r\n\x00") {
					t.Fatalf("accepted an address on %s: %q", ch, a.Value)
				}
			}
		}
	})
}

// An error that is not ours never reaches the caller.
func TestAsError_HidesForeignErrors(t *testing.T) {
	t.Parallel()
	for _, err := range []error{errors.New("disk /var/lib is full"), nil,
		&notifier.Error{Code: notifier.CodeInternal, Message: "disk /var/lib is full", Field: "path", Details: map[string]any{"path": "/var/lib"}}} {
		if e := asError(err); e.Code != notifier.CodeInternal || strings.Contains(e.Message, "disk") || e.Field != "" || e.Details != nil {
			t.Errorf("%v is shown as %+v", err, e)
		}
	}
}
