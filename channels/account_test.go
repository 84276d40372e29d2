package channels

import (
	"errors"
	"math"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestForbidden(t *testing.T) {
	t.Parallel()
	for _, s := range []string{
		"0.0.0.0", "0.1.2.3", "10.1.2.3", "100.64.0.1", "100.127.255.255", "127.0.0.1", "127.255.0.1", "169.254.169.254",
		"172.16.0.1", "172.31.255.255", "192.0.0.8", "192.0.2.1", "192.88.99.1", "192.168.1.1", "198.18.0.1", "198.19.255.255",
		"198.51.100.7", "203.0.113.9", "224.0.0.1", "239.255.255.255", "240.0.0.1", "255.255.255.255",
		"::", "::1", "::7f00:1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:0:127.0.0.1", "64:ff9b::7f00:1", "64:ff9b:1::1",
		"100::1", "2001::1", "2001:db8::1", "2002:7f00:1::", "3fff::1", "5f00::1", "fc00::1", "fd12::1", "fe80::1", "fe80::1%eth0",
		"fec0::1", "ff02::1",
	} {
		if !Forbidden(netip.MustParseAddr(s)) {
			t.Errorf("%s is allowed", s)
		}
	}
	for _, s := range []string{"1.1.1.1", "100.63.255.255", "100.128.0.1", "172.15.0.1", "172.32.0.1", "198.17.0.1", "198.20.0.1",
		"192.0.1.1", "223.255.255.255", "17.188.143.34", "::ffff:8.8.8.8", "2606:4700::1111", "2a00:1450:4001::1", "2001:4860::8888"} {
		if Forbidden(netip.MustParseAddr(s)) {
			t.Errorf("%s is forbidden", s)
		}
	}
	if !Forbidden(netip.Addr{}) {
		t.Error("no address at all is allowed")
	}
}

func TestDialer_LooksAtTheAddressBehindTheName(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	port := strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
	for _, host := range []string{"localhost", "127.0.0.1", "[::ffff:127.0.0.1]"} {
		conn, err := Dialer(false)(t.Context(), "tcp", host+":"+port)
		if !errors.Is(err, ErrForbiddenAddress) {
			t.Errorf("dial %s: got %v, want ErrForbiddenAddress", host, err)
		}
		if err == nil {
			conn.Close()
		}
	}
	conn, err := Dialer(true)(t.Context(), "tcp", "127.0.0.1:"+port)
	if err != nil {
		t.Fatalf("dial with private addresses allowed: %v", err)
	}
	conn.Close()
}

func TestAccountConfig_Validate(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		cfg    AccountConfig
		fields []string
	}{
		{"nothing", AccountConfig{}, nil},
		{"good", AccountConfig{Endpoint: "https://127.0.0.1:2197", AllowPrivate: true, MaxInFlight: 5}, nil},
		{"negative", AccountConfig{MaxInFlight: -1}, []string{"max_in_flight"}},
		{"limits", AccountConfig{MaxPerSecond: new(0.5), RetryBudget: new(0.1), Breaker: BreakerConfig{new(5), new(10 * time.Second)}}, nil},
		{"none at all", AccountConfig{MaxPerSecond: new(0.0), RetryBudget: new(0.0), Breaker: BreakerConfig{new(0), new(time.Duration(0))}},
			[]string{"max_per_second", "retry_budget", "breaker.after", "breaker.probe"}},
		{"too much", AccountConfig{MaxPerSecond: new(1e9), RetryBudget: new(1.1), Breaker: BreakerConfig{new(1001), new(2 * time.Hour)}},
			[]string{"max_per_second", "retry_budget", "breaker.after", "breaker.probe"}},
		{"no numbers", AccountConfig{MaxPerSecond: new(math.NaN()), RetryBudget: new(math.Inf(1))}, []string{"max_per_second", "retry_budget"}},
	} {
		var fields []string
		for _, e := range test.cfg.Validate() {
			fields = append(fields, e.Field)
		}
		if diff := cmp.Diff(test.fields, fields); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.name, diff)
		}
	}
}

