package apns

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v4"
	"github.com/google/go-cmp/cmp"
	"github.com/sideshow/apns2/token"

	"github.com/seed-4b260dfd/notifier"
	"github.com/seed-4b260dfd/notifier/channels"
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

func TestCollapseID(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 65)
	for in, want := range map[string]string{
		"order-42":              "order-42",
		"two words":             "two words",
		strings.Repeat("x", 64): strings.Repeat("x", 64),
		"":                      "effect",
	} {
		if got := collapseID(&notifier.Delivery{CollapseID: in, EffectKey: "effect"}); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
	seen := map[string]string{}
	for _, in := range []string{long, long + "y", " order-42", "order-42 ", "commande-é", "a\r\nb", "a\x00", "\x7f", "語", "\xff", " "} {
		got := collapseID(&notifier.Delivery{CollapseID: in})
		if other, taken := seen[got]; taken || got == strings.TrimSpace(in) {
			t.Errorf("%q: got %q, which is %q's too", in, got, other)
		}
		seen[got] = in
	}
}

// Any collapse id gives a header that HTTP carries as it is, and always the same.
func FuzzCollapseID(f *testing.F) {
	for _, s := range []string{"", "order-42", "語", "a\r\nb", " x", strings.Repeat("é", 40), "\xff\xfe", strings.Repeat("x", 65)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		d := &notifier.Delivery{CollapseID: s, EffectKey: strings.Repeat("0", 64)}
		got := collapseID(d)
		if len(got) == 0 || len(got) > maxCollapseBytes || strings.TrimSpace(got) != got {
			t.Fatalf("%q: %q has %d bytes", s, got, len(got))
		}
		for i := range len(got) {
			if got[i] < 0x20 || got[i] > 0x7e {
				t.Fatalf("%q: %q is not a legal header", s, got)
			}
		}
		if again := collapseID(d); again != got {
			t.Fatalf("%q: %q, then %q", s, got, again)
		}
	})
}

// The same over many random texts in every run of the tests.
func TestCollapseID_AnyText(t *testing.T) {
	t.Parallel()
	for range 2000 {
		n, err := rand.Int(rand.Reader, big.NewInt(80))
		if err != nil {
			t.Fatal(err)
		}
		raw := make([]byte, n.Int64())
		_, _ = rand.Read(raw)
		s := strings.ToValidUTF8(string(raw), "語")
		r := httptest.NewRecorder()
		r.Header().Set("apns-collapse-id", collapseID(&notifier.Delivery{CollapseID: s, EffectKey: "k"}))
		var wire bytes.Buffer
		if err := r.Header().Write(&wire); err != nil {
			t.Fatal(err)
		}
		back := strings.TrimSuffix(strings.TrimPrefix(wire.String(), "Apns-Collapse-Id: "), "\r\n")
		if back != collapseID(&notifier.Delivery{CollapseID: s, EffectKey: "k"}) || len(back) > maxCollapseBytes || back == "" {
			t.Fatalf("%q: %q arrived as %q", s, r.Header().Get("apns-collapse-id"), back)
		}
	}
}

func TestRead_EveryRow(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for i, row := range answers {
		body := []byte("<html>")
		words := fmt.Sprint(row.status)
		if row.name != "" {
			body = fmt.Appendf(nil, `{"reason":%q}`, row.name)
			words += " " + row.name
		}
		got, expired := read(&channels.Answer{Status: row.status, Header: http.Header{"Retry-After": {"3"}}, Body: body}, now)
		want := channels.Result{Outcome: row.outcome, Reason: row.reason, ProviderStatus: words, RetryAfter: 3 * time.Second}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", words, diff)
		}
		if expired != (row.name == expiredToken) {
			t.Errorf("%s: expired %v", words, expired)
		}
		for _, earlier := range answers[:i] {
			if earlier.status == row.status && (earlier.name == row.name || earlier.name == "") {
				t.Errorf("%s: an earlier row hides this one", words)
			}
		}
	}
}

