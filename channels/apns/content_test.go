package apns

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-4b260dfd/notifier"
)

func TestKind_CheckAddress(t *testing.T) {
	t.Parallel()
	for _, good := range []string{strings.Repeat("a0", 32), strings.Repeat("A0", 80), "00"} {
		if err := (Kind{}).CheckAddress(notifier.Address{Value: good}); err != nil {
			t.Errorf("%q: %v", good, err)
		}
	}
	for _, bad := range []notifier.Address{{}, {Value: "xyz"}, {Value: "abc"}, {Value: "ab cd"}, {Value: strings.Repeat("a0", 257)},
		{Value: "../3/device/ab"}, {Value: "ab", Secret: "default"}} {
		var e *notifier.Error
		err := (Kind{}).CheckAddress(bad)
		if !errors.As(err, &e) || e.Code != notifier.CodeInvalid || e.Field == "" {
			t.Errorf("%q: got %v, want an invalid field", bad.Value, err)
		}
		if bad.Value != "" && strings.Contains(fmt.Sprint(err), bad.Value) && len(bad.Value) > 3 {
			t.Errorf("%q: the error quotes the address", bad.Value)
		}
	}
}

func TestKind_PreparePayload(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name     string
		fields   map[string]any
		pushType string
		payload  string
	}{
		{"alert", map[string]any{"title": "Hi", "body": "<3 & more"}, "alert", `{"aps":{"alert":{"body":"<3 & more","title":"Hi"}}}`},
		{"all", map[string]any{"title": "T", "subtitle": "S", "body": "B", "sound": "default", "badge": 3, "image": "https://example.com/i.png",
			"url": "https://example.com", "data": map[string]any{"id": "7", "aps": 1}}, "alert",
			`{"aps":{"alert":{"body":"B","subtitle":"S","title":"T"},"badge":3,"mutable-content":1,"sound":"default"},` +
				`"data":{"aps":1,"id":"7"},"image":"https://example.com/i.png","url":"https://example.com"}`},
		{"title alone", map[string]any{"title": "T", "body": ""}, "alert", `{"aps":{"alert":{"title":"T"}}}`},
		{"badge as text", map[string]any{"badge": " 0 "}, "alert", `{"aps":{"badge":0}}`},
		{"badge as JSON number", map[string]any{"badge": 12.0}, "alert", `{"aps":{"badge":12}}`},
		{"sound alone", map[string]any{"sound": "ping"}, "alert", `{"aps":{"sound":"ping"}}`},
		{"background", map[string]any{"data": map[string]any{"sync": true}}, "background", `{"aps":{"content-available":1},"data":{"sync":true}}`},
		{"nil fields", map[string]any{"body": "B", "badge": nil, "data": nil}, "alert", `{"aps":{"alert":{"body":"B"}}}`},
	} {
		got, err := Kind{}.Prepare(test.fields)
		if err != nil {
			t.Errorf("%s: %v", test.name, err)
			continue
		}
		want := fmt.Sprintf(`{"push_type":%q,"payload":%s}`, test.pushType, test.payload)
		if diff := cmp.Diff(want, string(got)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.name, diff)
		}
	}
}

func TestKind_PrepareRefuses(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		fields map[string]any
		field  string
	}{
		{"nothing", nil, "body"},
		{"empty alert", map[string]any{"title": "", "body": ""}, "title"},
		{"subtitle alone", map[string]any{"subtitle": "S"}, "subtitle"},
		{"empty body with data", map[string]any{"body": "", "data": map[string]any{"a": 1}}, "body"},
		{"url alone", map[string]any{"url": "https://example.com"}, "body"},
		{"title of the wrong type", map[string]any{"title": 7}, "title"},
		{"badge of words", map[string]any{"title": "T", "badge": "many"}, "badge"},
		{"badge below zero", map[string]any{"title": "T", "badge": -1}, "badge"},
		{"badge in halves", map[string]any{"title": "T", "badge": 1.5}, "badge"},
		{"data of the wrong type", map[string]any{"title": "T", "data": "x"}, "data"},
		{"unknown field", map[string]any{"title": "T", "colour": "red"}, "colour"},
	} {
		_, err := Kind{}.Prepare(test.fields)
		var e *notifier.Error
		if !errors.As(err, &e) || e.Code != notifier.CodeTemplateFailed || e.Field != test.field {
			t.Errorf("%s: got %v, want template_failed for %q", test.name, err, test.field)
		}
	}
}

// The limit is met to the byte, whatever the letters are.
func TestKind_PrepareLimit(t *testing.T) {
	t.Parallel()
	frame := len(`{"aps":{"alert":{"body":""}}}`)
	room := maxPayloadBytes - frame
	for _, letter := range []string{"a", "é", "語", "🎉", "<", "&", "\"", "\\", "\n", "\u2028", "👨‍👩‍👧"} {
		encoded, err := encode(letter)
		if err != nil {
			t.Fatal(err)
		}
		size := len(encoded) - len(`""`)
		fits := strings.Repeat(letter, room/size) + strings.Repeat("a", room%size)
		content, err := Kind{}.Prepare(map[string]any{"body": fits})
		if err != nil {
			t.Errorf("%q: %d bytes are refused: %v", letter, maxPayloadBytes, err)
			continue
		}
		if n := len(payloadOf(t, content)); n != maxPayloadBytes {
			t.Errorf("%q: the payload has %d bytes, want %d; this test shows nothing", letter, n, maxPayloadBytes)
		}
		_, err = Kind{}.Prepare(map[string]any{"body": fits + "a"})
		var e *notifier.Error
		if !errors.As(err, &e) || e.Code != notifier.CodePayloadTooLarge {
			t.Errorf("%q: one byte more gave %v, want payload_too_large", letter, err)
			continue
		}
		if diff := cmp.Diff(map[string]any{"channel": "apns", "size": maxPayloadBytes + 1, "limit": maxPayloadBytes}, e.Details); diff != "" {
			t.Errorf("%q: details (-want +got):\n%s", letter, diff)
		}
	}
}

func payloadOf(t *testing.T, c notifier.Content) []byte {
	t.Helper()
	var stored content
	if err := json.Unmarshal(c, &stored); err != nil {
		t.Fatal(err)
	}
	return stored.Payload
}

func TestReadContent(t *testing.T) {
	t.Parallel()
	payload := `{"aps":{"alert":{"title":"} \",\"payload\":"}}}`
	for name, c := range map[string]struct {
		in, typ, payload string
		bad              bool
	}{
		"alert":            {in: string(content{pushAlert, []byte(payload)}.write()), typ: pushAlert, payload: payload},
		"background":       {in: string(content{pushBackground, []byte(payload)}.write()), typ: pushBackground, payload: payload},
		"other spelling":   {in: `{ "payload": {"aps":{}}, "push_type": "alert" }`, typ: pushAlert, payload: `{"aps":{}}`},
		"type with quotes": {in: `{"push_type":"a\"b","payload":{}}`, typ: `a"b`, payload: `{}`},
		"no JSON":          {in: `{"push_type":"alert"`, bad: true},
		"empty":            {in: ``, bad: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := readContent([]byte(c.in))
			if (err != nil) != c.bad {
				t.Fatalf("got error %v, want one: %v", err, c.bad)
			}
			if got.PushType != c.typ || string(got.Payload) != c.payload {
				t.Errorf("got %q and %s, want %q and %s", got.PushType, got.Payload, c.typ, c.payload)
			}
		})
	}
	if w := (content{pushAlert, []byte(payload)}).write(); !json.Valid(w) {
		t.Errorf("what is written is not JSON: %s", w)
	}
}
