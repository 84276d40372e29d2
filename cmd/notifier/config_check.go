package main

import (
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/seed-4b260dfd/notifier"
	"github.com/seed-4b260dfd/notifier/ledger/postgres"
	"github.com/seed-4b260dfd/notifier/redisscript"
	"github.com/seed-4b260dfd/notifier/strictyaml"
)

// accountName is what an account may be called: it is a metric's label.
var accountName = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,63}$`)

// configChecker gathers what is wrong with the values of a configuration.
type configChecker struct {
	*config
	problems []strictyaml.Problem
}

func (c *configChecker) bad(path []any, format string, args ...any) {
	c.problems = append(c.problems, c.doc.Problem(path, "%s: %s", strictyaml.Path(path...), fmt.Sprintf(format, args...)))
}

func at(path ...any) []any { return path }

func (c *config) check() []strictyaml.Problem {
	k := &configChecker{config: c}
	k.notYet()
	k.listen()
	k.stores()
	k.log()
	k.accounts()
	k.keys()
	return k.problems
}

// notYet refuses by name what is written and not honoured. A value that is
// empty says what holds anyway.
func (c *configChecker) notYet() {
	for _, f := range []struct {
		path  []any
		value any
	}{
		{at("listen", "grpc"), c.Listen.GRPC}, {at("listen", "admin"), c.Listen.Admin},
		{at("tls", "cert_file"), c.TLS.CertFile}, {at("tls", "key_file"), c.TLS.KeyFile}, {at("tls", "client_ca_file"), c.TLS.ClientCAFile},
		{at("public_url"), c.PublicURL}, {at("retention", "content"), c.Retention.Content}, {at("seal_keys"), c.SealKeys}, {at("only"), c.Only},
		{at("tenants"), c.Tenants},
	} {
		if !empty(f.value) {
			c.bad(f.path, "not supported yet; leave it out")
		}
	}
}

func empty(v any) bool {
	r := reflect.ValueOf(v)
	switch r.Kind() {
	case reflect.Invalid:
		return true
	case reflect.String, reflect.Slice, reflect.Map:
		return r.Len() == 0
	default:
		return false
	}
}

func (c *configChecker) listen() {
	path := at("listen", "http")
	host, port, err := net.SplitHostPort(c.Listen.HTTP)
	if n, bad := strconv.ParseUint(port, 10, 16); err != nil || bad != nil || n > 65535 {
		c.bad(path, "%q is not an address to listen on; allowed: host:port, such as 127.0.0.1:8080", c.Listen.HTTP)
		return
	}
	if len(c.APIKeys) == 0 && !loopback(host) {
		c.bad(path, "%s is open to others and there are no api_keys; add api_keys, or listen on 127.0.0.1", c.Listen.HTTP)
	}
}

// loopback reports whether a host can be reached from this machine only.
func loopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.Unmap().IsLoopback()
}

// stores checks ledger and claims. Their values may hold passwords and are not shown.
func (c *configChecker) stores() {
	scheme, _, _ := strings.Cut(c.Ledger, ":")
	shared := scheme == "postgres" || scheme == "postgresql"
	switch {
	case c.ledger != "":
	case shared:
		if err := postgres.CheckURL(c.Ledger); err != nil {
			c.bad(at("ledger"), "%v", err)
		}
	default:
		c.bad(at("ledger"), "not a ledger; allowed: sqlite:PATH, such as sqlite:notifier.db, or postgres://user:password@host/database")
	}
	c.claims(shared)
	c.retention(shared)
	for _, f := range []struct{ name, value string }{{"policies", c.Policies}, {"templates", c.Templates}} {
		if f.value == "" {
			c.bad(at(f.name), "must name a folder, such as %s", f.name)
		}
	}
}

// claims checks the store of claims and caps: nodes that share a ledger share
// it, and a process that has its ledger to itself keeps them in memory.
func (c *configChecker) claims(shared bool) {
	scheme, _, _ := strings.Cut(c.Claims, ":")
	memory, inRedis := c.Claims == "memory", strings.HasPrefix(scheme, "redis")
	switch {
	case memory && shared:
		c.bad(at("claims"), "memory goes with SQLite; a Postgres ledger is shared, and so must be its claims: redis://host:6379/0")
	case inRedis && c.ledger != "":
		c.bad(at("claims"), "redis goes with a Postgres ledger; a SQLite ledger belongs to one process: memory")
	case inRedis:
		client, err := redisscript.Open(c.Claims)
		if err != nil {
			c.bad(at("claims"), "%v", err)
			return
		}
		_ = client.Close() // it holds no connection yet
	case !memory:
		c.bad(at("claims"), "not a store for claims; allowed: memory, or with Postgres redis://, rediss://, redis+sentinel:// and redis+cluster://")
	}
}

// recordsByDefault is how long records are kept where nothing is said.
const recordsByDefault = 2160 * time.Hour

func (c *configChecker) retention(shared bool) {
	c.recordsKept = recordsByDefault
	if c.Retention.Records == "" {
		return
	}
	path := at("retention", "records")
	if !shared {
		c.bad(path, "not supported yet with a SQLite ledger; leave it out")
		return
	}
	d, err := time.ParseDuration(c.Retention.Records)
	if err != nil || d < 24*time.Hour {
		c.bad(path, "%q is not how long; allowed: a duration of a day at least, such as 2160h", c.Retention.Records)
		return
	}
	c.recordsKept = d
}

func (c *configChecker) log() {
	if _, err := c.logLevel(); err != nil {
		c.bad(at("log", "level"), "%q is not a level; allowed: debug, info, warn, error", c.Log.Level)
	}
	if c.Log.Format != "json" && c.Log.Format != "text" {
		c.bad(at("log", "format"), "%q is not a format; allowed: json, text", c.Log.Format)
	}
}

func (c *config) logLevel() (slog.Level, error) {
	switch c.Log.Level {
	case "debug":
		return slog.LevelDebug, nil
	case "info":
		return slog.LevelInfo, nil
	case "warn":
		return slog.LevelWarn, nil
	case "error":
		return slog.LevelError, nil
	default:
		return 0, fmt.Errorf("level %q is not known", c.Log.Level)
	}
}

// accounts checks every account, and opens it, which finds key files that
// cannot be used. Nothing is sent by that.
func (c *configChecker) accounts() {
	for _, w := range c.Channels.wired() {
		for _, name := range w.names() {
			path := at("channels", string(w.kind.Channel()), name)
			if !accountName.MatchString(name) {
				c.bad(path, "not a name for an account; allowed: a-z, 0-9, - and _, at most 64")
			}
			a := w.accounts[name]
			wrong := a.validate()
			for _, e := range wrong {
				c.bad(append(path, fieldPath(e.Field)...), "%s", e.Message)
			}
			if len(wrong) > 0 {
				continue
			}
			ch, err := a.open()
			if err != nil {
				c.bad(path, "%v", err)
				continue
			}
			// It was opened to see whether it can be; it holds no connection yet.
			_ = ch.Close()
		}
	}
}

func (c *configChecker) keys() {
	names, hashes := map[string]bool{}, map[string]bool{}
	for i, k := range c.APIKeys {
		for _, err := range k.Problems() {
			path := at("api_keys", i)
			message := err.Error()
			if e, ok := err.(*notifier.Error); ok {
				path, message = append(path, fieldPath(e.Field)...), e.Message
			}
			c.bad(path, "%s", message)
		}
		if k.Name != "" && names[k.Name] {
			c.bad(at("api_keys", i, "name"), "%q is there twice; each key has a name of its own", k.Name)
		}
		if k.SHA256 != "" && hashes[k.SHA256] {
			c.bad(at("api_keys", i, "sha256"), "the same key is there twice")
		}
		names[k.Name], hashes[k.SHA256] = true, true
	}
}

var pathStep = regexp.MustCompile(`\[(\d+)\]|[^.\[\]]+`)

// fieldPath turns "secrets.default[1]" into the steps of a path.
func fieldPath(field string) []any {
	var path []any
	for _, m := range pathStep.FindAllStringSubmatch(field, -1) {
		if n, err := strconv.Atoi(m[1]); m[1] != "" && err == nil {
			path = append(path, n)
			continue
		}
		path = append(path, m[0])
	}
	return path
}