func TestRead_StatusFirst(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		status  int
		body    string
		outcome notifier.Outcome
		reason  notifier.Reason
	}{
		{200, "not JSON", notifier.OutcomeSent, notifier.ReasonNone},
		{201, "", notifier.OutcomeSent, notifier.ReasonNone},
		{307, "", notifier.OutcomeRejected, notifier.ReasonRefused},
		{400, `{"reason":`, notifier.OutcomeRejected, notifier.ReasonRefused},
		{400, `{"reason":"Unregistered"}`, notifier.OutcomeRejected, notifier.ReasonRefused},
		{400, `{"reason":7}`, notifier.OutcomeRejected, notifier.ReasonRefused},
		{403, "<html>", notifier.OutcomeRejected, notifier.ReasonRefused},
		{410, "<html>", notifier.OutcomeInvalidAddress, notifier.ReasonInvalidAddress},
		{429, "<html>", notifier.OutcomeNotSent, notifier.ReasonThrottled},
		{500, `{"reason":"BadDeviceToken"}`, notifier.OutcomeUnknown, notifier.ReasonProviderError},
		{502, "<html>", notifier.OutcomeUnknown, notifier.ReasonProviderError},
		{503, "", notifier.OutcomeUnknown, notifier.ReasonProviderError},
		{599, "", notifier.OutcomeUnknown, notifier.ReasonProviderError},
	} {
		got, _ := read(&channels.Answer{Status: test.status, Body: []byte(test.body), Err: io.ErrUnexpectedEOF}, time.Now())
		if got.Outcome != test.outcome || got.Reason != test.reason {
			t.Errorf("%d %s: got %v, %s, want %v, %s", test.status, test.body, got.Outcome, got.Reason, test.outcome, test.reason)
		}
	}
	got, _ := read(&channels.Answer{Status: 410, Body: []byte(`{"reason":"Unregistered","timestamp":1764553976123}`)}, time.Now())
	if want := time.UnixMilli(1764553976123); !got.InvalidSince.Equal(want) {
		t.Errorf("invalid since %v, want %v", got.InvalidSince, want)
	}
}

func TestExpiration_NeverZero(t *testing.T) {
	t.Parallel()
	for _, zero := range []time.Time{{}, time.Unix(0, 0), time.Unix(-5, 0), time.Unix(0, 999)} {
		if got := expiration(zero); got.Unix() != 1 {
			t.Errorf("%v: got %v, want one second into 1970", zero, got)
		}
	}
	at := time.Unix(1764553976, 5)
	if got := expiration(at); !got.Equal(at) {
		t.Errorf("got %v, want %v", got, at)
	}
}

// keyFile writes an authentication key.
func keyFile(t *testing.T, curve elliptic.Curve) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(curve, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return writePEM(t, "PRIVATE KEY", der)
}

func writePEM(t *testing.T, kind string, der []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file.pem")
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func goodConfig(t *testing.T) Config {
	t.Helper()
	return Config{KeyFile: keyFile(t, elliptic.P256()), KeyID: "ABCDE12345", TeamID: "FGHIJ67890", Topic: "com.example.app", Environment: "sandbox"}
}

func TestConfig_Validate(t *testing.T) {
	t.Parallel()
	if wrong := goodConfig(t).Validate(); len(wrong) > 0 {
		t.Errorf("a good configuration: %v", wrong)
	}
	bad := Config{AccountConfig: channels.AccountConfig{Endpoint: "http://127.0.0.1:1", AllowPrivate: true, Breaker: 1}, KeyID: "short", Topic: "a b"}
	var fields []string
	for _, e := range bad.Validate() {
		fields = append(fields, e.Field)
	}
	if diff := cmp.Diff([]string{"breaker", "endpoint", "key_file", "key_id", "team_id", "topic", "environment"}, fields); diff != "" {
		t.Errorf("fields (-want +got):\n%s", diff)
	}
	if _, err := New(bad); err == nil {
		t.Error("a sender was made of a bad configuration")
	}
	for name, path := range map[string]string{"missing": "/nonexistent.p8", "wrong curve": keyFile(t, elliptic.P384()), "no key": writePEM(t, "PRIVATE KEY", []byte("x"))} {
		cfg := goodConfig(t)
		cfg.KeyFile = path
		if _, err := New(cfg); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: got %v, want an error that names the file", name, err)
		}
	}
}

