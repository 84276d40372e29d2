package email

import (
	"bytes"
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"mime/quotedprintable"
	"net/mail"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-4b260dfd/notifier"
)

var testDelivery = notifier.Delivery{
	ID:         notifier.DeliveryID{Notification: notifier.NewID(time.Unix(1764553976, 0), 0, [8]byte{}), Ordinal: 2},
	Address:    notifier.Address{Value: "ann@example.com", Name: "Ann Lee"},
	EffectKey:  notifier.Child("effect"),
	AcceptedAt: time.Unix(1764553976, 0),
}

func mustWrite(t *testing.T, c content, d notifier.Delivery, fence int64) []byte {
	t.Helper()
	m, err := write(&c, &mail.Address{Name: "Shop", Address: "no-reply@shop.example"}, &d, fence)
	if err != nil {
		t.Fatal(err)
	}
	return m.bytes
}

func TestWrite_Whole(t *testing.T) {
	t.Parallel()
	got := string(mustWrite(t, content{Subject: "Your order", Text: "It left.\n.\nBye", HTML: "<p>Café</p>", ReplyTo: "Help <help@shop.example>"}, testDelivery, 3))
	key := notifier.Child("effect")
	boundary := "=_" + notifier.Child("boundary", key)[:32]
	want := strings.Join([]string{
		`From: "Shop" <no-reply@shop.example>`,
		`To: "Ann Lee" <ann@example.com>`,
		`Reply-To: "Help" <help@shop.example>`,
		`Subject: Your order`,
		`Date: Mon, 01 Dec 2025 01:52:56 +0000`,
		`Message-ID: <` + key + `@shop.example>`,
		`X-Delivery: ` + testDelivery.ID.String(),
		`X-Attempt: 3`,
		`Auto-Submitted: auto-generated`,
		`MIME-Version: 1.0`,
		`Content-Type: multipart/alternative;`,
		` boundary="` + boundary + `"`,
		``,
		`--` + boundary,
		`Content-Type: text/plain; charset=utf-8`,
		`Content-Transfer-Encoding: quoted-printable`,
		``,
		`It left.`,
		`.`,
		`Bye`,
		`--` + boundary,
		`Content-Type: text/html; charset=utf-8`,
		`Content-Transfer-Encoding: quoted-printable`,
		``,
		`<p>Caf=C3=A9</p>`,
		`--` + boundary + `--`,
		``,
	}, "\r\n")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestWrite_RepeatsDifferInAttemptAlone(t *testing.T) {
	t.Parallel()
	c := content{Subject: "Café", Text: "a", HTML: "b"}
	first, again := mustWrite(t, c, testDelivery, 1), mustWrite(t, c, testDelivery, 27)
	if got := bytes.Replace(again, []byte("X-Attempt: 27\r\n"), []byte("X-Attempt: 1\r\n"), 1); !bytes.Equal(first, got) {
		t.Errorf("got\n%s\nand\n%s", first, again)
	}
}

func TestWrite_From(t *testing.T) {
	t.Parallel()
	m, err := write(&content{Subject: "s", Text: "t", From: "Café <eu@other.example>"}, &mail.Address{Address: "a@shop.example"}, &testDelivery, 1)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := mail.ReadMessage(bytes.NewReader(m.bytes))
	if err != nil {
		t.Fatal(err)
	}
	from, err := parsed.Header.AddressList("From")
	if err != nil || len(from) != 1 || from[0].Name != "Café" || from[0].Address != "eu@other.example" || m.from != "eu@other.example" {
		t.Errorf("got %v %v, envelope %q", from, err, m.from)
	}
	if id := parsed.Header.Get("Message-Id"); !strings.HasSuffix(id, "@other.example>") {
		t.Errorf("Message-ID: got %q, want it in the sender's domain", id)
	}
}

// Content that tries to end a part stays content.
func TestWrite_BoundaryCannotBeHeld(t *testing.T) {
	t.Parallel()
	text := "--=_" + notifier.Child("boundary", testDelivery.EffectKey)[:32] + "--\n"
	if got := bodies(t, mustWrite(t, content{Subject: "s", Text: text, HTML: "h"}, testDelivery, 1)); len(got) != 2 || got[0] != text {
		t.Errorf("got %q", got)
	}
}

// bodies decodes the parts of a mail.
func bodies(t *testing.T, b []byte) []string {
	t.Helper()
	m, err := mail.ReadMessage(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	_, params, err := mime.ParseMediaType(m.Header.Get("Content-Type"))
	if err != nil {
		t.Fatal(err)
	}
	if params["boundary"] == "" {
		text, err := io.ReadAll(quotedprintable.NewReader(m.Body))
		if err != nil {
			t.Fatal(err)
		}
		return []string{unix(strings.TrimSuffix(string(text), "\r\n"))}
	}
	var all []string
	for r := multipart.NewReader(m.Body, params["boundary"]); ; {
		p, err := r.NextPart() // decodes quoted-printable
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(p)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, unix(string(text)))
	}
}

func unix(s string) string {
	return strings.ReplaceAll(strings.ReplaceAll(s, "\r\n", "\n"), "\r", "\n")
}

func TestKind_CheckAddress(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a", 64)
	for _, tt := range []struct {
		address, name, field string // field "": it is taken
	}{
		{"ann@example.com", "Ann", ""},
		{"ann@example.com", "Ännchen \"A\" <x>", ""},
		{"ann+tag@sub.example.com", "", ""},
		{"ann@localhost", "", ""},
		{"a.n!#$%&'*+/=?^_`{|}~-@xn--bcher-kva.example", "", ""},
		{long + "@example.com", "", ""},
		{"", "", "address"},
		{"ann", "", "address"},
		{"@example.com", "", "address"},
		{"ann@", "", "address"},
		{"ann@@example.com", "", "address"},
		{"ann@a@example.com", "", "address"},
		{".ann@example.com", "", "address"},
		{"a..n@example.com", "", "address"},
		{"\"ann lee\"@example.com", "", "address"},
		{"<ann@example.com>", "", "address"},
		{"ann@example.com>\r\nRCPT TO:<bob@example.com", "", "address"},
		{"ann@example.com\x00", "", "address"},
		{"ann@[127.0.0.1]", "", "address"},
		{"ann@-example.com", "", "address"},
		{"ann@exa_mple.com", "", "address"},
		{"ann@bücher.example", "", "address"},
		{"a" + long + "@example.com", "", "address"},
		{"ann@" + strings.Repeat(strings.Repeat("a", 60)+".", 5) + "com", "", "address"},
		{"ann@example.com", "Ann\r\nBcc: bob@example.com", "name"},
		{"ann@example.com", "Ann\x00", "name"},
		{"ann@example.com", "Ann\u2028Lee", "name"},
		{"ann@example.com", "\xff", "name"},
		{"ann@example.com", strings.Repeat("n", 201), "name"},
	} {
		err := Kind{}.CheckAddress(notifier.Address{Value: tt.address, Name: tt.name})
		var e *notifier.Error
		switch {
		case tt.field == "" && err != nil:
			t.Errorf("%q %q: got %v, want it taken", tt.address, tt.name, err)
		case tt.field != "" && (!errors.As(err, &e) || e.Code != notifier.CodeInvalid || e.Field != tt.field):
			t.Errorf("%q %q: got %v, want an invalid %s", tt.address, tt.name, err, tt.field)
		}
	}
}

func TestKind_Prepare(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		fields map[string]any
		code   notifier.Code // "": it is taken
		field  string
	}{
		{"text", map[string]any{"subject": "s", "text": "t"}, "", ""},
		{"html", map[string]any{"subject": "s", "html": "h", "from": nil}, "", ""},
		{"all", map[string]any{"subject": "s", "text": "t", "html": "h", "from": "A <a@example.com>", "reply_to": "b@example.com"}, "", ""},
		{"no subject", map[string]any{"text": "t"}, notifier.CodeTemplateFailed, "subject"},
		{"no body", map[string]any{"subject": "s"}, notifier.CodeTemplateFailed, "text"},
		{"unknown", map[string]any{"subject": "s", "text": "t", "cc": "x"}, notifier.CodeTemplateFailed, "cc"},
		{"number", map[string]any{"subject": 1, "text": "t"}, notifier.CodeTemplateFailed, "subject"},
		{"subject of two lines", map[string]any{"subject": "s\nBcc: x@example.com", "text": "t"}, notifier.CodeTemplateFailed, "subject"},
		{"subject with CR", map[string]any{"subject": "s\r", "text": "t"}, notifier.CodeTemplateFailed, "subject"},
		{"subject too long", map[string]any{"subject": strings.Repeat("s", 999), "text": "t"}, notifier.CodeTemplateFailed, "subject"},
		{"NUL in text", map[string]any{"subject": "s", "text": "t\x00"}, notifier.CodeTemplateFailed, "text"},
		{"not UTF-8", map[string]any{"subject": "s", "html": "\xff"}, notifier.CodeTemplateFailed, "html"},
		{"from", map[string]any{"subject": "s", "text": "t", "from": "nobody"}, notifier.CodeTemplateFailed, "from"},
		{"reply_to", map[string]any{"subject": "s", "text": "t", "reply_to": "a@example.com\r\nX: y"}, notifier.CodeTemplateFailed, "reply_to"},
		{"too large", map[string]any{"subject": "s", "text": strings.Repeat("t", maxContent)}, notifier.CodePayloadTooLarge, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := Kind{}.Prepare(tt.fields)
			var e *notifier.Error
			switch {
			case tt.code == "" && err != nil:
				t.Errorf("got %v, want it taken", err)
			case tt.code != "" && (!errors.As(err, &e) || e.Code != tt.code || e.Field != tt.field):
				t.Errorf("got %v, want %s of %q", err, tt.code, tt.field)
			}
		})
	}
}

