package fcm

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-4b260dfd/notifier"
)

func TestKind_CheckAddress(t *testing.T) {
	t.Parallel()
	for _, good := range []string{"a", "fGh:APA91b-_" + strings.Repeat("x", 140), strings.Repeat("x", maxTokenBytes)} {
		if err := (Kind{}).CheckAddress(notifier.Address{Value: good}); err != nil {
			t.Errorf("%d bytes: %v", len(good), err)
		}
	}
	for _, bad := range []notifier.Address{{}, {Value: "abcd efgh"}, {Value: "abcd\r\nefgh"}, {Value: "jeton-é"}, {Value: strings.Repeat("x", maxTokenBytes+1)},
		{Value: "abcdefgh", Secret: "default"}} {
		var e *notifier.Error
		err := (Kind{}).CheckAddress(bad)
		if !errors.As(err, &e) || e.Code != notifier.CodeInvalid || e.Field == "" {
			t.Errorf("%v: got %v, want an invalid field", bad, err)
		}
		if bad.Value != "" && strings.Contains(fmt.Sprint(err), bad.Value) {
			t.Errorf("the error quotes the address: %v", err)
		}
	}
}

func TestKind_PreparePayload(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name    string
		fields  map[string]any
		payload string
	}{
		{"shown", map[string]any{"title": "Hi", "body": "<3 & more"}, `{"notification":{"title":"Hi","body":"<3 & more"}}`},
		{"all", map[string]any{"title": "T", "subtitle": "S", "body": "B", "sound": "default", "badge": 3, "image": "https://example.com/i.png",
			"url": "https://example.com/o", "data": map[string]any{"id": "7"}},
			`{"notification":{"title":"T","body":"B","image":"https://example.com/i.png"},"data":{"id":"7","url":"https://example.com/o"},` +
				`"android":{"notification":{"sound":"default","notification_count":3}},` +
				`"apns":{"payload":{"aps":{"alert":{"subtitle":"S"},"badge":3,"mutable-content":1,"sound":"default"}}},` +
				`"webpush":{"fcm_options":{"link":"https://example.com/o"}}}`},
		{"badge off", map[string]any{"title": "T", "badge": " 0 "}, `{"notification":{"title":"T"},"apns":{"payload":{"aps":{"badge":0}}}}`},
		{"data of every kind", map[string]any{"title": "T", "data": map[string]any{"n": 7, "f": 1.5, "b": true, "o": map[string]any{"a": "<"}, "l": []any{1}, "gone": nil}},
			`{"notification":{"title":"T"},"data":{"b":"true","f":"1.5","l":"[1]","n":"7","o":"{\"a\":\"<\"}"}}`},
		{"unseen", map[string]any{"data": map[string]any{"sync": true}}, `{"data":{"sync":"true"},"apns":{"payload":{"aps":{"content-available":1}}}}`},
		{"link without TLS", map[string]any{"title": "T", "url": "app://order/7"}, `{"notification":{"title":"T"},"data":{"url":"app://order/7"}}`},
	} {
		got, err := Kind{}.Prepare(test.fields)
		if err != nil {
			t.Errorf("%s: %v", test.name, err)
			continue
		}
		if diff := cmp.Diff(test.payload, string(got)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.name, diff)
		}
		if _, err := attemptMessage(&notifier.Delivery{Content: got}, time.Now()); err != nil {
			t.Errorf("%s: cannot be sent: %v", test.name, err)
		}
	}
}

func TestKind_PrepareRefuses(t *testing.T) {
	t.Parallel()
	data := func(key string) map[string]any { return map[string]any{"title": "T", "data": map[string]any{key: "x"}} }
	for _, test := range []struct {
		name   string
		fields map[string]any
		field  string
	}{
		{"nothing", nil, "body"},
		{"empty alert", map[string]any{"title": "", "body": ""}, "title"},
		{"subtitle alone", map[string]any{"subtitle": "S"}, "subtitle"},
		{"sound with data", map[string]any{"sound": "ping", "data": map[string]any{"a": 1}}, "sound"},
		{"url alone", map[string]any{"url": "https://example.com"}, "body"},
		{"title of the wrong type", map[string]any{"title": 7}, "title"},
		{"badge of words", map[string]any{"title": "T", "badge": "many"}, "badge"},
		{"badge below zero", map[string]any{"title": "T", "badge": -1}, "badge"},
		{"data of the wrong type", map[string]any{"title": "T", "data": "x"}, "data"},
		{"unknown field", map[string]any{"title": "T", "colour": "red"}, "colour"},
		{"image that is no URL", map[string]any{"title": "T", "image": "i.png"}, "image"},
		{"from", data("from"), "data.from"},
		{"message_type", data("message_type"), "data.message_type"},
		{"collapse_key", data("collapse_key"), "data.collapse_key"},
		{"google", data("google.c.a.e"), "data.google.c.a.e"},
		{"gcm", data("gcm.notification.title"), "data.gcm.notification.title"},
		{"ours", data("notifier_id"), "data.notifier_id"},
		{"no name", data(""), "data."},
		{"url twice", map[string]any{"title": "T", "url": "https://example.com", "data": map[string]any{"url": "x"}}, "data.url"},
		{"data that is no JSON", map[string]any{"title": "T", "data": map[string]any{"a": func() {}}}, "data.a"},
	} {
		_, err := Kind{}.Prepare(test.fields)
		var e *notifier.Error
		if !errors.As(err, &e) || e.Code != notifier.CodeTemplateFailed || e.Field != test.field {
			t.Errorf("%s: got %v, want template_failed for %q", test.name, err, test.field)
		}
	}
}

