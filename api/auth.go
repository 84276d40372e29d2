package api

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"path"
	"slices"
	"strings"

	"github.com/seed-4b260dfd/notifier"
)

// Scope is what a key may be used for.
type Scope string

// The scopes.
const (
	ScopeSend    Scope = "send"
	ScopeRead    Scope = "read"
	ScopeOperate Scope = "operate"
)

// Key is an API key as the configuration holds it: the hash, not the secret.
type Key struct {
	Name   string  `yaml:"name"`
	Tenant string  `yaml:"tenant"`
	Scopes []Scope `yaml:"scopes"`
	// Types are patterns such as "order_*" of the message types that the key
	// may send and read; empty: all.
	Types []string `yaml:"types"`
	// SHA256 is the hex SHA-256 of the whole key as callers present it. A
	// fast hash is enough: keys are random, not chosen by people.
	SHA256 string `yaml:"sha256"`
}

// Problems returns what is wrong with the key, one *notifier.Error with its
// Field per mistake. A key with a wrong hash opens nothing.
func (k Key) Problems() []error {
	var all []error
	wrong := func(field, format string, args ...any) {
		all = append(all, &notifier.Error{Code: notifier.CodeInvalid, Field: field, Message: fmt.Sprintf(format, args...)})
	}
	if k.Name == "" {
		wrong("name", "a key needs a name")
	}
	if k.Tenant == "" {
		wrong("tenant", "a key needs a tenant")
	}
	if len(k.Scopes) == 0 {
		wrong("scopes", "a key needs one scope or more of send, read, operate")
	}
	for i, s := range k.Scopes {
		if s != ScopeSend && s != ScopeRead && s != ScopeOperate {
			wrong(fmt.Sprintf("scopes[%d]", i), "%q is none of the scopes send, read, operate", s)
		}
	}
	for i, p := range k.Types {
		if _, err := path.Match(p, ""); err != nil || p == "" {
			wrong(fmt.Sprintf("types[%d]", i), "%q is not a pattern such as order_*", p)
		}
	}
	if b, err := hex.DecodeString(k.SHA256); err != nil || len(b) != sha256.Size {
		wrong("sha256", "the hash of a key is %d hex digits", 2*sha256.Size)
	}
	return all
}

// caller is who a request comes from, and what it may do.
type caller struct {
	// name is that of the API key; without keys it says so.
	name   string
	tenant string
	scopes []Scope
	types  []string
}

// may returns an error unless the caller has the scope.
func (c *caller) may(s Scope) error {
	if slices.Contains(c.scopes, s) {
		return nil
	}
	has := make([]string, len(c.scopes))
	for i := range c.scopes {
		has[i] = string(c.scopes[i])
	}
	return &notifier.Error{Code: notifier.CodeForbidden, Field: authorization, Details: map[string]any{"scope": string(s)},
		Message: fmt.Sprintf("this takes an API key with the scope %s; this one has %s", s, allowedList(has))}
}

// mayType returns an error unless the caller may send and read the type.
func (c *caller) mayType(typ string) error {
	if len(c.types) == 0 {
		return nil
	}
	for _, p := range c.types {
		if ok, err := path.Match(p, typ); ok && err == nil {
			return nil
		}
	}
	return &notifier.Error{Code: notifier.CodeForbidden, Field: "type", Message: "this API key is not for this message type; it is for " + strings.Join(c.types, ", ")}
}

// lock is a key ready for comparing.
type lock struct {
	hash   [sha256.Size]byte
	caller caller
}

// locks leaves out keys whose hash cannot be read: they open nothing.
func locks(keys []Key) []lock {
	var out []lock
	for _, k := range keys {
		b, err := hex.DecodeString(k.SHA256)
		if err != nil || len(b) != sha256.Size {
			continue
		}
		out = append(out, lock{[sha256.Size]byte(b), caller{name: k.Name, tenant: k.Tenant, scopes: k.Scopes, types: k.Types}})
	}
	return out
}

// authenticate returns the request's caller. Without keys everybody who got
// past checkHost may do everything as DefaultTenant.
func (h *handler) authenticate(r *http.Request) (*caller, error) {
	if h.open {
		return &caller{name: "loopback", tenant: DefaultTenant, scopes: []Scope{ScopeSend, ScopeRead, ScopeOperate}}, nil
	}
	values := r.Header.Values(authorization)
	if len(values) != 1 {
		return nil, unauthenticated("send one header Authorization: Bearer <API key>")
	}
	scheme, token, _ := strings.Cut(values[0], " ")
	token = strings.TrimLeft(token, " ")
	if !strings.EqualFold(scheme, "Bearer") || token == "" {
		return nil, unauthenticated("send one header Authorization: Bearer <API key>")
	}
	// Every lock is tried, and each comparison takes the same time, so that
	// the time tells nothing about which hash was near.
	sum := sha256.Sum256([]byte(token))
	var found *caller
	for i := range h.locks {
		if subtle.ConstantTimeCompare(sum[:], h.locks[i].hash[:]) == 1 {
			found = &h.locks[i].caller
		}
	}
	if found == nil {
		return nil, unauthenticated("this API key is not known")
	}
	return found, nil
}

func unauthenticated(message string) error {
	return &notifier.Error{Code: notifier.CodeUnauthenticated, Field: authorization, Message: message}
}

// authorization is the header that says who calls (RFC 6750).
const authorization = "Authorization"

// checkHost refuses a foreign Host while there are no keys. A page in a
// browser can be made to reach 127.0.0.1 under a name of its own (DNS
// rebinding); the Host header gives it away.
func (h *handler) checkHost(r *http.Request) error {
	if !h.open || loopback(r.Host) {
		return nil
	}
	return &notifier.Error{Code: notifier.CodeForbidden, Field: "Host",
		Message: "without API keys only loopback is served: use localhost or 127.0.0.1, or configure api_keys"}
}

// loopback reports whether a Host header names this machine.
func loopback(host string) bool {
	name := host
	if n, _, err := net.SplitHostPort(host); err == nil {
		name = n
	} else {
		name = strings.TrimSuffix(strings.TrimPrefix(name, "["), "]")
	}
	if strings.EqualFold(name, "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(name)
	return err == nil && ip.Unmap().IsLoopback()
}
