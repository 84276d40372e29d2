package simulate

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"
)

// fcmClient is a raw client of the simulated FCM. Nothing under it sends twice:
// its bodies cannot be rewound.
type fcmClient struct {
	t      *testing.T
	s      *Server
	hc     *http.Client
	key    *rsa.PrivateKey
	access string
}

func newFCMClient(t *testing.T, s *Server, h2 bool) *fcmClient {
	t.Helper()
	ca, err := os.ReadFile(s.CAFile())
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	tr := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, ForceAttemptHTTP2: h2}
	t.Cleanup(tr.CloseIdleConnections)
	block, _ := pem.Decode([]byte(s.fcm.account.PrivateKey))
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	c := &fcmClient{t: t, s: s, key: key.(*rsa.PrivateKey), hc: &http.Client{Transport: tr, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
	got := c.token(c.assertion(nil))
	var granted struct {
		AccessToken string `json:"access_token"`
		ExpiresIn   int    `json:"expires_in"`
	}
	if err := json.Unmarshal([]byte(got.Body), &granted); err != nil || granted.AccessToken == "" || granted.ExpiresIn != 3599 {
		t.Fatalf("no token: %+v", got)
	}
	c.access = granted.AccessToken
	return c
}

// assertion is one that is taken, unless claims spoil it; nil leaves one out.
func (c *fcmClient) assertion(claims map[string]any) string {
	c.t.Helper()
	now := time.Now()
	a := c.s.fcm.account
	head := map[string]any{"alg": "RS256", "typ": "JWT", "kid": a.PrivateKeyID}
	body := map[string]any{"iss": a.ClientEmail, "aud": a.TokenURI, "scope": "https://www.googleapis.com/auth/firebase.messaging",
		"iat": now.Unix(), "exp": now.Add(time.Hour).Unix()}
	for name, value := range claims {
		if name == "alg" || name == "kid" {
			head[name] = value
			continue
		}
		body[name] = value
	}
	enc := base64.RawURLEncoding
	signed := enc.EncodeToString(mustJSON(head)) + "." + enc.EncodeToString(mustJSON(body))
	sum := sha256.Sum256([]byte(signed))
	sig, err := rsa.SignPKCS1v15(rand.Reader, c.key, crypto.SHA256, sum[:])
	if err != nil {
		c.t.Fatal(err)
	}
	return signed + "." + enc.EncodeToString(sig)
}

func (c *fcmClient) do(path, contentType, body string, edit func(*http.Request)) answerOf {
	c.t.Helper()
	r, err := http.NewRequestWithContext(c.t.Context(), http.MethodPost, c.s.FCMURL()+path, strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	r.GetBody = nil
	r.Header.Set("Content-Type", contentType)
	if c.access != "" {
		r.Header.Set("Authorization", "Bearer "+c.access)
	}
	r.Header.Set("X-Delivery", "dlv_1")
	r.Header.Set("X-Attempt", "3")
	if edit != nil {
		edit(r)
	}
	resp, err := c.hc.Do(r)
	if err != nil {
		return answerOf{Err: err}
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return answerOf{Status: resp.StatusCode, Body: string(b), Header: resp.Header, Err: err}
}

func (c *fcmClient) token(assertion string) answerOf {
	form := url.Values{"grant_type": {"urn:ietf:params:oauth:grant-type:jwt-bearer"}, "assertion": {assertion}}
	return c.do("/token", "application/x-www-form-urlencoded", form.Encode(), nil)
}

func (c *fcmClient) send(message string) answerOf {
	return c.do("/v1/projects/"+c.s.fcm.project+"/messages:send", "application/json", `{"message":`+message+`}`, nil)
}

var registration = "fGh-12345678:APA91b" + strings.Repeat("x", 140)

func hello(more string) string {
	return fmt.Sprintf(`{"token":%q,"notification":{"title":"Hello"}%s}`, registration, more)
}

func TestFCM_Token(t *testing.T) {
	t.Parallel()
	s := start(t)
	c := newFCMClient(t, s, true)
	now := time.Now()
	for name, test := range map[string]struct {
		claims map[string]any
		code   string
	}{
		"other account":     {map[string]any{"iss": "other@example.com"}, "invalid_grant"},
		"other audience":    {map[string]any{"aud": "https://oauth2.googleapis.com/token"}, "invalid_grant"},
		"other key":         {map[string]any{"kid": "k"}, "invalid_grant"},
		"no algorithm":      {map[string]any{"alg": "none"}, "invalid_grant"},
		"no scope":          {map[string]any{"scope": "https://www.googleapis.com/auth/drive"}, "invalid_scope"},
		"from the future":   {map[string]any{"iat": now.Add(time.Hour).Unix(), "exp": now.Add(2 * time.Hour).Unix()}, "invalid_grant"},
		"expired":           {map[string]any{"iat": now.Add(-2 * time.Hour).Unix(), "exp": now.Add(-time.Hour).Unix()}, "invalid_grant"},
		"good for too long": {map[string]any{"exp": now.Add(2 * time.Hour).Unix()}, "invalid_grant"},
	} {
		if got := c.token(c.assertion(test.claims)); got.Status != 400 || !strings.Contains(got.Body, `"error":"`+test.code+`"`) {
			t.Errorf("%s: got %+v, want 400 %s", name, got, test.code)
		}
	}
	good := c.assertion(nil)
	for name, got := range map[string]answerOf{
		"signature spoilt": c.token(good[:len(good)-8] + "AAAAAAAA"),
		"no assertion":     c.token(""),
		"other grant":      c.do("/token", "application/x-www-form-urlencoded", "grant_type=password&assertion="+good, nil),
	} {
		if got.Status != 400 {
			t.Errorf("%s: got %+v, want 400", name, got)
		}
	}
	if all := s.Effects(); len(all) != 0 {
		t.Errorf("requests for tokens are in the log: %+v", all)
	}
	// A fault for all channels spares the token endpoint; one of its own does not.
	s.SetFaults([]Fault{{Kind: FaultStatus, Status: 503}})
	if got := c.token(good); got.Status != 200 {
		t.Errorf("got %+v, want a token", got)
	}
	s.SetFaults([]Fault{{Channel: "fcm_token", Kind: FaultStatus, Status: 400, Reason: "invalid_grant"}})
	if got := c.token(good); got.Status != 400 || got.Body != `{"error":"invalid_grant","error_description":""}` {
		t.Errorf("got %+v, want the fault", got)
	}
}

func TestFCM_Refuses(t *testing.T) {
	t.Parallel()
	s := start(t)
	c := newFCMClient(t, s, true)
	path := "/v1/projects/" + s.fcm.project + "/messages:send"
	auth := func(v string) func(*http.Request) { return func(r *http.Request) { r.Header.Set("Authorization", v) } }
	do := func(edit func(*http.Request)) answerOf {
		return c.do(path, "application/json", `{"message":`+hello("")+`}`, edit)
	}
	const fcmDetail, badDetail = `"errorCode":"INVALID_ARGUMENT"`, `"fieldViolations"`
	for name, test := range map[string]struct {
		got    answerOf
		status int
		words  []string
	}{
		"no token":           {do(func(r *http.Request) { r.Header.Del("Authorization") }), 401, []string{`"status":"UNAUTHENTICATED"`}},
		"basic":              {do(auth("Basic abc")), 401, []string{`"status":"UNAUTHENTICATED"`}},
		"another's token":    {do(auth("Bearer ya29.other")), 401, []string{`"status":"UNAUTHENTICATED"`}},
		"other project":      {c.do("/v1/projects/other/messages:send", "application/json", `{"message":`+hello("")+`}`, nil), 403, []string{`"status":"PERMISSION_DENIED"`}},
		"other path":         {c.do("/v1/projects/x/messages", "application/json", `{}`, nil), 404, []string{"<html>"}},
		"get":                {do(func(r *http.Request) { r.Method, r.Body, r.ContentLength = http.MethodGet, nil, 0 }), 404, []string{"<html>"}},
		"no JSON":            {c.do(path, "application/json", `{"message":`, nil), 400, []string{badDetail}},
		"no target":          {c.send(`{"notification":{"title":"T"}}`), 400, []string{"Recipient of the message is not set.", fcmDetail}},
		"two targets":        {c.send(hello(`,"topic":"news"`)), 400, []string{"oneof field 'target' is already set", badDetail}},
		"bad token":          {c.send(`{"token":"short"}`), 400, []string{"The registration token is not a valid FCM registration token", fcmDetail}},
		"token is a number":  {c.send(`{"token":7}`), 400, []string{"(TYPE_STRING), 7", badDetail}},
		"number in data":     {c.send(hello(`,"data":{"a":12}`)), 400, []string{"Invalid value at 'message.data[0].value' (TYPE_STRING), 12", badDetail}},
		"object in data":     {c.send(hello(`,"data":{"a":"x","b":{}}`)), 400, []string{"message.data[1].value", badDetail}},
		"data is a list":     {c.send(hello(`,"data":[]`)), 400, []string{"Invalid value at 'message.data'", badDetail}},
		"from":               {c.send(hello(`,"data":{"from":"x"}`)), 400, []string{"Invalid data payload key: from", fcmDetail}},
		"gcm":                {c.send(hello(`,"data":{"gcm.x":"x"}`)), 400, []string{"Invalid data payload key: gcm.x", fcmDetail}},
		"google":             {c.send(hello(`,"data":{"google.x":"x"}`)), 400, []string{"Invalid data payload key: google.x", fcmDetail}},
		"unknown name":       {c.send(hello(`,"colour":"red"`)), 400, []string{`Unknown name \"colour\" at 'message'`, badDetail}},
		"unknown name below": {c.send(hello(`,"android":{"notification":{"titel":"x"}}`)), 400, []string{"message.android.notification", badDetail}},
		"ttl of five weeks":  {c.send(hello(`,"android":{"ttl":"3024000s"}`)), 400, []string{"Invalid TTL", fcmDetail}},
		"ttl below zero":     {c.send(hello(`,"android":{"ttl":"-1s"}`)), 400, []string{"Invalid TTL", fcmDetail}},
		"ttl without unit":   {c.send(hello(`,"android":{"ttl":"60"}`)), 400, []string{"Invalid TTL", fcmDetail}},
		"priority":           {c.send(hello(`,"android":{"priority":"urgent"}`)), 400, []string{"message.android.priority", badDetail}},
		"plain link":         {c.send(hello(`,"webpush":{"fcm_options":{"link":"http://example.com"}}`)), 400, []string{"HTTPS", badDetail}},
		"4097 bytes":         {c.send(sized(4097)), 400, []string{"Android message is too big", fcmDetail}},
		"2049 to a topic":    {c.send(strings.Replace(sized(2049), `"token":"`+registration+`"`, `"topic":"news"`, 1)), 400, []string{"too big", fcmDetail}},
		"70 kB":              {c.send(sized(70 << 10)), 400, []string{"exceeds the limit"}},
	} {
		if test.got.Err != nil || test.got.Status != test.status {
			t.Errorf("%s: got %+v, want %d", name, test.got, test.status)
		}
		for _, words := range test.words {
			if !strings.Contains(test.got.Body, words) {
				t.Errorf("%s: got %s, want %s in it", name, test.got.Body, words)
			}
		}
	}
	for _, e := range s.Effects() {
		if e.TookEffect {
			t.Errorf("a refused message took effect: %+v", e)
		}
	}
}

// sized is a message whose keys and values have n bytes.
func sized(n int) string {
	const frame = len("title") + len("Hello") + len("k")
	return hello(`,"data":{"k":"` + strings.Repeat("x", n-frame) + `"}`)
}

func TestFCM_Takes(t *testing.T) {
	t.Parallel()
	s := start(t)
	c := newFCMClient(t, s, true)
	for name, message := range map[string]string{
		"the limit":      sized(4096),
		"camel case":     hello(`,"android":{"collapseKey":"c","notification":{"notificationCount":3}},"fcmOptions":{"analyticsLabel":"x"}`),
		"apple":          hello(`,"apns":{"headers":{"apns-priority":"5"},"payload":{"aps":{"badge":3},"anything":[1]}}`),
		"four weeks":     hello(`,"android":{"ttl":"2419200s","priority":"HIGH"}`),
		"a topic":        `{"topic":"news","notification":{"title":"Hello"}}`,
		"nothing at all": `{"token":"` + registration + `"}`,
	} {
		if got := c.send(message); got.Err != nil || got.Status != 200 || !strings.Contains(got.Body, `"name":"projects/`+s.fcm.project+`/messages/0:`) {
			t.Errorf("%s: got %+v, want 200", name, got)
		}
	}
}

// The line holds what the message was about, and a hash that the rest of the
// time to live does not change.
func TestFCM_LogsAndCollapses(t *testing.T) {
	t.Parallel()
	s := start(t)
	c := newFCMClient(t, s, true)
	message := func(ttl, tag string) string {
		return hello(`,"data":{"notifier_id":"e1"},"android":{"ttl":"` + ttl + `","notification":{"tag":"` + tag + `"}},"webpush":{"headers":{"TTL":"` + ttl[:2] + `","Urgency":"high"}}`)
	}
	for _, m := range []string{message("60s", "order-42"), message("50s", "order-42"), message("50s", "order-43")} {
		if got := c.send(m); got.Status != 200 {
			t.Fatalf("got %+v", got)
		}
	}
	dry := c.do("/v1/projects/"+s.fcm.project+"/messages:send", "application/json", `{"validate_only":true,"message":`+hello("")+`}`, nil)
	if dry.Status != 200 || !strings.Contains(dry.Body, "fake_message_id") {
		t.Errorf("dry run: got %+v", dry)
	}
	all := s.Effects()
	if len(all) != 4 {
		t.Fatalf("the log has %d lines, want 4", len(all))
	}
	e := all[0]
	want := Entry{Time: e.Time, Channel: "fcm", Account: s.fcm.project, Address: registration, Delivery: "dlv_1", Fence: 3, EffectKey: "e1",
		CollapseID: "order-42", BodyHash: e.BodyHash, Title: "Hello", Answer: "200", TookEffect: true, MayTakeEffect: true}
	if e != want || e.BodyHash != all[1].BodyHash || e.BodyHash == all[2].BodyHash {
		t.Errorf("got %+v, then %s and %s, want %+v and the same hash twice", e, all[1].BodyHash, all[2].BodyHash, want)
	}
	if all[3].TookEffect || all[3].MayTakeEffect {
		t.Errorf("a dry run took effect: %+v", all[3])
	}
	inbox := s.Inbox()
	if len(inbox) != 2 || inbox[0].Alerts != 2 || inbox[1].CollapseID != "order-43" {
		t.Errorf("the device shows %+v, want two, the first of which rang twice", inbox)
	}
}

func TestFCM_Faults(t *testing.T) {
	t.Parallel()
	yes := true
	for _, h2 := range []bool{true, false} {
		for _, tt := range []struct {
			name      string
			fault     Fault
			status    int
			body      string // what it contains
			answer    string // of the log; empty: no line
			took, may bool
		}{
			{"delay", Fault{Kind: FaultDelay, Delay: time.Millisecond}, 200, `"name"`, "200", true, true},
			{"drop_reply", Fault{Kind: FaultDropReply}, 0, "", "none", true, true},
			{"drop_before", Fault{Kind: FaultDropBefore}, 0, "", "", false, false},
			{"truncate", Fault{Kind: FaultTruncate}, 200, "", "200 truncated", true, true},
			{"500", Fault{Kind: FaultStatus, Status: 500, Reason: "INTERNAL"}, 500, `"errorCode":"INTERNAL"`, "500 INTERNAL", false, true},
			{"503 delivered", Fault{Kind: FaultStatus, Status: 503, Reason: "UNAVAILABLE", RetryAfter: "7", Effect: &yes}, 503, `"errorCode":"UNAVAILABLE"`, "503 UNAVAILABLE", true, true},
			{"502 HTML", Fault{Kind: FaultStatus, Status: 502, HTML: true}, 502, "<html>", "502", false, true},
			{"429", Fault{Kind: FaultStatus, Status: 429, Reason: "QUOTA_EXCEEDED"}, 429, `"status":"RESOURCE_EXHAUSTED"`, "429 QUOTA_EXCEEDED", false, false},
			{"401", Fault{Kind: FaultStatus, Status: 401, Reason: "UNAUTHENTICATED"}, 401, `"status":"UNAUTHENTICATED"`, "401 UNAUTHENTICATED", false, false},
			{"other sender", Fault{Kind: FaultStatus, Status: 403, Reason: "SENDER_ID_MISMATCH"}, 403, `"errorCode":"SENDER_ID_MISMATCH"`, "403 SENDER_ID_MISMATCH", false, true},
			{"403", Fault{Kind: FaultStatus, Status: 403, Reason: "PERMISSION_DENIED"}, 403, `"status":"PERMISSION_DENIED"`, "403 PERMISSION_DENIED", false, false},
			{"redirect", Fault{Kind: FaultRedirect}, 307, "", "307", false, true},
			{"dead", Fault{Kind: FaultDeadToken, Address: registration}, 404, `"errorCode":"UNREGISTERED"`, "404 UNREGISTERED", false, true},
			{"of another device", Fault{Kind: FaultDeadToken, Address: registration + "x"}, 200, `"name"`, "200", true, true},
			{"of a delivery", Fault{Kind: FaultDeadToken, Delivery: "dlv_1"}, 404, "", "404 UNREGISTERED", false, true},
		} {
			t.Run(fmt.Sprintf("%s, h2 %v", tt.name, h2), func(t *testing.T) {
				t.Parallel()
				s := start(t)
				c := newFCMClient(t, s, h2)
				tt.fault.Channel = "fcm"
				s.SetFaults([]Fault{tt.fault})
				got := c.send(hello(""))
				if got.Status != tt.status || !strings.Contains(got.Body, tt.body) || got.Header.Get("Retry-After") != tt.fault.RetryAfter {
					t.Errorf("got %+v", got)
				}
				if tt.fault.Kind == FaultTruncate && got.Err == nil {
					t.Errorf("the answer is whole: %+v", got)
				}
				if tt.answer == "" {
					if all := s.Effects(); len(all) != 0 {
						t.Errorf("got log lines %+v, want none", all)
					}
					return
				}
				if e := only(t, s); e.Answer != tt.answer || e.TookEffect != tt.took || e.MayTakeEffect != tt.may {
					t.Errorf("log: got %+v, want answer %q, took %v, may %v", e, tt.answer, tt.took, tt.may)
				}
			})
		}
	}
}

// A folder that an earlier version made gets what it lacks, and keeps the rest.
func TestInit_AddsTheServiceAccount(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first, err := Init(dir, Config{})
	if err != nil {
		t.Fatal(err)
	}
	old, err := readSettings(dir)
	if err != nil {
		t.Fatal(err)
	}
	old.FCMCredentialsFile, old.FCMProject = "", ""
	if _, err := old.save(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(first.FCMCredentialsFile); err != nil {
		t.Fatal(err)
	}
	again, err := Init(dir, Config{})
	if err != nil || again != first {
		t.Errorf("got %+v, %v, want %+v", again, err, first)
	}
	account, err := readAccount(again.FCMCredentialsFile, DefaultFCM)
	if err != nil || account.TokenURI != "https://"+DefaultFCM+"/token" {
		t.Errorf("the account has the token endpoint %q: %v", account.TokenURI, err)
	}
}
