package webpush

import (
	"crypto/ecdh"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-4b260dfd/notifier"
	"github.com/seed-4b260dfd/notifier/channels"
)

// The keys of the example in RFC 8291 section 5.
const (
	exampleP256dh = "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4"
	exampleAuth   = "BTBZMqHH6r4Tts7J_aSIgg"
)

func subscription(endpoint string) notifier.Address {
	return notifier.Address{Value: endpoint, Keys: notifier.PushKeys{P256dh: exampleP256dh, Auth: exampleAuth}}
}

func TestKind_CheckAddress(t *testing.T) {
	t.Parallel()
	const good = "https://updates.push.services.mozilla.com/wpush/v2/gAAAA"
	padded := subscription(good)
	padded.Keys = notifier.PushKeys{P256dh: exampleP256dh + "=", Auth: exampleAuth + "=="}
	for _, a := range []notifier.Address{subscription(good), padded, subscription("https://push.example:8443/a?b=c%2F")} {
		if err := (Kind{}).CheckAddress(a); err != nil {
			t.Errorf("%q: %v", a.Value, err)
		}
	}
	keys := func(p256dh, auth string) notifier.Address {
		return notifier.Address{Value: good, Keys: notifier.PushKeys{P256dh: p256dh, Auth: auth}}
	}
	raw, err := decodeKey(exampleP256dh)
	if err != nil {
		t.Fatal(err)
	}
	b64 := base64.RawURLEncoding.EncodeToString
	off := append([]byte{}, raw...)
	off[64] ^= 1
	compressed := append([]byte{2}, raw[1:33]...)
	named := subscription(good)
	named.Secret = "default"
	for name, test := range map[string]struct {
		a     notifier.Address
		field string
	}{
		"no endpoint":     {subscription(""), "endpoint"},
		"http":            {subscription("http://push.example/a"), "endpoint"},
		"no host":         {subscription("https:///a"), "endpoint"},
		"user":            {subscription("https://u:p@push.example/a"), "endpoint"},
		"fragment":        {subscription("https://push.example/a#b"), "endpoint"},
		"port":            {subscription("https://push.example:99999/a"), "endpoint"},
		"line break":      {subscription("https://push.example/a\r\nTTL: 0"), "endpoint"},
		"not ASCII":       {subscription("https://push.example/é"), "endpoint"},
		"long":            {subscription("https://push.example/" + strings.Repeat("a", 2048)), "endpoint"},
		"opaque":          {subscription("https:push.example"), "endpoint"},
		"no key":          {keys("", exampleAuth), "keys.p256dh"},
		"no auth":         {keys(exampleP256dh, ""), "keys.auth"},
		"short key":       {keys(exampleP256dh[:80], exampleAuth), "keys.p256dh"},
		"compressed":      {keys(b64(compressed), exampleAuth), "keys.p256dh"},
		"off the curve":   {keys(b64(off), exampleAuth), "keys.p256dh"},
		"zero":            {keys(b64(make([]byte, 65)), exampleAuth), "keys.p256dh"},
		"plain base64":    {keys(strings.ReplaceAll(exampleP256dh, "-", "+"), exampleAuth), "keys.p256dh"},
		"short auth":      {keys(exampleP256dh, b64(make([]byte, 15))), "keys.auth"},
		"long auth":       {keys(exampleP256dh, b64(make([]byte, 17))), "keys.auth"},
		"auth not base64": {keys(exampleP256dh, "BTBZMqHH6r4Tts7J_aSIg!"), "keys.auth"},
		"secret":          {named, "secret"},
	} {
		err := (Kind{}).CheckAddress(test.a)
		var e *notifier.Error
		if !errors.As(err, &e) || e.Code != notifier.CodeInvalid || e.Field != test.field || e.Message == "" {
			t.Errorf("%s: got %v, want %s to be invalid", name, err, test.field)
			continue
		}
		for _, secret := range []string{test.a.Value, test.a.Keys.P256dh, test.a.Keys.Auth, "u:p"} {
			if len(secret) > 2 && strings.Contains(err.Error(), secret) {
				t.Errorf("%s: the error quotes the subscription: %v", name, err)
			}
		}
	}
}

func TestReadEndpoint_Origin(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"https://Push.Example:443/a%2Fb?c": "https://push.example/a%2Fb?c",
		"https://push.example:8443/a":      "https://push.example:8443/a",
		"https://[2001:DB8::1]:443/a":      "https://[2001:db8::1]/a",
	} {
		if got, err := readEndpoint(in); err != nil || got.String() != want {
			t.Errorf("%q: got %v, %v, want %q", in, got, err, want)
		}
	}
}

