package templates_test

import (
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/seed-4b260dfd/notifier"
	"github.com/seed-4b260dfd/notifier/templates"
)

func good(t *testing.T) *templates.Set {
	t.Helper()
	set, problems := templates.Load(os.DirFS("testdata"), "good")
	if len(problems) > 0 {
		t.Fatalf("problems: %v", problems)
	}
	return set
}

// one loads a single template of the type "t".
func one(t *testing.T, ch notifier.Channel, src string) *templates.Template {
	t.Helper()
	set, problems := templates.Load(fstest.MapFS{"t/" + string(ch) + ".yaml": {Data: []byte(src)}}, ".")
	if len(problems) > 0 {
		t.Fatalf("problems: %v", problems)
	}
	return set.Find("t", ch, "")
}

func TestFind(t *testing.T) {
	t.Parallel()
	set := good(t)
	tests := []struct {
		name    string
		channel notifier.Channel
		locale  string
		want    string
	}{
		{"order_shipped", notifier.ChannelAPNs, "", "push.yaml"},
		{"order_shipped", notifier.ChannelWebPush, "", "push.yaml"},
		{"order_shipped", notifier.ChannelFCM, "", "fcm.yaml"},
		{"order_shipped", notifier.ChannelFCM, "fr", "fr/push.yaml"},
		{"order_shipped", notifier.ChannelAPNs, "fr-CA", "fr-CA/push.yaml"},
		{"order_shipped", notifier.ChannelAPNs, "fr_ca.UTF-8", "fr-CA/push.yaml"},
		{"order_shipped", notifier.ChannelAPNs, "fr-CH", "fr/push.yaml"},
		{"order_shipped", notifier.ChannelEmail, "fr-CA-quebec", "fr/email.yaml"},
		{"order_shipped", notifier.ChannelEmail, "de", "email.yaml"},
		{"order_shipped", notifier.ChannelEmail, "-", "email.yaml"},
		{"order_shipped", notifier.ChannelSMS, "fr", "sms.yaml"},
		{"order_shipped", notifier.ChannelWebhook, "fr", "webhook.yaml"},
		{"weekly_digest", notifier.ChannelAPNs, "", ""},
		{"absent", notifier.ChannelEmail, "fr", ""},
	}
	for _, tt := range tests {
		got, want := "", ""
		if found := set.Find(tt.name, tt.channel, tt.locale); found != nil {
			got = found.File
			if !found.Serves(tt.channel) {
				t.Errorf("%s does not serve %s", got, tt.channel)
			}
		}
		if tt.want != "" {
			want = "good/" + tt.name + "/" + tt.want
		}
		if got != want {
			t.Errorf("%s %s %q: got %q, want %q", tt.name, tt.channel, tt.locale, got, want)
		}
	}
	if diff := cmp.Diff([]string{"order_shipped", "weekly_digest"}, set.Names()); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}
	if got := len(set.All()); got != 9 {
		t.Errorf("%d templates, want 9", got)
	}
}

func TestRender(t *testing.T) {
	t.Parallel()
	data := map[string]any{"order_id": "42", "name": "Ann <3", "items": []any{"tea", "pot"}, "gift": false, "unread": 7.0, "total": json.Number("19.90")}
	tests := []struct {
		channel notifier.Channel
		want    map[string]any
	}{
		{notifier.ChannelAPNs, map[string]any{
			// The subtitle came out empty and is left out.
			"title": "Order 42", "body": "Hi Ann <3,\n2 things are on their way.\n", "sound": "default", "badge": int64(7), "url": "https://example.com/orders/42",
			"data": map[string]any{"order_id": "42", "items": []any{"tea", "pot"}, "text": "2 things", "as_text": "2",
				"fixed": map[string]any{"n": int64(3), "f": 1.5, "yes": true, "none": nil, "list": []any{"a", false}}},
		}},
		{notifier.ChannelFCM, map[string]any{"title": "For Android", "badge": int64(3)}},
		{notifier.ChannelEmail, map[string]any{
			"from": "Shop <no-reply@example.com>", "reply_to": "help+42@example.com", "subject": "Order 42 is on its way",
			"text": "Hi Ann <3,\n- tea\n- pot\n\n",
			"html": "<p>Hi Ann &lt;3,</p>\n<a href=\"https://example.com/?o=42\">42</a>\n",
		}},
		{notifier.ChannelWebhook, map[string]any{"body": map[string]any{"type": "order.shipped",
			"order": map[string]any{"id": "42", "total": 19.9, "lines": []any{"tea", "pot"}}}}},
	}
	for _, tt := range tests {
		t.Run(string(tt.channel), func(t *testing.T) {
			t.Parallel()
			tmpl := good(t).Find("order_shipped", tt.channel, "")
			got, err := tmpl.Render(data)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("fields (-want +got):\n%s", diff)
			}
			again, err := tmpl.Render(data)
			if diff := cmp.Diff(got, again); diff != "" || err != nil {
				t.Errorf("a second rendering differs: %v\n%s", err, diff)
			}
		})
	}
}

