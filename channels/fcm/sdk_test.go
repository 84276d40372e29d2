package fcm_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"os"
	"strings"
	"testing"

	firebase "firebase.google.com/go/v4"
	"firebase.google.com/go/v4/messaging"
	"golang.org/x/oauth2"
	"golang.org/x/oauth2/google"
	"google.golang.org/api/option"

	"github.com/seed-4b260dfd/notifier/channels/simulate"
)

// plainSDK is the SDK as others use it: its own retries, its own transport,
// credentials from the simulator's file. h2 says which HTTP it speaks.
func plainSDK(t *testing.T, s *simulate.Server, h2 bool) *messaging.Client {
	t.Helper()
	pem, err := os.ReadFile(s.CAFile())
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)
	tr := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, ForceAttemptHTTP2: h2}
	t.Cleanup(tr.CloseIdleConnections)
	key, err := os.ReadFile(s.Files().FCMCredentialsFile)
	if err != nil {
		t.Fatal(err)
	}
	conf, err := google.JWTConfigFromJSON(key, "https://www.googleapis.com/auth/cloud-platform")
	if err != nil {
		t.Fatal(err)
	}
	hc := conf.Client(context.WithValue(t.Context(), oauth2.HTTPClient, &http.Client{Transport: tr}))
	app, err := firebase.NewApp(t.Context(), &firebase.Config{ProjectID: s.Files().FCMProject}, option.WithHTTPClient(hc), option.WithEndpoint(s.FCMURL()+"/v1"))
	if err != nil {
		t.Fatal(err)
	}
	client, err := app.Messaging(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func startSimulator(t *testing.T) *simulate.Server {
	t.Helper()
	s, err := simulate.Start(simulate.Config{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// An SDK of default settings sends to the simulator, reads its errors as
// Google's, and repeats as it would with Google.
func TestSimulator_PlainSDK(t *testing.T) {
	t.Parallel()
	for name, h2 := range map[string]bool{"HTTP/2": true, "HTTP/1.1": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := startSimulator(t)
			c := plainSDK(t, s, h2)
			token := address(s, 1).Value
			send := func(m *messaging.Message) (string, error) { return c.Send(t.Context(), m) }
			hello := &messaging.Message{Token: token, Notification: &messaging.Notification{Title: "Hello"}, Data: map[string]string{"a": "1"}}
			id, err := send(hello)
			if err != nil || !strings.HasPrefix(id, "projects/"+s.Files().FCMProject+"/messages/0:") {
				t.Fatalf("got %q, %v", id, err)
			}
			if id, err := c.SendDryRun(t.Context(), hello); err != nil || !strings.HasSuffix(id, "/fake_message_id") {
				t.Errorf("dry run: got %q, %v", id, err)
			}
			for _, test := range []struct {
				name  string
				fault *simulate.Fault
				m     *messaging.Message
				is    func(error) bool
			}{
				{"unregistered", &simulate.Fault{Kind: simulate.FaultDeadToken}, hello, messaging.IsUnregistered},
				{"other sender", &simulate.Fault{Kind: simulate.FaultStatus, Status: 403, Reason: "SENDER_ID_MISMATCH"}, hello, messaging.IsSenderIDMismatch},
				{"quota", &simulate.Fault{Kind: simulate.FaultStatus, Status: 429, Reason: "QUOTA_EXCEEDED"}, hello, messaging.IsQuotaExceeded},
				{"internal", &simulate.Fault{Kind: simulate.FaultStatus, Status: 500, Reason: "INTERNAL"}, hello, messaging.IsInternal},
				{"apns key", &simulate.Fault{Kind: simulate.FaultStatus, Status: 401, Reason: "THIRD_PARTY_AUTH_ERROR"}, hello, messaging.IsThirdPartyAuthError},
				{"bad token", nil, &messaging.Message{Token: "short"}, messaging.IsInvalidArgument},
				{"reserved key", nil, &messaging.Message{Token: token, Data: map[string]string{"from": "x"}}, messaging.IsInvalidArgument},
				{"too big", nil, &messaging.Message{Token: token, Data: map[string]string{"k": strings.Repeat("x", 4096)}}, messaging.IsInvalidArgument},
			} {
				s.SetFaults(nil)
				if test.fault != nil {
					f := *test.fault
					f.Channel = "fcm"
					s.SetFaults([]simulate.Fault{f})
				}
				if _, err := send(test.m); !test.is(err) {
					t.Errorf("%s: got %v", test.name, err)
				}
			}
			before := len(s.Effects())
			s.SetFaults([]simulate.Fault{{Channel: "fcm", Kind: simulate.FaultDropReply, Times: 1}})
			if _, err := send(hello); err != nil {
				t.Errorf("after a lost reply: %v", err)
			}
			if got := len(s.Effects()) - before; got != 2 {
				t.Errorf("the SDK made %d requests after a lost reply, want 2: it repeats by itself", got)
			}
			took := 0
			for _, e := range s.Effects() {
				if e.TookEffect {
					took++
				}
			}
			if took != 3 { // the first, and the last one twice
				t.Errorf("%d messages took effect, want 3", took)
			}
		})
	}
}