func TestKind_Prepare(t *testing.T) {
	t.Parallel()
	for want, fields := range map[string]map[string]any{
		`{"body":"<3 & more","title":"Hi"}`: {"title": "Hi", "body": "<3 & more"},
		`{"app_badge":3,"body":"B","data":{"id":"7","tag":1},"image":"https://example.com/i.png","subtitle":"S","title":"T","url":"https://example.com"}`: {
			"title": "T", "subtitle": "S", "body": "B", "sound": "default", "badge": 3, "image": "https://example.com/i.png",
			"url": "https://example.com", "data": map[string]any{"tag": 1, "id": "7"}},
		`{"data":{"sync":true}}`: {"data": map[string]any{"sync": true}},
		`{"app_badge":0}`:        {"badge": " 0 ", "data": nil},
		`{"app_badge":12}`:       {"badge": 12.0},
	} {
		got, err := Kind{}.Prepare(fields)
		if err != nil || string(got) != want {
			t.Errorf("%v: got %s, %v, want %s", fields, got, err, want)
		}
	}
	for _, fields := range []map[string]any{nil, {}, {"title": "", "body": ""}, {"sound": "ping"}, {"image": "https://example.com/i.png"}, {"title": 1},
		{"badge": -1}, {"badge": "many"}, {"data": "text"}, {"icon": "x"}, {"data": map[string]any{"f": func() {}}}} {
		var e *notifier.Error
		if got, err := (Kind{}).Prepare(fields); !errors.As(err, &e) || e.Code != notifier.CodeTemplateFailed || e.Field == "" {
			t.Errorf("%v: got %s, %v, want template_failed with a field", fields, got, err)
		}
	}
}

// What is encrypted is one JSON object with the delivery's ids, the same in
// every attempt, and never more than fits a message.
func TestPlaintext(t *testing.T) {
	t.Parallel()
	d := &notifier.Delivery{Content: notifier.Content(`{"data":{"id":"theirs"},"title":"T"}`), EffectKey: notifier.Child("a"), CollapseID: "order-42"}
	text, ok := plaintext(d)
	if !ok {
		t.Fatal("not a push")
	}
	var got map[string]any
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{"data": map[string]any{"id": "theirs"}, "title": "T", "id": notifier.UUID(d.EffectKey), "tag": topic(d)}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("plaintext (-want +got):\n%s", diff)
	}
	if len(text) != len(d.Content)+idsBytes {
		t.Errorf("the ids took %d bytes, want %d", len(text)-len(d.Content), idsBytes)
	}
	for _, content := range []string{"", "{}", `"text"`, `[1]`, `{"title":`, `{"title":"` + strings.Repeat("x", maxPlaintext) + `"}`} {
		if text, ok := plaintext(&notifier.Delivery{Content: notifier.Content(content)}); ok {
			t.Errorf("%.20q: got %.40q, want no push", content, text)
		}
	}
}

// Whatever stands in the fields, the object has the names that it is to have.
func TestPlaintext_HostileFields(t *testing.T) {
	t.Parallel()
	for _, s := range []string{`","id":"x","tag":"y`, "a\r\nTopic: b", "a\x00b", "\u2028\u2029\u0085", "{{.secret}}", "<b>&amp;</b>", "%s%0d%0a${x}", `\`, `}`} {
		content, err := Kind{}.Prepare(map[string]any{"title": s, "body": s, "data": map[string]any{s: s}})
		if err != nil {
			t.Errorf("%q: %v", s, err)
			continue
		}
		d := &notifier.Delivery{Content: content, EffectKey: notifier.Child("a"), CollapseID: s}
		text, ok := plaintext(d)
		var got map[string]any
		if err := json.Unmarshal(text, &got); err != nil || !ok {
			t.Errorf("%q: %s is no push: %v", s, text, err)
		}
		want := map[string]any{"title": s, "body": s, "data": map[string]any{s: s}, "id": notifier.UUID(d.EffectKey), "tag": topic(d)}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q (-want +got):\n%s", s, diff)
		}
	}
}

// The limit is met to the byte, whatever the letters are.
func TestKind_PrepareLimit(t *testing.T) {
	t.Parallel()
	room := maxPlaintext - idsBytes - len(`{"title":""}`)
	for _, letter := range []string{"a", "é", "語", "🎉", "<", `"`, "\u2028"} {
		encoded, err := encode(letter)
		if err != nil {
			t.Fatal(err)
		}
		size := len(encoded) - 2 // without quotes
		title := strings.Repeat(letter, room/size) + strings.Repeat("x", room%size)
		content, err := Kind{}.Prepare(map[string]any{"title": title})
		if err != nil || len(content)+idsBytes != maxPlaintext {
			t.Errorf("%q: got %d bytes and %v, want %d", letter, len(content)+idsBytes, err, maxPlaintext)
			continue
		}
		d := &notifier.Delivery{Content: content, EffectKey: notifier.Child("a")}
		if text, ok := plaintext(d); !ok || len(text)+overhead != maxBodyBytes {
			t.Errorf("%q: the message has %d bytes, want %d", letter, len(text)+overhead, maxBodyBytes)
		}
		_, err = Kind{}.Prepare(map[string]any{"title": title + "x"})
		var e *notifier.Error
		if !errors.As(err, &e) || e.Code != notifier.CodePayloadTooLarge {
			t.Errorf("%q: one byte more gave %v, want payload_too_large", letter, err)
			continue
		}
		if diff := cmp.Diff(map[string]any{"channel": "webpush", "size": maxPlaintext + 1, "limit": 3993}, e.Details); diff != "" {
			t.Errorf("%q: details (-want +got):\n%s", letter, diff)
		}
	}
}