func TestOpening_LeavesTimeForTheDot(t *testing.T) {
	t.Parallel()
	for total, want := range map[time.Duration]time.Duration{
		12 * time.Minute: 2 * time.Minute,
		20 * time.Minute: 10 * time.Minute,
		11 * time.Minute: 2 * time.Minute,
		time.Minute:      30 * time.Second,
	} {
		if got := openingTime(total); got != want {
			t.Errorf("%v: got %v, want %v", total, got, want)
		}
	}
}

// FuzzHeaders: whatever subject, names and address are taken, the mail has the
// headers that it should have, they read as what was put in, no line is longer
// than SMTP carries, and the body is the text.
func FuzzHeaders(f *testing.F) {
	f.Add("Your order", "Ann Lee", "ann@example.com", "Shop <no-reply@example.com>", "Hello")
	f.Add("Café "+strings.Repeat("long ", 50), "Ännchen", "a+b@sub.example.com", "Café <a@example.com>", ".\n..\n")
	f.Add("x\r\nBcc: bob@example.com", "a\r\nb", "a@b\r\n", "a\n@b", "\r\r\n\n")
	f.Add(strings.Repeat("x", 998), `"\`, "a@b", `"a\"b" <a@b>`, strings.Repeat("y", 3000))
	f.Add("  two  blanks  ", " a  b ", "a@b", "a@b", " \n \t\n")
	f.Add("=?utf-8?B?YQ==?=", "=?utf-8?Q?a?=", "a@b", "=?utf-8?q?a=0Ab?= <a@b>", "--=_\n")
	f.Fuzz(func(t *testing.T, subject, name, address, from, text string) {
		d := testDelivery
		d.Address = notifier.Address{Value: address, Name: name}
		c := content{Subject: subject, Text: text, From: from, HTML: text}
		if (Kind{}).CheckAddress(d.Address) != nil || c.check() != nil {
			return
		}
		b := mustWrite(t, c, d, 1)
		for line := range bytes.SplitSeq(b, []byte("\r\n")) {
			if len(line) > 998 || bytes.ContainsAny(line, "\r\n\x00") {
				t.Fatalf("the line %q cannot be sent", line)
			}
		}
		m, err := mail.ReadMessage(bytes.NewReader(b))
		if err != nil {
			t.Fatalf("%v in\n%s", err, b)
		}
		want := []string{"From", "To", "Subject", "Date", "Message-Id", "X-Delivery", "X-Attempt", "Auto-Submitted", "Mime-Version", "Content-Type"}
		if c.From == "" {
			// The account's takes its place.
			from = `"Shop" <no-reply@shop.example>`
		}
		for _, h := range want {
			if len(m.Header[h]) != 1 {
				t.Errorf("%s: got %q, want one", h, m.Header[h])
			}
		}
		if len(m.Header) != len(want) {
			t.Errorf("got the headers %v, want %v", m.Header, want)
		}
		if got, err := new(mime.WordDecoder).DecodeHeader(m.Header.Get("Subject")); err != nil || got != subject {
			t.Errorf("subject: got %q %v, want %q", got, err, subject)
		}
		to, err := m.Header.AddressList("To")
		if err != nil || len(to) != 1 || to[0].Address != address || to[0].Name != name {
			t.Errorf("to: got %v %v, want %q <%s>", to, err, name, address)
		}
		wantFrom, err := mail.ParseAddress(from)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := m.Header.AddressList("From"); err != nil || len(got) != 1 || *got[0] != *wantFrom {
			t.Errorf("from: got %v %v, want %v", got, err, wantFrom)
		}
		if got := bodies(t, b); len(got) != 2 || got[0] != unix(text) || got[1] != unix(text) {
			t.Errorf("bodies: got %q, want %q twice", got, text)
		}
	})
}