func TestRender_Fails(t *testing.T) {
	t.Parallel()
	const email = notifier.ChannelEmail
	tests := []struct {
		name    string
		channel notifier.Channel
		src     string
		value   any
		field   string
		message string
	}{
		{"not set", email, "subject: Hello\ntext: |\n  Hi\n  {{.x}}\n", nil, "text", "line 4: .x is not set"},
		{"not set in HTML", email, "subject: Hello\nhtml: |\n  <p>\n  {{.x}}</p>\n", nil, "html", "line 4: .x is not set"},
		{"line feed in the subject", email, "subject: Hello {{.x}}\ntext: Hi\n", "a\nBcc: b@example.com", "subject", "came out with a line break or another control character (U+000A); this field is one line"},
		{"carriage return in the subject", email, "subject: Hello {{.x}}\ntext: Hi\n", "a\rb", "subject", "came out with a line break or another control character (U+000D); this field is one line"},
		{"NUL in the subject", email, "subject: Hello {{.x}}\ntext: Hi\n", "a\x00b", "subject", "came out with a NUL character"},
		{"NUL in the text", email, "subject: Hello\ntext: Hi {{.x}}\n", "a\x00b", "text", "came out with a NUL character"},
		{"line break in from", email, "from: \"{{.x}}\"\nsubject: Hello\ntext: Hi\n", "a@example.com\r\nX: y", "from", "came out with a line break or another control character (U+000D); this field is one line"},
		{"line break in reply_to", email, "reply_to: \"{{.x}}\"\nsubject: Hello\ntext: Hi\n", "a@example.com\nX: y", "reply_to", "came out with a line break or another control character (U+000A); this field is one line"},
		{"no address in from", email, "from: \"{{.x}}\"\nsubject: Hello\ntext: Hi\n", "somebody", "from", "did not come out as a mail address"},
		{"line break in the title", notifier.ChannelAPNs, "title: Hello {{.x}}\n", "a\nb", "title", "came out with a line break or another control character (U+000A); this field is one line"},
		{"empty subject", email, "subject: \"{{.x}}\"\ntext: Hi\n", " ", "subject", "came out empty; an empty message is not sent"},
		{"empty bodies", email, "subject: Hello\ntext: \"{{.x}}\"\n", "", "text or html", "came out empty; an empty message is not sent"},
		{"empty push", notifier.ChannelAPNs, "title: \"{{.x}}\"\nbody: \"{{.x}}\"\n", "", "title or body", "came out empty; an empty message is not sent"},
		{"empty text message", notifier.ChannelSMS, "text: \"{{.x}}\"\n", "", "text", "came out empty; an empty message is not sent"},
		{"badge of words", notifier.ChannelAPNs, "title: Hello\nbadge: \"{{.x}}\"\n", "7", "badge", "did not come out as a whole number from 0 up"},
		{"badge of text around", notifier.ChannelAPNs, "title: Hello\nbadge: \"{{.x}}0\"\n", 7.0, "badge", "did not come out as a whole number from 0 up"},
		{"negative badge", notifier.ChannelAPNs, "title: Hello\nbadge: \"{{.x}}\"\n", -1.0, "badge", "did not come out as a whole number from 0 up"},
		{"fractional badge", notifier.ChannelAPNs, "title: Hello\nbadge: \"{{.x}}\"\n", 1.5, "badge", "did not come out as a whole number from 0 up"},
		{"deep in a body", notifier.ChannelWebhook, "body:\n  lines:\n    - id: a\n    - id: \"{{.x}}\"\n", nil, "body.lines[1].id", "line 4: .x is not set"},
		{"list in a text", notifier.ChannelWebhook, "body: {a: \"x{{.x}}\"}\n", []any{1.0}, "body.a", "line 1: .x is a list; use range, join or json"},
		{"all fields together are too long", email, "subject: Hello\ntext: \"{{.x}}\"\nhtml: \"{{.x}}\"\n", strings.Repeat("x", 600_000), "html", "line 3: the result is longer than 1048576 bytes"},
		{"endless", email, "subject: Hello\ntext: |\n  {{range 1000000000}}{{end}}\n", nil, "text", "line 3: the template takes more than 100000 steps"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			data := map[string]any{}
			if tt.value != nil {
				data["x"] = tt.value
			}
			tmpl := one(t, tt.channel, tt.src)
			fields, err := tmpl.Render(data)
			var got *notifier.Error
			if !errors.As(err, &got) || fields != nil {
				t.Fatalf("got %v, %v, want an error", fields, err)
			}
			want := &notifier.Error{Code: notifier.CodeTemplateFailed, Field: tmpl.File + ": " + tt.field, Message: tt.message}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("error (-want +got):\n%s", diff)
			}
		})
	}
}