func TestConfig_Validate(t *testing.T) {
	t.Parallel()
	good := Config{VAPIDPrivateKey: base64.RawURLEncoding.EncodeToString(append(make([]byte, 31), 1)), Subject: "mailto:ops@example.com"}
	edit := func(f func(*Config)) Config { c := good; f(&c); return c }
	for name, test := range map[string]struct {
		cfg    Config
		fields []string
	}{
		"good":                {good, nil},
		"padded, https":       {edit(func(c *Config) { c.VAPIDPrivateKey += "="; c.Subject = "https://example.com/contact" }), nil},
		"nothing":             {Config{}, []string{"vapid_private_key", "subject"}},
		"key not base64":      {edit(func(c *Config) { c.VAPIDPrivateKey = "hunter2!" }), []string{"vapid_private_key"}},
		"key too short":       {edit(func(c *Config) { c.VAPIDPrivateKey = "aHVudGVyMg" }), []string{"vapid_private_key"}},
		"key of zeros":        {edit(func(c *Config) { c.VAPIDPrivateKey = base64.RawURLEncoding.EncodeToString(make([]byte, 32)) }), []string{"vapid_private_key"}},
		"bare address":        {edit(func(c *Config) { c.Subject = "ops@example.com" }), []string{"subject"}},
		"subject on no name":  {edit(func(c *Config) { c.Subject = "mailto:ops@localhost" }), []string{"subject"}},
		"subject with a name": {edit(func(c *Config) { c.Subject = "mailto:Ops <ops@example.com>" }), []string{"subject"}},
		"subject by http":     {edit(func(c *Config) { c.Subject = "http://example.com" }), []string{"subject"}},
		"subject localhost":   {edit(func(c *Config) { c.Subject = "https://localhost" }), []string{"subject"}},
		"endpoint with path":  {edit(func(c *Config) { c.Endpoint = "https://proxy.example.com/path" }), []string{"endpoint"}},
		"endpoint plain":      {edit(func(c *Config) { c.Endpoint = "http://127.0.0.1:2080" }), []string{"endpoint"}},
		"endpoint simulated":  {edit(func(c *Config) { c.Endpoint = "http://127.0.0.1:2080"; c.AllowPrivate = true }), nil},
	} {
		var fields []string
		for _, e := range test.cfg.Validate() {
			fields = append(fields, e.Field)
			if strings.Contains(e.Error(), "hunter2") || strings.Contains(e.Error(), "aHVudGVyMg") {
				t.Errorf("%s: the message quotes the key: %v", name, e)
			}
		}
		if diff := cmp.Diff(test.fields, fields); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if _, err := New(test.cfg); (err == nil) != (test.fields == nil) {
			t.Errorf("%s: New gave %v", name, err)
		}
	}
}

func newKey(t *testing.T) string {
	t.Helper()
	key, err := ecdh.P256().GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return base64.RawURLEncoding.EncodeToString(key.Bytes())
}

