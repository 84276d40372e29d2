package simulate

import (
	"bytes"
	"crypto/ecdh"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func unbase64(t *testing.T, s string) []byte {
	t.Helper()
	b, err := base64.RawURLEncoding.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// The example of RFC 8291 section 5, with the values of its appendix A.
const (
	exampleBody = "DGv6ra1nlYgDCS1FRnbzlwAAEABBBP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27mlmlMoZIIgDll6e3vCYLocInmYWAmS6TlzAC8wEqKK6PBru3jl7A_yl95bQpu6cVPTpK4Mqgkf1CXztLVBSt2Ks3oZwbuwXPXLWyouBWLVWGNWQexSgSxsj_Qulcy4a-fN"
	exampleKey  = "q1dXpw3UpT5VOmu_cf_v6ih07Aems3njxI-JWgLcM94"
	exampleAuth = "BTBZMqHH6r4Tts7J_aSIgg"
	exampleText = "When I grow up, I want to be a watermelon"
)

func TestDecrypt_Example(t *testing.T) {
	t.Parallel()
	key, err := ecdh.P256().NewPrivateKey(unbase64(t, exampleKey))
	if err != nil {
		t.Fatal(err)
	}
	body, auth := unbase64(t, exampleBody), unbase64(t, exampleAuth)
	if got, err := decrypt(body, key, auth); err != nil || string(got) != exampleText {
		t.Errorf("got %q, %v, want %q", got, err, exampleText)
	}
	for name, edit := range map[string]func([]byte) []byte{
		"salt":        func(b []byte) []byte { b[0] ^= 1; return b },
		"record size": func(b []byte) []byte { b[18], b[19] = 0, 20; return b },
		"id length":   func(b []byte) []byte { b[20] = 64; return b },
		"public key":  func(b []byte) []byte { b[22] ^= 1; return b },
		"text":        func(b []byte) []byte { b[90] ^= 1; return b },
		"tag":         func(b []byte) []byte { b[len(b)-1] ^= 1; return b },
		"cut":         func(b []byte) []byte { return b[:len(b)-1] },
		"longer":      func(b []byte) []byte { return append(b, 0) },
		"header only": func(b []byte) []byte { return b[:86] },
		"empty":       func([]byte) []byte { return nil },
	} {
		if got, err := decrypt(edit(bytes.Clone(body)), key, auth); err == nil {
			t.Errorf("%s: decrypted as %q", name, got)
		}
	}
	if _, err := decrypt(body, key, make([]byte, 16)); err == nil {
		t.Error("it decrypted with another secret")
	}
}

// signer makes VAPID headers.
type signer struct {
	t   *testing.T
	key *ecdsa.PrivateKey
}

func newSigner(t *testing.T, s *Server) signer {
	t.Helper()
	key, err := ecdsa.ParseRawPrivateKey(elliptic.P256(), unbase64(t, s.Files().VAPIDPrivateKey))
	if err != nil {
		t.Fatal(err)
	}
	return signer{t, key}
}

func (s signer) header(alg string, claims map[string]any) string {
	s.t.Helper()
	part := func(v any) string {
		b, err := json.Marshal(v)
		if err != nil {
			s.t.Fatal(err)
		}
		return base64.RawURLEncoding.EncodeToString(b)
	}
	signed := part(map[string]string{"typ": "JWT", "alg": alg}) + "." + part(claims)
	sum := sha256.Sum256([]byte(signed))
	r, v, err := ecdsa.Sign(rand.Reader, s.key, sum[:])
	if err != nil {
		s.t.Fatal(err)
	}
	signature := make([]byte, 64)
	r.FillBytes(signature[:32])
	v.FillBytes(signature[32:])
	public, err := s.key.PublicKey.Bytes()
	if err != nil {
		s.t.Fatal(err)
	}
	enc := base64.RawURLEncoding
	return "vapid t=" + signed + "." + enc.EncodeToString(signature) + ", k=" + enc.EncodeToString(public)
}

func claims(edit map[string]any) map[string]any {
	c := map[string]any{"aud": "https://" + pushHost, "exp": time.Now().Add(time.Hour).Unix(), "sub": "mailto:ops@example.com"}
	for k, v := range edit {
		c[k] = v
	}
	return c
}

// post sends a message without a body, which needs no encryption.
func post(t *testing.T, s *Server, endpoint string, header map[string]string, body []byte) (status int, answer map[string]any) {
	t.Helper()
	path := endpoint[strings.Index(endpoint, pushPath):]
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.HTTPURL()+path, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Host = pushHost
	for k, v := range header {
		if v != "" {
			req.Header.Set(k, v)
		}
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode >= 400 {
		if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
			t.Fatalf("%s without JSON: %v", resp.Status, err)
		}
	} else if loc := resp.Header.Get("Location"); !strings.HasPrefix(loc, "https://"+pushHost+"/m/") {
		t.Errorf("Location is %q", loc)
	}
	return resp.StatusCode, answer
}

func TestWebPush_Refuses(t *testing.T) {
	t.Parallel()
	s := start(t)
	sign := newSigner(t, s)
	good := sign.header("ES256", claims(nil))
	sub := s.Subscription("ann")
	vapid := func(edit map[string]any) map[string]string {
		return map[string]string{"Authorization": sign.header("ES256", claims(edit)), "TTL": "60"}
	}
	in := func(d time.Duration) map[string]any { return map[string]any{"exp": time.Now().Add(d).Unix()} }
	with := func(name, value string) map[string]string {
		h := map[string]string{"Authorization": good, "TTL": "60"}
		h[name] = value
		return h
	}
	for name, test := range map[string]struct {
		header map[string]string
		body   []byte
		status int
		errno  any
	}{
		"good":                 {with("TTL", "0"), nil, 201, nil},
		"topic and urgency":    {map[string]string{"Authorization": good, "TTL": "60", "Topic": "order-42", "Urgency": "very-low"}, nil, 201, nil},
		"no token":             {with("Authorization", ""), nil, 401, 109.0},
		"another scheme":       {with("Authorization", "WebPush abc"), nil, 401, 109.0},
		"half a token":         {with("Authorization", good[:80]), nil, 401, 109.0},
		"another signature":    {with("Authorization", strings.Replace(good, ", k=", "A, k=", 1)), nil, 401, 109.0},
		"another algorithm":    {with("Authorization", sign.header("none", claims(nil))), nil, 401, 109.0},
		"another audience":     {vapid(map[string]any{"aud": "https://push.example"}), nil, 401, 109.0},
		"audience with a path": {vapid(map[string]any{"aud": "https://" + pushHost + "/"}), nil, 401, 109.0},
		"expired":              {vapid(in(-time.Minute)), nil, 401, 109.0},
		"a day and more":       {vapid(in(25 * time.Hour)), nil, 401, 109.0},
		"nearly a day":         {vapid(in(23 * time.Hour)), nil, 201, nil},
		"no subject":           {vapid(map[string]any{"sub": ""}), nil, 401, 109.0},
		"subject of no scheme": {vapid(map[string]any{"sub": "ops@example.com"}), nil, 401, 109.0},
		"no TTL":               {with("TTL", ""), nil, 400, 111.0},
		"TTL negative":         {with("TTL", "-1"), nil, 400, 112.0},
		"TTL in words":         {with("TTL", "soon"), nil, 400, 112.0},
		"topic not base64url":  {with("Topic", "order 42"), nil, 400, 113.0},
		"topic of 33":          {with("Topic", strings.Repeat("x", 33)), nil, 400, 113.0},
		"topic of 5":           {with("Topic", "spike"), nil, 400, 113.0},
		"urgency":              {with("Urgency", "urgent"), nil, 400, nil},
		"not encoded":          {with("TTL", "60"), []byte("text"), 400, 110.0},
		"another encoding":     {with("Content-Encoding", "aesgcm"), []byte("text"), 400, 110.0},
		"not encrypted":        {with("Content-Encoding", "aes128gcm"), []byte("text"), 400, 110.0},
		"of another browser":   {with("Content-Encoding", "aes128gcm"), unbase64(t, exampleBody), 400, 110.0},
		"4096 bytes":           {with("Content-Encoding", "aes128gcm"), make([]byte, 4096), 400, 110.0},
		"4097 bytes":           {with("Content-Encoding", "aes128gcm"), make([]byte, 4097), 413, 104.0},
	} {
		status, answer := post(t, s, sub.Endpoint, test.header, test.body)
		if status != test.status || (status >= 400 && (answer["errno"] != test.errno || answer["code"] != float64(status) || answer["message"] == "")) {
			t.Errorf("%s: got %d, %v, want %d, errno %v", name, status, answer, test.status, test.errno)
		}
	}
	for _, e := range s.Effects() {
		if e.TookEffect != (e.Answer == "201") || e.Channel != "webpush" || e.Address != sub.Endpoint || e.Answer[:3] == "401" && e.MayTakeEffect {
			t.Errorf("log: %+v", e)
		}
	}
}

func TestWebPush_SubscriptionsSurviveARestart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	subs := make([]Subscription, 2)
	for i := range subs {
		s, err := Start(Config{Dir: dir})
		if err != nil {
			t.Fatal(err)
		}
		subs[i] = s.Subscription("ann")
		other := s.Subscription("bob")
		if other.Endpoint == subs[i].Endpoint || other.Keys == subs[i].Keys {
			t.Error("two browsers share a subscription")
		}
		header := map[string]string{"Authorization": newSigner(t, s).header("ES256", claims(nil)), "TTL": "60"}
		if status, answer := post(t, s, subs[0].Endpoint, header, nil); status != 201 {
			t.Errorf("start %d: got %d, %v, want 201", i, status, answer)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	if diff := cmp.Diff(subs[0], subs[1]); diff != "" {
		t.Errorf("the subscription changed (-first +second):\n%s", diff)
	}
}

// A folder of a version without web push gets what it lacks and keeps the rest.
func TestInit_OlderFolder(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	old, err := Init(dir, Config{})
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(dir, settingsName)
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	var settings map[string]string
	if err := json.Unmarshal(b, &settings); err != nil {
		t.Fatal(err)
	}
	for _, field := range []string{"vapid_private_key", "vapid_public_key", "webpush_seed"} {
		delete(settings, field)
	}
	if b, err = json.Marshal(settings); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, b, 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := Init(dir, Config{})
	if err != nil || got.VAPIDPrivateKey == "" || got.VAPIDPublicKey == "" || got.WebPushSeed == "" {
		t.Fatalf("got %+v, %v, want all fields", got, err)
	}
	if again, err := Init(dir, Config{}); err != nil || again != got {
		t.Errorf("another Init gave %+v, %v, want %+v", again, err, got)
	}
	got.VAPIDPrivateKey, got.VAPIDPublicKey, got.WebPushSeed = old.VAPIDPrivateKey, old.VAPIDPublicKey, old.WebPushSeed
	if got != old {
		t.Errorf("got %+v, want %+v", got, old)
	}
}

func TestSubscribe(t *testing.T) {
	t.Parallel()
	s := start(t)
	ask := func(body string) (int, Subscription) {
		resp, err := http.Post(s.HTTPURL()+"/_simulate/webpush/subscribe", "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		var sub Subscription
		_ = json.NewDecoder(resp.Body).Decode(&sub) // an error is in words
		return resp.StatusCode, sub
	}
	_, first := ask("")
	_, second := ask(`{}`)
	if first.Endpoint == second.Endpoint || !strings.HasPrefix(first.Endpoint, "https://"+pushHost+pushPath) {
		t.Errorf("got %v, %v, want two browsers", first, second)
	}
	if status, answer := post(t, s, first.Endpoint, map[string]string{"TTL": "0"}, nil); status != 201 {
		t.Errorf("bound to no key, sent without one: got %d, %v", status, answer)
	}
	bound := `{"name": "ann", "applicationServerKey": "` + s.Files().VAPIDPublicKey + `"}`
	if _, sub := ask(bound); sub != s.Subscription("ann") {
		t.Errorf("got %v, want the one of ann", sub)
	}
	for _, bad := range []string{`{"applicationServerKey": "BBBB"}`, `{"applicationServerKey": "!"}`, `{"key": "x"}`, `[]`} {
		if status, sub := ask(bad); status != http.StatusBadRequest {
			t.Errorf("%s: got %d, %v, want 400", bad, status, sub)
		}
	}
}