func TestConfig_Host(t *testing.T) {
	t.Parallel()
	for want, cfg := range map[string]Config{
		"https://api.push.apple.com":         {Environment: "production"},
		"https://api.sandbox.push.apple.com": {Environment: "sandbox"},
		"https://127.0.0.1:2197":             {Environment: "production", AccountConfig: channels.AccountConfig{Endpoint: "https://127.0.0.1:2197/"}},
	} {
		if got := cfg.host(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// apple is a loopback server that keeps what it was sent.
type apple struct {
	*httptest.Server
	mu       sync.Mutex
	requests []*http.Request
	bodies   []string
}

func serveApple(t *testing.T, answer http.HandlerFunc) *apple {
	t.Helper()
	a := &apple{}
	a.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		a.mu.Lock()
		a.requests, a.bodies = append(a.requests, r), append(a.bodies, string(body))
		a.mu.Unlock()
		answer(w, r)
	}))
	a.EnableHTTP2 = true
	a.StartTLS()
	t.Cleanup(a.Close)
	return a
}

func (a *apple) sender(t *testing.T) *Sender {
	t.Helper()
	cfg := goodConfig(t)
	cfg.AccountConfig = channels.AccountConfig{Endpoint: a.URL, AllowPrivate: true, CAFile: writePEM(t, "CERTIFICATE", a.Certificate().Raw)}
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func newDelivery(t *testing.T, fields map[string]any) *notifier.Delivery {
	t.Helper()
	content, err := Kind{}.Prepare(fields)
	if err != nil {
		t.Fatal(err)
	}
	token := strings.Repeat("ab", 32)
	return &notifier.Delivery{
		ID:         notifier.DeliveryID{Notification: notifier.NewID(time.Unix(1764553976, 0), 1, [8]byte{1}), Ordinal: 2},
		Address:    notifier.Address{Value: token},
		Content:    content,
		CollapseID: "order-42",
		EffectKey:  notifier.EffectKey("t", "k", notifier.ChannelAPNs, token),
		ExpiresAt:  time.Unix(1764557576, 0),
	}
}

func send(t *testing.T, s *Sender, d *notifier.Delivery, fence int64) channels.Result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	return s.Send(ctx, &channels.Call{Delivery: d, Fence: fence, Guard: &channels.Guard{}})
}

func TestSender_Request(t *testing.T) {
	t.Parallel()
	a := serveApple(t, func(w http.ResponseWriter, r *http.Request) { w.Header().Set("apns-id", r.Header.Get("apns-id")) })
	s := a.sender(t)
	d := newDelivery(t, map[string]any{"title": "<&>", "body": "語🎉\u2028"})
	got := send(t, s, d, 3)
	if want := (channels.Result{Outcome: notifier.OutcomeSent, ProviderStatus: "200", ProviderID: notifier.UUID(d.EffectKey)}); got != want {
		t.Fatalf("got %+v, want %+v", got, want)
	}
	if r := send(t, s, newDelivery(t, map[string]any{"data": map[string]any{"a": 1}}), 1); r.Outcome != notifier.OutcomeSent {
		t.Fatalf("background: got %+v", r)
	}
	if a.bodies[0] != string(payloadOf(t, d.Content)) || a.requests[0].ContentLength != int64(len(a.bodies[0])) {
		t.Errorf("the body is %q, want the stored payload %s", a.bodies[0], d.Content)
	}
	common := map[string]string{
		"Apns-Id": notifier.UUID(d.EffectKey), "Apns-Topic": "com.example.app", "Apns-Expiration": "1764557576",
		"X-Delivery": d.ID.String(), "Content-Type": "application/json; charset=utf-8",
	}
	for i, own := range []map[string]string{
		{"Apns-Push-Type": "alert", "Apns-Priority": "10", "Apns-Collapse-Id": "order-42", "X-Attempt": "3"},
		{"Apns-Push-Type": "background", "Apns-Priority": "5", "Apns-Collapse-Id": "", "X-Attempt": "1"},
	} {
		r := a.requests[i]
		for _, headers := range []map[string]string{common, own} {
			for name, want := range headers {
				if got := r.Header.Get(name); got != want {
					t.Errorf("request %d: %s is %q, want %q", i, name, got, want)
				}
			}
		}
		if r.URL.Path != "/3/device/"+d.Address.Value || r.Method != http.MethodPost || !strings.HasPrefix(r.Header.Get("Authorization"), "bearer ey") {
			t.Errorf("request %d: %s %s with %q", i, r.Method, r.URL.Path, r.Header.Get("Authorization"))
		}
	}
}

