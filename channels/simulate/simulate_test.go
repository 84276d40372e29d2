//lint:file-ignore SA1019 golang.org/x/net/http2 is frozen in favour of net/http; as a raw client it sends once and shows GOAWAY.

package simulate

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"golang.org/x/net/http2"
)

// start runs a simulator in a folder of the test's own.
func start(t *testing.T) *Server {
	t.Helper()
	s, err := Start(Config{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return s
}

const deviceToken = "740f4707bebcf74f9b7c25d48e3358945f6aa01da5ddb387462c7eaf61bb78ad"

// apnsClient is a raw HTTP/2 client: nothing under it sends twice.
type apnsClient struct {
	t   testing.TB
	s   *Server
	tr  *http2.Transport
	jwt string
}

func newAPNsClient(t testing.TB, s *Server) *apnsClient {
	t.Helper()
	ca, err := os.ReadFile(s.CAFile())
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(ca) {
		t.Fatal("the CA file holds no certificate")
	}
	c := &apnsClient{t: t, s: s, tr: &http2.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}}
	t.Cleanup(c.tr.CloseIdleConnections)
	c.jwt = c.sign(s.Files().APNsKeyID, s.Files().APNsTeamID, time.Now())
	return c
}

func (c *apnsClient) sign(kid, iss string, iat time.Time) string {
	c.t.Helper()
	b, err := os.ReadFile(c.s.Files().APNsKeyFile)
	if err != nil {
		c.t.Fatal(err)
	}
	block, _ := pem.Decode(b)
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		c.t.Fatal(err)
	}
	enc := base64.RawURLEncoding
	signed := enc.EncodeToString(fmt.Appendf(nil, `{"alg":"ES256","kid":%q}`, kid)) + "." +
		enc.EncodeToString(fmt.Appendf(nil, `{"iss":%q,"iat":%d}`, iss, iat.Unix()))
	sum := sha256.Sum256([]byte(signed))
	r, s, err := ecdsa.Sign(rand.Reader, key.(*ecdsa.PrivateKey), sum[:])
	if err != nil {
		c.t.Fatal(err)
	}
	sig := make([]byte, 64)
	r.FillBytes(sig[:32])
	s.FillBytes(sig[32:])
	return signed + "." + enc.EncodeToString(sig)
}

// request is a push that the simulator takes, unless edit spoils it.
func (c *apnsClient) request(ctx context.Context, edit func(*http.Request)) *http.Request {
	c.t.Helper()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.s.APNsURL()+"/3/device/"+deviceToken,
		strings.NewReader(`{"aps":{"alert":{"title":"Hello"}}}`))
	if err != nil {
		c.t.Fatal(err)
	}
	r.GetBody = nil
	for k, v := range map[string]string{"authorization": "bearer " + c.jwt, "apns-topic": c.s.Files().APNsTopic,
		"apns-push-type": "alert", "apns-id": "00112233-4455-8677-8899-aabbccddeeff", "x-delivery": "dlv_1", "x-attempt": "3"} {
		r.Header.Set(k, v)
	}
	if edit != nil {
		edit(r)
	}
	return r
}

// answerOf is what a client saw: status, body, and the first error.
type answerOf struct {
	Status int
	Body   string
	Header http.Header
	Err    error
}

func (c *apnsClient) do(r *http.Request) answerOf {
	res, err := c.tr.RoundTrip(r)
	return read(res, err)
}

func read(res *http.Response, err error) answerOf {
	if err != nil {
		return answerOf{Err: err}
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	return answerOf{res.StatusCode, string(b), res.Header, err}
}

func reason(t *testing.T, body string) string {
	t.Helper()
	var v struct{ Reason string }
	if err := json.Unmarshal([]byte(body), &v); err != nil {
		t.Fatalf("body %q: %v", body, err)
	}
	return v.Reason
}

// hook posts a signed webhook.
func hook(t *testing.T, s *Server, path string, edit func(*http.Request)) answerOf {
	t.Helper()
	body := []byte(`{"event":"paid"}`)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.HTTPURL()+path, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.GetBody = nil
	signer, err := standardwebhooks.NewWebhook(s.Files().WebhookSecret)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	sig, err := signer.Sign("msg_1", now, body)
	if err != nil {
		t.Fatal(err)
	}
	for k, v := range map[string]string{"webhook-id": "msg_1", "webhook-timestamp": fmt.Sprint(now.Unix()), "webhook-signature": sig,
		"x-delivery": "dlv_1", "x-attempt": "3", "content-type": "application/json"} {
		r.Header.Set(k, v)
	}
	if edit != nil {
		edit(r)
	}
	c := &http.Client{Transport: &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	return read(c.Do(r))
}

func only(t *testing.T, s *Server) Entry {
	t.Helper()
	all := s.Effects()
	if len(all) != 1 {
		t.Fatalf("got %d log lines %+v, want 1", len(all), all)
	}
	return all[0]
}

func TestAPNs_AcceptsAPush(t *testing.T) {
	t.Parallel()
	s := start(t)
	c := newAPNsClient(t, s)
	got := c.do(c.request(t.Context(), func(r *http.Request) { r.Header.Set("apns-collapse-id", "order-42") }))
	if got.Err != nil || got.Status != 200 || got.Body != "" || got.Header.Get("apns-id") != "00112233-4455-8677-8899-aabbccddeeff" {
		t.Fatalf("got %+v", got)
	}
	e := only(t, s)
	e.Time, e.BodyHash = time.Time{}, ""
	want := Entry{Channel: "apns", Account: s.Files().APNsTopic, Address: deviceToken, Delivery: "dlv_1", Fence: 3,
		EffectKey: "00112233-4455-8677-8899-aabbccddeeff", CollapseID: "order-42", Title: "Hello", Answer: "200", TookEffect: true, MayTakeEffect: true}
	if e != want {
		t.Errorf("log: got %+v, want %+v", e, want)
	}
}

func TestWebhook_AcceptsASignedCall(t *testing.T) {
	t.Parallel()
	s := start(t)
	if got := hook(t, s, "/in", nil); got.Err != nil || got.Status != 200 {
		t.Fatalf("got %+v", got)
	}
	e := only(t, s)
	e.Time, e.BodyHash = time.Time{}, ""
	want := Entry{Channel: "webhook", Account: "default", Address: s.HTTPURL() + "/in", Delivery: "dlv_1", Fence: 3, EffectKey: "msg_1",
		Answer: "200", TookEffect: true, MayTakeEffect: true}
	if e != want {
		t.Errorf("log: got %+v, want %+v", e, want)
	}
}
