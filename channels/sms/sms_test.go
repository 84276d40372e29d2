package sms

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-4b260dfd/notifier"
	"github.com/seed-4b260dfd/notifier/channels"
)

const (
	testSID   = "AC0123456789abcdef0123456789abcdef"
	testToken = "fedcba9876543210fedcba9876543210"
)

func TestKind_CheckAddress(t *testing.T) {
	t.Parallel()
	for _, good := range []string{"+15555550100", "+6834000", "+33612345678", "+123456789012345"} {
		if err := (Kind{}).CheckAddress(notifier.Address{Value: good}); err != nil {
			t.Errorf("%q: %v", good, err)
		}
	}
	for _, bad := range []string{"", "15555550100", "+", "+1", "+05555550100", "+1 555 555 0100", "+1-555-555-0100", "+1234567890123456", "+1555555010a",
		"+١٥٥٥٥٥٥٠١٠٠", "whatsapp:+15555550100", "+15555550100\n", "+15555550100&From=+1", "Shop"} {
		err := (Kind{}).CheckAddress(notifier.Address{Value: bad})
		var e *notifier.Error
		if !errors.As(err, &e) || e.Code != notifier.CodeInvalid || e.Field != "number" {
			t.Errorf("%q: got %v, want number to be invalid", bad, err)
		} else if bad != "" && len(bad) > 3 && strings.Contains(e.Message, bad) && !strings.Contains("+15555550100", bad) {
			t.Errorf("%q: the message has the number in it: %s", bad, e.Message)
		}
	}
	var e *notifier.Error
	if err := (Kind{}).CheckAddress(notifier.Address{Value: "+15555550100", Secret: "x"}); !errors.As(err, &e) || e.Field != "secret" {
		t.Errorf("got %v, want secret to be invalid", err)
	}
}

func TestKind_Prepare(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`Your code is 123 <b> & "x"`: `{"text":"Your code is 123 <b> & \"x\"","encoding":"GSM-7","segments":1}`,
		"Été 🎉\nbye":                 `{"text":"Été 🎉\nbye","encoding":"UCS-2","segments":1}`,
		strings.Repeat("a", 161):     `{"text":"` + strings.Repeat("a", 161) + `","encoding":"GSM-7","segments":2}`,
	} {
		got, err := Kind{}.Prepare(map[string]any{"text": text})
		if err != nil || string(got) != want {
			t.Errorf("%q: got %s, %v, want %s", text, got, err, want)
		}
	}
	for name, fields := range map[string]map[string]any{
		"text": {}, "text ": {"text": ""}, "text  ": {"text": " \n"}, "text   ": {"text": 7}, "text    ": {"text": "a\x00b"}, "text     ": {"text": "a\x1bb"},
		"text      ": {"text": "a\xff"}, "title": {"text": "a", "title": "b"},
	} {
		var e *notifier.Error
		if _, err := (Kind{}).Prepare(fields); !errors.As(err, &e) || e.Code != notifier.CodeTemplateFailed || e.Field != strings.TrimSpace(name) {
			t.Errorf("%q: got %v, want template_failed on %s", fields, err, name)
		}
	}
}

// The limit lies at the exact character, whatever it is written in.
func TestKind_PrepareLimit(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		unit string
		fits int
	}{{"a", 1530}, {"€", 760}, {"漢", 670}, {"🎉", 330}} {
		content, err := Kind{}.Prepare(map[string]any{"text": strings.Repeat(test.unit, test.fits)})
		if err != nil {
			t.Errorf("%d × %s: %v", test.fits, test.unit, err)
			continue
		}
		if n := notifier.Segments(notifier.ChannelSMS, content); n != maxSegments {
			t.Errorf("%d × %s: got %d segments, want %d", test.fits, test.unit, n, maxSegments)
		}
		_, err = Kind{}.Prepare(map[string]any{"text": strings.Repeat(test.unit, test.fits+1)})
		var e *notifier.Error
		if !errors.As(err, &e) || e.Code != notifier.CodePayloadTooLarge {
			t.Errorf("%d × %s: got %v, want it to be too large", test.fits+1, test.unit, err)
			continue
		}
		if diff := cmp.Diff(map[string]any{"channel": "sms", "size": 11, "limit": 10}, e.Details); diff != "" {
			t.Errorf("%d × %s: details (-want +got):\n%s", test.fits+1, test.unit, diff)
		}
	}
}

func FuzzPrepare(f *testing.F) {
	for _, s := range []string{"a", "{{.x}}", "a\r\nTo: b", "a&To=+1", "a%0d%0a", "a\u2028b", "<b>"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		b, err := Kind{}.Prepare(map[string]any{"text": text})
		if err != nil {
			return
		}
		var c content
		if err := json.Unmarshal(b, &c); err != nil || c.Text != text {
			t.Errorf("%q: stored as %q, %v", text, c.Text, err)
		}
		// Ten segments are within the other limit, 1,600 characters, however one counts.
		if n := len(text); c.Encoding == gsm7 && n > 2*1600 || len([]rune(text)) > 1600 {
			t.Errorf("%d bytes passed", n)
		}
	})
}

func TestConfig_Validate(t *testing.T) {
	t.Parallel()
	good := Config{Provider: "twilio", AccountSID: testSID, AuthToken: testToken, From: "+15005550006"}
	for _, from := range []string{"+15005550006", "12345", "MG0123456789abcdef0123456789abcdef", "Shop", "My Shop-1", "A&B_c+d"} {
		c := good
		c.From = from
		if wrong := c.Validate(); len(wrong) > 0 {
			t.Errorf("from %q: %v", from, wrong)
		}
	}
	for field, edit := range map[string][]func(*Config){
		"provider":    {func(c *Config) { c.Provider = "" }, func(c *Config) { c.Provider = "vonage" }},
		"account_sid": {func(c *Config) { c.AccountSID = "" }, func(c *Config) { c.AccountSID = "SK" + testSID[2:] }, func(c *Config) { c.AccountSID += "/x" }},
		"auth_token":  {func(c *Config) { c.AuthToken = "" }, func(c *Config) { c.AuthToken = testToken + " x" }, func(c *Config) { c.AuthToken = testToken + "\n" }},
		"from": {func(c *Config) { c.From = "" }, func(c *Config) { c.From = "15005550006000" }, func(c *Config) { c.From = "TwelveLetter" },
			func(c *Config) { c.From = " Shop" }, func(c *Config) { c.From = "Café" }, func(c *Config) { c.From = "MG0123" + strings.Repeat("x", 28) }},
		"endpoint":      {func(c *Config) { c.Endpoint = "http://127.0.0.1:1" }, func(c *Config) { c.Endpoint = "https://proxy/x" }},
		"max_in_flight": {func(c *Config) { c.AccountConfig = channels.AccountConfig{MaxInFlight: -1} }},
	} {
		for i, e := range edit {
			c := good
			e(&c)
			wrong := c.Validate()
			if len(wrong) != 1 || wrong[0].Field != field {
				t.Errorf("%s, %d: got %v", field, i, wrong)
				continue
			}
			if strings.Contains(wrong[0].Message, testToken) {
				t.Errorf("%s, %d: the token is in the message", field, i)
			}
			if _, err := New(c); err == nil {
				t.Errorf("%s, %d: New took it", field, i)
			}
		}
	}
}