func TestSender_OwnIDsOnlyToAnEndpoint(t *testing.T) {
	t.Parallel()
	s, err := New(goodConfig(t))
	if err != nil {
		t.Fatal(err)
	}
	p := s.parts(&channels.Call{Delivery: newDelivery(t, map[string]any{"title": "T"}), Fence: 1}, content{})
	if p.delivery != "" || p.attempt != "" {
		t.Errorf("%+v would go to Apple", p)
	}
}

func TestSender_BrokenContent(t *testing.T) {
	t.Parallel()
	a := serveApple(t, func(http.ResponseWriter, *http.Request) {})
	d := newDelivery(t, map[string]any{"title": "T"})
	d.Content = notifier.Content(`{"title":"T"}`)
	if got := send(t, a.sender(t), d, 1); got.Outcome != notifier.OutcomeRejected || got.Reason != notifier.ReasonBadContent || len(a.bodies) != 0 {
		t.Errorf("got %+v after %d requests, want rejected, bad_content after none", got, len(a.bodies))
	}
}

// A token that Apple calls expired is replaced once, by whichever call hears
// of it first; the others try again with the new one.
func TestSender_ExpiredToken(t *testing.T) {
	t.Parallel()
	valid := func(r *http.Request) bool {
		raw := strings.TrimPrefix(r.Header.Get("Authorization"), "bearer ")
		claims := jwt.MapClaims{}
		_, _, err := jwt.NewParser().ParseUnverified(raw, claims)
		iat, _ := claims["iat"].(float64)
		return err == nil && time.Since(time.Unix(int64(iat), 0)) < time.Hour
	}
	a := serveApple(t, func(w http.ResponseWriter, r *http.Request) {
		if !valid(r) {
			w.WriteHeader(http.StatusForbidden)
			io.WriteString(w, `{"reason":"ExpiredProviderToken"}`)
		}
	})
	s := a.sender(t)
	old := sign(t, s.client.Token, time.Now().Add(-2*time.Hour))
	// The process slept: by its own reckoning the token is half an hour old.
	s.client.Token.Bearer, s.client.Token.IssuedAt = old, time.Now().Add(-30*time.Minute).Unix()
	d := newDelivery(t, map[string]any{"title": "T"})
	const calls = 8
	var wg sync.WaitGroup
	for i := range calls {
		wg.Go(func() {
			r := send(t, s, d, int64(i))
			for again := 0; r.Again && again < 2; again++ {
				if r.Outcome != notifier.OutcomeNotSent {
					t.Errorf("call %d: got %+v, want not_sent", i, r)
				}
				r = send(t, s, d, int64(100+i))
			}
			if r.Outcome != notifier.OutcomeSent {
				t.Errorf("call %d: got %+v, want sent", i, r)
			}
		})
	}
	wg.Wait()
	a.mu.Lock()
	defer a.mu.Unlock()
	bearers := map[string]int{}
	for _, r := range a.requests {
		bearers[r.Header.Get("Authorization")]++
	}
	if len(bearers) != 2 || bearers["bearer "+old] == 0 {
		t.Errorf("%d tokens were used, want the old one and one new one", len(bearers))
	}
}

func sign(t *testing.T, key *token.Token, at time.Time) string {
	t.Helper()
	jwtToken := jwt.NewWithClaims(jwt.SigningMethodES256, jwt.MapClaims{"iss": key.TeamID, "iat": at.Unix()})
	jwtToken.Header["kid"] = key.KeyID
	s, err := jwtToken.SignedString(key.AuthKey)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestSender_Unreachable(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	cfg := goodConfig(t)
	cfg.Endpoint = "https://" + l.Addr().String()
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	got := send(t, s, newDelivery(t, map[string]any{"title": "T"}), 1)
	if got.Outcome != notifier.OutcomeNotSent || !strings.Contains(got.ProviderStatus, "not on the public internet") {
		t.Errorf("got %+v, want not_sent with the reason that loopback needs allow_private", got)
	}
	if strings.Contains(got.ProviderStatus, "abab") {
		t.Errorf("the status quotes the device token: %q", got.ProviderStatus)
	}
}