// whatCounts is the payload within a message as the SDK would send it.
func whatCounts(t *testing.T, d *notifier.Delivery) int {
	t.Helper()
	m, err := attemptMessage(d, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	var sent map[string]any
	if err := json.Unmarshal(b, &sent); err != nil {
		t.Fatal(err)
	}
	delete(sent, "token")
	for _, options := range [][]string{{"android", "collapse_key", "priority", "ttl"}, {"apns", "headers"}, {"webpush", "headers"}} {
		object := sent[options[0]].(map[string]any)
		for _, name := range options[1:] {
			delete(object, name)
		}
		if len(object) == 0 {
			delete(sent, options[0])
		}
	}
	encoded, err := encode(sent)
	if err != nil {
		t.Fatal(err)
	}
	return len(encoded)
}

// The limit is met to the byte, whatever the letters are, in what is shown and
// in data, with the id and the longest tag that an attempt adds.
func TestKind_PrepareLimit(t *testing.T) {
	t.Parallel()
	body := func(text string) map[string]any { return map[string]any{"body": text} }
	value := func(text string) map[string]any { return map[string]any{"data": map[string]any{"k": text}} }
	key := func(text string) map[string]any { return map[string]any{"data": map[string]any{"k" + text: ""}} }
	for name, fields := range map[string]func(string) map[string]any{"body": body, "value": value, "key": key} {
		var p payload
		first, err := Kind{}.Prepare(fields("x"))
		if err != nil || json.Unmarshal(first, &p) != nil {
			t.Fatal(err)
		}
		frame, err := p.sizeOnTheWire()
		if err != nil {
			t.Fatal(err)
		}
		room := maxPayloadBytes - frame + 1
		for _, letter := range []string{"a", "é", "語", "🎉", "<", "&", "\"", "\\", "\n", "\u2028", "👨‍👩‍👧"} {
			encoded, err := encode(letter)
			if err != nil {
				t.Fatal(err)
			}
			size := len(encoded) - len(`""`)
			fits := strings.Repeat(letter, room/size) + strings.Repeat("a", room%size)
			content, err := Kind{}.Prepare(fields(fits))
			if err != nil {
				t.Errorf("%s of %q: %d bytes are refused: %v", name, letter, maxPayloadBytes, err)
				continue
			}
			d := &notifier.Delivery{Content: content, CollapseID: strings.Repeat("c", 200), EffectKey: "k"}
			if n := whatCounts(t, d); n != maxPayloadBytes {
				t.Errorf("%s of %q: the payload has %d bytes, want %d; this test shows nothing", name, letter, n, maxPayloadBytes)
			}
			_, err = Kind{}.Prepare(fields(fits + "a"))
			var e *notifier.Error
			if !errors.As(err, &e) || e.Code != notifier.CodePayloadTooLarge {
				t.Errorf("%s of %q: one byte more gave %v, want payload_too_large", name, letter, err)
				continue
			}
			if diff := cmp.Diff(map[string]any{"channel": "fcm", "size": maxPayloadBytes + 1, "limit": maxPayloadBytes}, e.Details); diff != "" {
				t.Errorf("%s of %q: details (-want +got):\n%s", name, letter, diff)
			}
		}
	}
}

// Whatever stands in the data stands in a string of its own: no value makes a
// field of the message.
func TestKind_PrepareKeepsStructure(t *testing.T) {
	t.Parallel()
	for _, evil := range []string{"a\r\nb", "\x00", "\u2028\u2029", "{{.x}}", `","token":"other`, `"}},"topic":"all`, "<script>", "%s%d", "\\u0022", "🎉\u202e"} {
		content, err := Kind{}.Prepare(map[string]any{"title": evil, "body": evil, "subtitle": evil, "sound": evil, "data": map[string]any{"k": evil, "v": map[string]any{evil: evil}}})
		if err != nil {
			t.Fatalf("%q: %v", evil, err)
		}
		d := &notifier.Delivery{Content: content, Address: notifier.Address{Value: "device"}, CollapseID: evil, Type: "t", EffectKey: "k"}
		m, err := attemptMessage(d, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		if m.Token != "device" || m.Topic != "" || m.Condition != "" || m.Notification.Title != evil || m.Data["k"] != evil || len(m.Data) != 3 {
			t.Errorf("%q: the message became %+v", evil, m)
		}
		for name, value := range maps.All(m.APNS.Headers) {
			if strings.ContainsAny(name+value, "\r\n\x00") {
				t.Errorf("%q: header %s is %q", evil, name, value)
			}
		}
	}
}