func TestAccountConfig_CheckEndpoint(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		endpoint       string
		plain, private bool
		good           bool
	}{
		{"", false, false, true},
		{"https://api.example.com", false, false, true},
		{"https://api.example.com/prefix", false, false, true},
		{"http://127.0.0.1:2080", true, true, true},
		{"http://127.0.0.1:2080", true, false, false},
		{"http://127.0.0.1:2080", false, true, false},
		{"https://u:p@api.example.com", true, true, false},
		{"https://api.example.com?x=1", true, true, false},
		{"https://api.example.com#x", true, true, false},
		{"ftp://api.example.com", true, true, false},
		{"api.example.com:443", true, true, false},
		{"https://", true, true, false},
		{"https://a b", true, true, false},
	} {
		e := AccountConfig{Endpoint: test.endpoint, AllowPrivate: test.private}.CheckEndpoint(test.plain)
		if (e == nil) != test.good {
			t.Errorf("%q, plain %v, private %v: got %v", test.endpoint, test.plain, test.private, e)
		}
		if e != nil && e.Field != "endpoint" {
			t.Errorf("%q: the field is %q", test.endpoint, e.Field)
		}
	}
}

func TestNewClient_Mistakes(t *testing.T) {
	t.Parallel()
	empty := filepath.Join(t.TempDir(), "empty.pem")
	if err := os.WriteFile(empty, []byte("not PEM"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, cfg := range []AccountConfig{{CAFile: empty}, {CAFile: empty + "x"}} {
		if _, err := NewClient(cfg, HTTP1); err == nil || !strings.Contains(err.Error(), cfg.CAFile) {
			t.Errorf("CA file %q: got %v, want an error that names it", cfg.CAFile, err)
		}
	}
	if _, err := NewClient(AccountConfig{}, 0); err == nil {
		t.Error("a client for no protocol was made")
	}
}

func TestParseRetryAfter(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)
	for _, test := range []struct {
		in   string
		want time.Duration
		ok   bool
	}{
		{"", 0, false},
		{"0", 0, true},
		{"7", 7 * time.Second, true},
		{" 7 ", 7 * time.Second, true},
		{"Tue, 01 Dec 2026 12:01:00 GMT", time.Minute, true},
		{"Tuesday, 01-Dec-26 12:01:00 GMT", time.Minute, true},
		{"Tue, 01 Dec 2026 11:59:00 GMT", 0, true},
		{"Tue, 01 Dec 2099 11:59:00 GMT", maxRetryAfter, true},
		{"99999999999999999999", maxRetryAfter, true},
		{"9223372036854775807", maxRetryAfter, true},
		{"2592001", maxRetryAfter, true},
		{"-1", 0, false},
		{"+1", 0, false},
		{"1.5", 0, false},
		{"soon", 0, false},
		{"1e3", 0, false},
	} {
		got, ok := ParseRetryAfter(test.in, now)
		if got != test.want || ok != test.ok {
			t.Errorf("ParseRetryAfter(%q) = %v, %v, want %v, %v", test.in, got, ok, test.want, test.ok)
		}
	}
}

func FuzzParseRetryAfter(f *testing.F) {
	for _, s := range []string{"7", "Tue, 01 Dec 2026 12:01:00 GMT", "99999999999999999999", "-1", "", "\x00"} {
		f.Add(s)
	}
	now := time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, s string) {
		d, ok := ParseRetryAfter(s, now)
		if d < 0 || d > maxRetryAfter || (!ok && d != 0) {
			t.Errorf("ParseRetryAfter(%q) = %v, %v", s, d, ok)
		}
	})
}

// golang.org/x/net before v0.52 sends a request again on new connections
// without end when its stream is reset with PROTOCOL_ERROR, and apns2 alone
// would be content with a version of 2022.
func TestRequire_HTTP2ThatDoesNotRepeat(t *testing.T) {
	t.Parallel()
	b, err := os.ReadFile("../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`(?m)^\s*(?:require )?golang\.org/x/net v(\d+)\.(\d+)\.`).FindSubmatch(b)
	if m == nil {
		t.Fatal("go.mod does not require golang.org/x/net itself")
	}
	major, err := strconv.Atoi(string(m[1]))
	if err != nil {
		t.Fatal(err)
	}
	minor, err := strconv.Atoi(string(m[2]))
	if err != nil {
		t.Fatal(err)
	}
	if major == 0 && minor < 52 {
		t.Errorf("go.mod requires golang.org/x/net v%d.%d; at least v0.52 is needed", major, minor)
	}
	if regexp.MustCompile(`(?m)^\s*(?:replace )?golang\.org/x/net\s.*=>`).Match(b) {
		t.Error("go.mod replaces golang.org/x/net: look at what the replacement does with PROTOCOL_ERROR")
	}
}
