package redisscript

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// The time-outs of one dial, one write and one read. They fit twice into the
// patience of Run, so that a lost reply is made good within it.
const ioTimeout = 900 * time.Millisecond

// Open returns a client for a URL:
//
//	redis://[user:password@]host[:port][/db]
//	redis+sentinel://[user:password@]host[:port],…/master[?db=0]
//	redis+cluster://[user:password@]host[:port],…
//
// With rediss for redis the connections are encrypted, and the servers held to
// certificates of the system's authorities, or with ca_file=/path in the query
// to those in a file. User and password are
// those of the servers that hold the data; sentinels that want one as well take
// sentinel_username and sentinel_password from the query. Characters with a
// meaning in URLs are percent-encoded. No error repeats any part of the URL,
// because any part may be a password in the wrong place.
//
// Open connects to nothing. The client sends no command a second time by
// itself, other than where a cluster redirects it, keeps to the deadlines of
// contexts, and has no part in maintenance notifications, which stretch
// time-outs. What go-redis would print is dropped: all of it comes back as an
// error as well.
func Open(rawURL string) (redis.UniversalClient, error) {
	o, err := options(rawURL)
	if err != nil {
		return nil, fmt.Errorf("redis URL: %w", err)
	}
	redis.SetLogger(&logging.VoidLogger{})
	return redis.NewUniversalClient(o), nil
}

func defaults() *redis.UniversalOptions {
	return &redis.UniversalOptions{
		MaxRetries:            -1,
		ContextTimeoutEnabled: true,
		DialTimeout:           ioTimeout,
		ReadTimeout:           ioTimeout,
		WriteTimeout:          ioTimeout,
		PoolTimeout:           ioTimeout,
		DialerRetries:         1,
		DialerRetryTimeout:    shortestWait,
		MinRetryBackoff:       shortestWait,
		MaxRetryBackoff:       longestWait,
		DisableIdentity:       true,
		MaintNotificationsConfig: &maintnotifications.Config{
			Mode: maintnotifications.ModeDisabled,
		},
	}
}

func options(rawURL string) (*redis.UniversalOptions, error) {
	scheme, hosts, u, err := split(rawURL)
	if err != nil {
		return nil, err
	}
	o := defaults()
	kind, encrypted := strings.CutPrefix(scheme, "rediss")
	if encrypted {
		o.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12}
	} else {
		kind, _ = strings.CutPrefix(scheme, "redis")
	}
	o.Username = u.User.Username()
	o.Password, _ = u.User.Password()
	path := strings.Trim(u.Path, "/")
	query := u.Query()
	if encrypted {
		if o.TLSConfig.RootCAs, err = authorities(take(query, "ca_file")); err != nil {
			return nil, err
		}
	}
	port := "6379"
	switch kind {
	case "":
		if len(hosts) != 1 {
			return nil, errors.New("one host is wanted")
		}
		o.DB, err = number(path)
	case "+sentinel":
		if path == "" {
			return nil, errors.New("the name of the master is missing: redis+sentinel://host/master")
		}
		port, o.MasterName = "26379", path
		o.SentinelUsername, o.SentinelPassword = take(query, "sentinel_username"), take(query, "sentinel_password")
		o.DB, err = number(take(query, "db"))
	case "+cluster":
		if path != "" {
			return nil, errors.New("a cluster has one database: nothing may follow the hosts")
		}
		o.IsClusterMode = true
	}
	if err != nil {
		return nil, err
	}
	if len(query) > 0 {
		return nil, errors.New("there is a parameter that does not belong")
	}
	o.Addrs, err = addresses(hosts, port)
	return o, err
}

// split takes a URL apart, with any number of hosts.
func split(rawURL string) (scheme string, hosts []string, rest *url.URL, err error) {
	scheme, tail, _ := strings.Cut(rawURL, "://")
	switch scheme {
	case "redis", "rediss", "redis+sentinel", "rediss+sentinel", "redis+cluster", "rediss+cluster":
	default:
		return "", nil, nil, errors.New("it begins with none of redis://, rediss://, redis+sentinel://, redis+cluster://")
	}
	end := strings.IndexAny(tail, "/?#")
	if end < 0 {
		end = len(tail)
	}
	authority, tail := tail[:end], tail[end:]
	at := strings.LastIndex(authority, "@") + 1
	// net/url takes no list of hosts: it is given one that stands for them.
	rest, err = url.Parse(scheme + "://" + authority[:at] + "hosts" + tail)
	if err != nil || rest.Fragment != "" {
		return "", nil, nil, errors.New("it cannot be read; are the characters of the password percent-encoded?")
	}
	return scheme, strings.Split(authority[at:], ","), rest, nil
}

// addresses completes hosts with the default port.
func addresses(hosts []string, port string) ([]string, error) {
	addrs := make([]string, len(hosts))
	for i, h := range hosts {
		name, own := h, port
		if colon := strings.LastIndex(h, ":"); colon > strings.LastIndex(h, "]") {
			name, own = h[:colon], h[colon+1:]
		}
		n, err := strconv.ParseUint(own, 10, 16)
		bare := strings.Contains(name, ":") && !strings.HasPrefix(name, "[")
		if name == "" || bare || err != nil || n == 0 {
			return nil, errors.New("there is a host that is none: want host:port")
		}
		addrs[i] = name + ":" + own
	}
	return addrs, nil
}

// authorities reads the certificates in a file; nil stands for the system's.
func authorities(file string) (*x509.CertPool, error) {
	if file == "" {
		return nil, nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, errors.New("ca_file cannot be read")
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, errors.New("ca_file holds no certificate: PEM is wanted")
	}
	return pool, nil
}

func number(s string) (int, error) {
	if s == "" {
		return 0, nil
	}
	n, err := strconv.ParseUint(s, 10, 31)
	if err != nil {
		return 0, errors.New("the database is not a number")
	}
	return int(n), nil
}

// take removes a parameter and returns its value.
func take(q url.Values, name string) string {
	v := q.Get(name)
	q.Del(name)
	return v
}