// TestRender_NoDataInErrors: the message goes to the caller and into logs.
func TestRender_NoDataInErrors(t *testing.T) {
	t.Parallel()
	const secret = "hunter2"
	for _, src := range []string{"{{.x.y}}", "{{index .x 1}}", "{{join `,` .x}}", "{{lt .x 1}}", "{{slice .x 99}}", "{{printf `%d` .x}}", "{{range .x}}{{end}}", "{{upper .list}}", "{{len 3}}{{.x}}"} {
		_, err := one(t, notifier.ChannelSMS, "text: 'a {{.x}} "+src+"'\n").Render(map[string]any{"x": secret, "list": []any{secret}})
		if err == nil {
			t.Errorf("%s: no error", src)
		} else if strings.Contains(err.Error(), secret) {
			t.Errorf("%s: the error shows the value: %v", src, err)
		}
	}
}

func TestUses(t *testing.T) {
	t.Parallel()
	tmpl := good(t).Find("order_shipped", notifier.ChannelAPNs, "")
	want := []templates.Use{{"order_id", 2}, {"name", 4}, {"items", 5}, {"gift", 6}, {"unread", 8}, {"order_id", 9}, {"items", 14}, {"gift", 15}, {"items", 12}, {"order_id", 11}, {"items", 13}}
	less := func(a, b templates.Use) bool { return a.Line < b.Line || a.Line == b.Line && a.Name < b.Name }
	if diff := cmp.Diff(want, tmpl.Uses(), cmpopts.SortSlices(less)); diff != "" {
		t.Errorf("uses (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"gift", "items", "name", "order_id", "unread"}, tmpl.Variables()); diff != "" {
		t.Errorf("variables (-want +got):\n%s", diff)
	}
}

func TestLoad_NothingThere(t *testing.T) {
	t.Parallel()
	for _, dir := range []string{".", "absent"} {
		set, problems := templates.Load(fstest.MapFS{".git/config.yaml": {}, "README.md": {}}, dir)
		if len(set.Names()) > 0 || len(problems) > 0 {
			t.Errorf("%s: got %v, %v, want nothing", dir, set.Names(), problems)
		}
	}
}

func TestLoad_LocaleTwice(t *testing.T) {
	t.Parallel()
	src := &fstest.MapFile{Data: []byte("text: x\n")}
	_, problems := templates.Load(fstest.MapFS{"t/fr-CA/sms.yaml": src, "t/fr-ca/sms.yaml": src}, ".")
	if len(problems) != 1 || problems[0].String() != `t/fr-ca:1: the locale "fr-ca" is there twice` {
		t.Errorf("got %v", problems)
	}
}

// JSON that is written as text is JSON once its values are in it, or is refused.
func TestRender_JSONAsText(t *testing.T) {
	t.Parallel()
	load := func(ch notifier.Channel, src string) *templates.Template {
		set, problems := templates.Load(fstest.MapFS{"t/" + string(ch) + ".yaml": {Data: []byte(src)}}, ".")
		for _, p := range problems {
			if !p.Warning {
				t.Fatal(p)
			}
		}
		return set.Find("t", ch, "")
	}
	hook := load(notifier.ChannelWebhook, "body: '{\"name\": \"{{.name}}\", \"n\": {{json .n}}}'\n")
	got, err := hook.Render(map[string]any{"name": "Ann", "n": `a "quote"`})
	if err != nil || got["body"] != `{"name": "Ann", "n": "a \"quote\""}` {
		t.Errorf("got %v, %v, want the text", got, err)
	}
	for _, name := range []string{`Ann", "admin": "yes`, `a\`, "two\nlines"} {
		_, err := hook.Render(map[string]any{"name": name, "n": 1})
		var e *notifier.Error
		if !errors.As(err, &e) || e.Code != notifier.CodeTemplateFailed || !strings.HasSuffix(e.Field, "webhook.yaml: body") {
			t.Errorf("%q: got %v, want template_failed that names the field", name, err)
		}
	}
	names := load(notifier.ChannelWebhook, "body: '{\"{{.name}}\": \"x\"}'\n")
	if got, err := names.Render(map[string]any{"name": "a"}); err != nil || got["body"] != `{"a": "x"}` {
		t.Errorf("got %v, %v, want the name that was given", got, err)
	}
	// Spelt out as YAML nothing breaks, and text that only looks like it is text.
	tree := load(notifier.ChannelWebhook, "body: {name: \"{{.name}}\", tag: \"[{{.name}}]\", said: \"{{.name}} said \\\"no\\\"\"}\n")
	got, err = tree.Render(map[string]any{"name": `"},{"`})
	if want := map[string]any{"name": `"},{"`, "tag": `["},{"]`, "said": `"},{" said "no"`}; err != nil || !cmp.Equal(got["body"], any(want)) {
		t.Errorf("got %v, %v, want %v", got, err, want)
	}
}