func TestSender_Check(t *testing.T) {
	t.Parallel()
	cfg := Config{VAPIDPrivateKey: newKey(t), Subject: "mailto:ops@example.com"}
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Check(t.Context()); err != nil {
		t.Errorf("got %v of a good key", err)
	}
	if public, err := cfg.PublicKey(); err != nil || public != s.public || len(public) != 87 {
		t.Errorf("got %q, %v, want %q", public, err, s.public)
	}
	other := Config{VAPIDPrivateKey: newKey(t)}
	if s.public, err = other.PublicKey(); err != nil {
		t.Fatal(err)
	}
	if err := s.Check(t.Context()); err == nil {
		t.Error("the public key of another pair passed")
	}
}

func TestTTL(t *testing.T) {
	t.Parallel()
	now := time.Unix(1764553976, 0)
	for left, want := range map[time.Duration]int{
		-time.Hour: 0, 0: 0, 999 * time.Millisecond: 0, time.Second: 1, time.Hour: 3600,
		4 * 7 * 24 * time.Hour: 2419200, 365 * 24 * time.Hour: 2419200,
	} {
		if got := ttl(now.Add(left), now); got != want {
			t.Errorf("%v left: got %d, want %d", left, got, want)
		}
	}
	if got := ttl(time.Time{}, now); got != 0 {
		t.Errorf("no expiry: got %d, want 0", got)
	}
}

func TestRead(t *testing.T) {
	t.Parallel()
	now := time.Now()
	answered := func(status int, body string) channels.Result {
		return read(&channels.Answer{Status: status, Body: []byte(body)}, now)
	}
	for status := 200; status < 600; status++ {
		got, want := answered(status, "<html>"), channels.Result{ProviderStatus: fmt.Sprint(status)}
		switch {
		case status < 300:
			want.Outcome = notifier.OutcomeSent
		case status == 401, status == 403:
			want.Outcome, want.Reason = notifier.OutcomeNotSent, notifier.ReasonBadCredentials
		case status == 404, status == 410:
			want.Outcome, want.Reason = notifier.OutcomeInvalidAddress, notifier.ReasonInvalidAddress
		case status == 406, status == 429:
			want.Outcome, want.Reason = notifier.OutcomeNotSent, notifier.ReasonThrottled
		case status == 408, status >= 500:
			want.Outcome, want.Reason = notifier.OutcomeUnknown, notifier.ReasonProviderError
		case status == 413:
			want.Outcome, want.Reason = notifier.OutcomeRejected, notifier.ReasonBadContent
		default:
			want.Outcome, want.Reason = notifier.OutcomeRejected, notifier.ReasonRefused
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%d (-want +got):\n%s", status, diff)
		}
	}
	for _, test := range []struct {
		status  int
		body    string
		outcome notifier.Outcome
		reason  notifier.Reason
		words   string
	}{
		{400, `{"code":400,"errno":110,"message":"vapid, of all words"}`, rejected, notifier.ReasonBadContent, "400 errno 110 vapid, of all words"},
		{400, `{"errno":112}`, rejected, notifier.ReasonRefused, "400 errno 112"},
		{400, `{"errno":108}`, rejected, notifier.ReasonInvalidAddress, "400 errno 108"},
		{400, `{"reason":"VapidPkHashMismatch"}`, notSent, notifier.ReasonBadCredentials, "400 VapidPkHashMismatch"},
		{400, `{"reason":"BadWebPushTopic"}`, rejected, notifier.ReasonRefused, "400 BadWebPushTopic"},
		{400, "UnauthorizedRegistration", notSent, notifier.ReasonBadCredentials, "400"},
		{400, "invalid JWT provided", notSent, notifier.ReasonBadCredentials, "400"},
		{403, `{"reason":"BadJwtToken"}`, notSent, notifier.ReasonBadCredentials, "403 BadJwtToken"},
		{503, `{"errno":201}`, notSent, notifier.ReasonThrottled, "503 errno 201"},
		{503, `{"errno":202,"error":"x"}`, notSent, notifier.ReasonThrottled, "503 errno 202"},
		{503, `{"errno":"201"}`, unknown, notifier.ReasonProviderError, "503"},
		{503, `{"errno":201`, unknown, notifier.ReasonProviderError, "503"},
		{500, `{"errno":201}`, unknown, notifier.ReasonProviderError, "500 errno 201"},
		{502, `{"errno":902}`, unknown, notifier.ReasonProviderError, "502 errno 902"},
	} {
		want := channels.Result{Outcome: test.outcome, Reason: test.reason, ProviderStatus: test.words}
		if diff := cmp.Diff(want, answered(test.status, test.body)); diff != "" {
			t.Errorf("%d %s (-want +got):\n%s", test.status, test.body, diff)
		}
	}
}
