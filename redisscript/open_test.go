package redisscript

import (
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
)

func TestOpen_URLs(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		url                    string
		addrs                  []string
		user, password, master string
		db                     int
		cluster, encrypted     bool
	}{
		{url: "redis://h", addrs: []string{"h:6379"}},
		{url: "redis://h:7000/", addrs: []string{"h:7000"}},
		{url: "redis://u:p%40%2F%3A@h:1/3", addrs: []string{"h:1"}, user: "u", password: "p@/:", db: 3},
		{url: "redis://:p@[::1]:1", addrs: []string{"[::1]:1"}, password: "p"},
		{url: "redis://[::1]", addrs: []string{"[::1]:6379"}},
		{url: "rediss://h", addrs: []string{"h:6379"}, encrypted: true},
		{url: "redis+sentinel://a,b:2/m", addrs: []string{"a:26379", "b:2"}, master: "m"},
		{url: "redis+sentinel://u:p@a:1,b:2,c:3/m?db=4", addrs: []string{"a:1", "b:2", "c:3"}, user: "u", password: "p", master: "m", db: 4},
		{url: "rediss+sentinel://a/m", addrs: []string{"a:26379"}, master: "m", encrypted: true},
		{url: "redis+cluster://u:p@a:1,b", addrs: []string{"a:1", "b:6379"}, user: "u", password: "p", cluster: true},
		{url: "rediss+cluster://a", addrs: []string{"a:6379"}, cluster: true, encrypted: true},
	} {
		o, err := options(c.url)
		if err != nil {
			t.Errorf("%s: %v", c.url, err)
			continue
		}
		if !slices.Equal(o.Addrs, c.addrs) || o.Username != c.user || o.Password != c.password || o.MasterName != c.master ||
			o.DB != c.db || o.IsClusterMode != c.cluster || (o.TLSConfig != nil) != c.encrypted {
			t.Errorf("%s: got %+v", c.url, o)
		}
		if o.MaxRetries != -1 {
			t.Errorf("%s: go-redis would repeat %d times", c.url, o.MaxRetries)
		}
		client, err := Open(c.url)
		if err != nil {
			t.Errorf("%s: %v", c.url, err)
			continue
		}
		if _, is := client.(*redis.ClusterClient); is != c.cluster {
			t.Errorf("%s: got a %T", c.url, client)
		}
		if err := client.Close(); err != nil {
			t.Errorf("%s: close: %v", c.url, err)
		}
	}
}

// What is at fault is told without a word of the URL.
func TestOpen_FaultsKeepThePassword(t *testing.T) {
	t.Parallel()
	for _, url := range []string{
		"", "hunter2", "hunter2://h", "user:hunter2@h:6379", "http://u:hunter2@h",
		"redis://", "redis://u:hunter2@", "redis://u:hunter2@h:port", "redis://u:hunter2@h:0", "redis://u:hunter2@h:70000",
		"redis://u:hunter2@a,b", "redis://u:hunter2@h/one", "redis://u:hunter2@h/1/2", "redis://u:hunter2@h/-1",
		"redis://u:hunter2/x@h", "redis://u:hunter2%@h", "redis://u:hunter2#@h", "redis://u:p@h?hunter2=1", "redis://u:hun ter2@h?x",
		"redis+sentinel://u:hunter2@h", "redis+sentinel://u:hunter2@h/m?db=x", "redis+sentinel://u:hunter2@h,/m",
		"redis+cluster://u:hunter2@h/1", "redis+cluster://u:hunter2@,", "redis+cluster://u:hunter2@h?db=1",
	} {
		client, err := Open(url)
		if err == nil {
			t.Errorf("%s: got no error", url)
			_ = client.Close()
			continue
		}
		if strings.Contains(err.Error(), "hunter2") || strings.Contains(err.Error(), "ter2") {
			t.Errorf("%s: the error tells the password: %v", url, err)
		}
	}
}

func TestOpen_SentinelsOwnPassword(t *testing.T) {
	t.Parallel()
	o, err := options("redis+sentinel://u:p@a/m?sentinel_username=s&sentinel_password=q%26&db=1")
	if err != nil {
		t.Fatal(err)
	}
	if o.SentinelUsername != "s" || o.SentinelPassword != "q&" || o.Password != "p" || o.DB != 1 {
		t.Errorf("got %+v", o)
	}
}
