package api

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/seed-4b260dfd/notifier"
)

// secretKey is the key that callers present as name.
func secretKey(name, tenant string, scopes []Scope, types ...string) Key {
	sum := sha256.Sum256([]byte("nk_" + name))
	return Key{Name: name, Tenant: tenant, Scopes: scopes, Types: types, SHA256: hex.EncodeToString(sum[:])}
}

func withKeys(c *Config) {
	c.Metrics = promhttp.Handler()
	c.Keys = []Key{
		secretKey("all", "shop", []Scope{ScopeSend, ScopeRead}),
		secretKey("send", "shop", []Scope{ScopeSend}),
		secretKey("read", "shop", []Scope{ScopeRead}),
		secretKey("orders", "shop", []Scope{ScopeSend, ScopeRead}, "order_*", "invoice"),
		secretKey("other", "bank", []Scope{ScopeSend, ScopeRead}),
		secretKey("operate", "shop", []Scope{ScopeOperate}),
		{Name: "broken", Tenant: "shop", Scopes: []Scope{ScopeSend}, SHA256: "zz"},
	}
}

func bearer(name string) []string { return []string{"Authorization", "Bearer nk_" + name} }

func TestAuth_Scopes(t *testing.T) {
	t.Parallel()
	s := newService(withKeys)
	first := s.do("POST", "/v1/notifications", shipped, append(bearer("all"), keyHeader, "k")...)
	at := first.Header().Get("Location")
	wantNotification(t, first, http.StatusAccepted)
	if s.last.Tenant != "shop" {
		t.Errorf("got tenant %q, want shop", s.last.Tenant)
	}
	for _, tc := range []struct {
		key, method, path, body string
		status                  int
		code                    notifier.Code
		field                   string
	}{
		{"send", "GET", at, "", 403, notifier.CodeForbidden, "Authorization"},
		{"send", "GET", "/v1/notifications?key=k", "", 403, notifier.CodeForbidden, "Authorization"},
		{"read", "POST", "/v1/notifications", shipped, 403, notifier.CodeForbidden, "Authorization"},
		{"operate", "GET", at, "", 403, notifier.CodeForbidden, "Authorization"},
		{"orders", "POST", "/v1/notifications", strings.Replace(shipped, "order_shipped", "login_code", 1), 403, notifier.CodeForbidden, "type"},
		{"orders", "POST", "/v1/notifications", strings.Replace(shipped, "order_shipped", "invoice2", 1), 403, notifier.CodeForbidden, "type"},
		{"other", "GET", at, "", 404, notifier.CodeNotFound, "id"},
		{"nobody", "GET", at, "", 401, notifier.CodeUnauthenticated, "Authorization"},
		{"all", "GET", "/metrics", "", 403, notifier.CodeForbidden, "Authorization"},
	} {
		w := s.do(tc.method, tc.path, tc.body, append(bearer(tc.key), keyHeader, "k2")...)
		wantProblem(t, w, tc.status, tc.code, tc.field)
	}
	for _, key := range []string{"read", "orders", "all"} {
		wantNotification(t, s.do("GET", at, "", bearer(key)...), http.StatusOK)
	}
	wantNotification(t, s.do("POST", "/v1/notifications", shipped, append(bearer("send"), keyHeader, "k")...), http.StatusOK)
	if w := s.do("GET", "/metrics", "", bearer("operate")...); w.Code != http.StatusOK {
		t.Errorf("metrics: got %d", w.Code)
	}
}

// Keys are scoped by tenant: the same key of two tenants is two notifications.
func TestAuth_Tenants(t *testing.T) {
	t.Parallel()
	s := newService(withKeys)
	a := wantNotification(t, s.do("POST", "/v1/notifications", shipped, append(bearer("all"), keyHeader, "k")...), http.StatusAccepted)
	b := wantNotification(t, s.do("POST", "/v1/notifications", shipped, append(bearer("other"), keyHeader, "k")...), http.StatusAccepted)
	if a.ID == b.ID {
		t.Error("two tenants share a notification")
	}
	got := s.do("GET", "/v1/notifications?key=k", "", bearer("other")...).Body.String()
	if !strings.Contains(got, b.ID.String()) || strings.Contains(got, a.ID.String()) {
		t.Errorf("the tenant bank sees %s, want %s only", got, b.ID)
	}
}

