package fcm

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-4b260dfd/notifier"
	"github.com/seed-4b260dfd/notifier/channels"
)

// provider is a loopback server: a token endpoint, and an API that keeps what it
// was sent and answers as the test says.
type provider struct {
	*httptest.Server
	grants atomic.Int32 // tokens given out: ya29.1, ya29.2, …

	mu       sync.Mutex
	requests []*http.Request
	bodies   []string
}

// serveGoogle answers a request for a token with grant, or where that is nil
// with a token.
func serveGoogle(t *testing.T, answer, grant http.HandlerFunc) *provider {
	t.Helper()
	g := &provider{}
	if grant == nil {
		grant = func(w http.ResponseWriter, _ *http.Request) { g.give(w) }
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /token", grant)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		g.mu.Lock()
		g.requests, g.bodies = append(g.requests, r), append(g.bodies, string(body))
		g.mu.Unlock()
		answer(w, r)
	})
	g.Server = httptest.NewUnstartedServer(mux)
	g.EnableHTTP2 = true
	g.Config.ErrorLog = log.New(io.Discard, "", 0)
	g.StartTLS()
	t.Cleanup(g.Close)
	return g
}

func (g *provider) give(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"access_token":"ya29.%d","expires_in":3599,"token_type":"Bearer"}`, g.grants.Add(1))
}

func (g *provider) received() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.requests)
}

func taken(w http.ResponseWriter, _ *http.Request) {
	io.WriteString(w, `{"name":"projects/demo-shop/messages/0:1"}`)
}

// account is a key file for the server; change spoils it.
func (g *provider) account(t *testing.T, change map[string]any) string {
	t.Helper()
	url := "https://oauth2.googleapis.com"
	if g != nil {
		url = g.URL
	}
	key, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	file := map[string]any{"type": "service_account", "project_id": "demo-shop", "private_key_id": "k1", "client_email": "n@demo-shop.iam.gserviceaccount.com",
		"private_key": string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})), "token_uri": url + "/token"}
	for name, value := range change {
		file[name] = value
	}
	b, err := json.Marshal(file)
	if err != nil {
		t.Fatal(err)
	}
	return writeFile(t, b)
}

func writeFile(t *testing.T, b []byte) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(name, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func (g *provider) sender(t *testing.T) *Sender {
	t.Helper()
	ca := writeFile(t, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: g.Certificate().Raw}))
	s, err := New(Config{AccountConfig: channels.AccountConfig{Endpoint: g.URL, AllowPrivate: true, CAFile: ca}, CredentialsFile: g.account(t, nil)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func newDelivery(t *testing.T) *notifier.Delivery {
	t.Helper()
	token := "fGh:APA91b" + strings.Repeat("x", 140)
	return &notifier.Delivery{
		ID:         notifier.DeliveryID{Notification: notifier.NewID(time.Unix(1764553976, 0), 1, [8]byte{1}), Ordinal: 2},
		Type:       "order_shipped",
		Address:    notifier.Address{Value: token},
		Content:    prepared(t, map[string]any{"title": "<&>", "body": "語🎉\u2028"}),
		CollapseID: "order-42",
		EffectKey:  notifier.EffectKey("t", "k", notifier.ChannelFCM, token),
		ExpiresAt:  time.Now().Add(time.Hour),
	}
}

// send makes an attempt; nothing under it may try a second request.
func send(t *testing.T, s *Sender, d *notifier.Delivery) channels.Result {
	t.Helper()
	g := &channels.Guard{}
	r := s.Send(t.Context(), &channels.Call{Delivery: d, Fence: 3, Guard: g})
	if g.HiddenResend() {
		t.Error("something tried to send a second time")
	}
	return r
}