// A key for some types does not see the others.
func TestAuth_TypesOnRead(t *testing.T) {
	t.Parallel()
	s := newService(withKeys)
	body := strings.Replace(shipped, "order_shipped", "login_code", 1)
	w := s.do("POST", "/v1/notifications", body, append(bearer("all"), keyHeader, "k")...)
	wantProblem(t, s.do("GET", w.Header().Get("Location"), "", bearer("orders")...), 403, notifier.CodeForbidden, "type")
	if got := s.do("GET", "/v1/notifications?key=k", "", bearer("orders")...).Body.String(); got != `{"notifications":[],"next_cursor":""}` {
		t.Errorf("got %s", got)
	}
}

func TestAuth_Header(t *testing.T) {
	t.Parallel()
	s := newService(withKeys)
	for _, values := range [][]string{nil, {""}, {"Bearer"}, {"Bearer "}, {"Basic nk_all"}, {"nk_all"}, {"Bearer nk_all extra"}, {"Bearer nk_al"},
		{"Bearer zz"}, {"Bearer nk_all", "Bearer nk_all"}} {
		var headers []string
		for _, v := range values {
			headers = append(headers, "Authorization", v)
		}
		w := s.do("GET", "/v1/notifications?key=k", "", headers...)
		wantProblem(t, w, http.StatusUnauthorized, notifier.CodeUnauthenticated, "Authorization")
		if w.Header().Get("WWW-Authenticate") != "Bearer" {
			t.Errorf("%q: got no challenge", values)
		}
	}
	for _, v := range []string{"Bearer nk_all", "bearer nk_all", "BEARER  nk_all"} {
		if got := s.do("GET", "/v1/notifications?key=k", "", "Authorization", v).Code; got != http.StatusOK {
			t.Errorf("%q: got %d", v, got)
		}
	}
}

func TestHost_LoopbackOnlyWithoutKeys(t *testing.T) {
	t.Parallel()
	open, keyed := newService(), newService(withKeys)
	for _, tc := range []struct {
		host string
		ok   bool
	}{
		{"localhost", true}, {"LOCALHOST:8080", true}, {"127.0.0.1", true}, {"127.0.0.1:8080", true}, {"127.9.9.9:1", true},
		{"[::1]", true}, {"[::1]:8080", true}, {"[::ffff:127.0.0.1]:80", true},
		{"example.com", false}, {"example.com:8080", false}, {"localhost.example.com", false}, {"127.0.0.1.example.com", false},
		{"10.0.0.1", false}, {"0.0.0.0:8080", false}, {"[::]:8080", false}, {"", false}, {"2130706433", false}, {"localhost:80:80", false},
	} {
		for _, path := range []string{"/v1/notifications?key=k", "/healthz", "/none"} {
			w := open.do("GET", path, "", "Host", tc.host)
			if tc.ok {
				if w.Code == http.StatusForbidden {
					t.Errorf("%q is refused at %s", tc.host, path)
				}
				continue
			}
			wantProblem(t, w, http.StatusForbidden, notifier.CodeForbidden, "Host")
		}
		if got := keyed.do("GET", "/v1/notifications?key=k", "", append(bearer("read"), "Host", tc.host)...).Code; got != http.StatusOK {
			t.Errorf("with keys the host %q gets %d", tc.host, got)
		}
	}
}

func TestKey_Problems(t *testing.T) {
	t.Parallel()
	if all := secretKey("a", "b", []Scope{ScopeSend, ScopeRead, ScopeOperate}, "order_*").Problems(); all != nil {
		t.Errorf("a good key has the problems %v", all)
	}
	bad := Key{Scopes: []Scope{"send", "admin"}, Types: []string{"order_*", "[", ""}, SHA256: strings.Repeat("a", 63)}
	var got []string
	for _, err := range append(bad.Problems(), Key{Name: "a", Tenant: "b", SHA256: strings.Repeat("a", 64)}.Problems()...) {
		var e *notifier.Error
		if !errors.As(err, &e) {
			t.Fatalf("got %v", err)
		}
		got = append(got, e.Field)
	}
	if diff := cmp.Diff([]string{"name", "tenant", "scopes[1]", "types[1]", "types[2]", "sha256", "scopes"}, got); diff != "" {
		t.Errorf("fields (-want +got):\n%s", diff)
	}
}
