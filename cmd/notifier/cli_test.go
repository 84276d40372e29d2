package main

import (
	"bytes"
	"context"
	"maps"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seed-4b260dfd/notifier/channels/simulate"
)

// cli runs commands as main would, in this process.
type cli struct {
	t   *testing.T
	env map[string]string
}

func newCLI(t *testing.T, env map[string]string) *cli { return &cli{t, env} }

// run returns what a command printed and its exit code.
func (c *cli) run(args ...string) (stdout, stderr string, code int) {
	c.t.Helper()
	var out, errs bytes.Buffer
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	code = execute(ctx, args, func(name string) string { return c.env[name] }, &out, &errs)
	return out.String(), errs.String(), code
}

// ok runs a command that must succeed.
func (c *cli) ok(args ...string) (stdout string) {
	c.t.Helper()
	stdout, stderr, code := c.run(args...)
	if code != 0 {
		c.t.Fatalf("notifier %s: got exit code %d, %s", strings.Join(args, " "), code, stderr)
	}
	return stdout
}

// firstLine is a stdout that hands over its first line.
type firstLine struct {
	once sync.Once
	line chan string
	buf  bytes.Buffer
	mu   sync.Mutex
}

func (f *firstLine) Write(b []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n, err := f.buf.Write(b)
	if line, _, ok := strings.Cut(f.buf.String(), "\n"); ok {
		f.once.Do(func() { f.line <- line })
	}
	return n, err
}

// running is a serve command in this process.
type running struct {
	url  string
	stop func() (code int, stderr string)
}

// serve starts the service from a configuration and waits for it to be ready.
func (c *cli) serve(config string) running {
	c.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	out := &firstLine{line: make(chan string, 1)}
	var errs bytes.Buffer
	code := -1
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		code = execute(ctx, []string{"serve", "-config", config}, func(name string) string { return c.env[name] }, out, &errs)
	}()
	stop := func() (int, string) {
		cancel()
		<-ended
		return code, errs.String()
	}
	c.t.Cleanup(func() { stop() })
	select {
	case line := <-out.line:
		url, ok := strings.CutPrefix(line, "listening on ")
		if !ok {
			c.t.Fatalf("got the first line %q, want listening on …", line)
		}
		return running{url, stop}
	case <-ended:
		c.t.Fatalf("serve ended with %d: %s", code, errs.String())
	case <-time.After(30 * time.Second):
		c.t.Fatal("serve was not ready after 30 s")
	}
	return running{}
}

// simulated makes a folder whose channels go to a simulator on free ports,
// with every example in it.
func simulated(t *testing.T) (dir string, sim *simulate.Server) {
	t.Helper()
	dir = t.TempDir()
	newCLI(t, nil).ok("init", "-simulated", dir)
	sim, err := simulate.Start(simulate.Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := sim.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := os.RemoveAll(filepath.Join(dir, "policies")); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(dir, "templates")); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(dir, os.DirFS("../../examples")); err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(dir, configName)
	src, err := os.ReadFile(config)
	if err != nil {
		t.Fatal(err)
	}
	made := strings.NewReplacer(
		simulate.DefaultAPNs, strings.TrimPrefix(sim.APNsURL(), "https://"),
		simulate.DefaultFCM, strings.TrimPrefix(sim.FCMURL(), "https://"),
		simulate.DefaultSMTP, sim.SMTPAddr(),
		simulate.DefaultHTTP, strings.TrimPrefix(sim.HTTPURL(), "http://"),
		"127.0.0.1:8080", "127.0.0.1:0",
	).Replace(string(src))
	if err := os.WriteFile(config, []byte(made), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir, sim
}

// sendArgs is a send command that succeeds, with flags replaced; "" leaves one out.
func sendArgs(url string, changes map[string]string) []string {
	flags := map[string]string{"-server": url, "-type": "order_shipped", "-recipient": "u_42", "-key": "order-42/shipped",
		"-to": "email=ann@example.com", "-data": "order_id=42", "-wait": "10s"}
	maps.Copy(flags, changes)
	args := []string{"send", "-data", "carrier=DHL"}
	for name, value := range flags {
		if value != "" {
			args = append(args, name, value)
		}
	}
	return args
}

func TestServe_SendAndStatus(t *testing.T) {
	t.Parallel()
	dir, sim := simulated(t)
	c := newCLI(t, nil)
	s := c.serve(filepath.Join(dir, configName))

	out := c.ok(sendArgs(s.url, nil)...)
	if !strings.Contains(out, `"state":"sent"`) {
		t.Errorf("send printed %s, want a resource that is sent", out)
	}
	c.env = map[string]string{"NOTIFIER_SERVER": s.url}
	status := c.ok("status", "-key", "order-42/shipped")
	for _, want := range []string{"order_shipped", "to u_42", "email.main", "sent", "#1"} {
		if !strings.Contains(status, want) {
			t.Errorf("status printed\n%s\nwithout %q", status, want)
		}
	}
	id := strings.Fields(status)[0]
	if again := c.ok("status", id); again != status {
		t.Errorf("status by id printed\n%s, by key\n%s", again, status)
	}
	if out := c.ok("status", id, "-json"); !strings.HasPrefix(out, `{"id":"`+id+`"`) {
		t.Errorf("status -json printed %s", out)
	}
	if _, stderr, code := c.run(sendArgs(s.url, map[string]string{"-key": "later", "-to": "", "-wait": "", "-type": "payment_event"})...); code != 1 || !strings.HasPrefix(stderr, "notifier: unknown_field (data.") {
		t.Errorf("got %d, %s; want the data of another type refused", code, stderr)
	}
	if code, stderr := s.stop(); code != 0 {
		t.Errorf("serve ended with %d: %s", code, stderr)
	}
	if got := len(sim.Effects()); got != 1 {
		t.Errorf("got %d effects at the provider, want 1", got)
	}
}

func TestSend_WaitThatDoesNotEndSent(t *testing.T) {
	t.Parallel()
	dir, sim := simulated(t)
	sim.SetFaults([]simulate.Fault{{Channel: "email", Kind: simulate.FaultStatus, Status: 554, Reason: "no"}})
	c := newCLI(t, nil)
	s := c.serve(filepath.Join(dir, configName))
	stdout, stderr, code := c.run(sendArgs(s.url, nil)...)
	if code != 3 || !strings.Contains(stderr, `is rejected after`) || !strings.Contains(stdout, `"state":"rejected"`) {
		t.Errorf("got %d, %q, %q; want exit code 3 for what was rejected", code, stdout, stderr)
	}
}

// TestRun_LikelyMistakes holds every likely mistake to one line on stderr that
// says what to do next.
func TestRun_LikelyMistakes(t *testing.T) {
	t.Parallel()
	dir, _ := simulated(t)
	config := filepath.Join(dir, configName)
	s := newCLI(t, nil).serve(config)
	send := func(changes map[string]string) []string { return sendArgs(s.url, changes) }
	taken := listenTCP(t)
	bad := t.TempDir()
	writeFiles(t, bad, map[string]string{
		"bad.yaml":                     "listn: {}\nledger: 3\n",
		"taken.yaml":                   "listen: {http: \"" + taken + "\"}\n",
		"policies/hello.yaml":          "order: claim_first\nchannels: [{channel: webhook}]\n",
		"no-account.yaml":              "{}\n",
		"templates/hello/webhook.yaml": "body: {hello: 1}\n",
		"list.json":                    "[1]\n",
	})
	empty := filepath.Join(t.TempDir(), "notifier.yaml")
	writeFiles(t, filepath.Dir(empty), map[string]string{"notifier.yaml": "{}\n"})
	portTaken := copyConfig(t, dir, "127.0.0.1:0", taken)

	for name, tc := range map[string]struct {
		args []string
		code int
		want string // in the line
	}{
		"no command":         {nil, 2, "commands: demo, init, check"},
		"unknown command":    {[]string{"srve"}, 2, `unknown command "srve"; commands: demo, init, check`},
		"command to come":    {[]string{"reconcile"}, 2, "reconcile is not supported yet"},
		"unknown flag":       {[]string{"serve", "-port", "1"}, 2, `"notifier serve -h" lists the flags`},
		"too many arguments": {[]string{"status", "a", "b"}, 2, `"b" is one argument too many`},

		"init without a folder":   {[]string{"init"}, 2, "init needs DIR: notifier init"},
		"init over what is there": {[]string{"init", dir}, 1, "nothing was written: name another folder, or remove them"},

		"serve without a policy":         {[]string{"serve", "-config", empty}, 1, `: run "notifier init ` + filepath.Dir(empty) + `"`},
		"serve, configuration not there": {[]string{"serve", "-config", filepath.Join(bad, "none.yaml")}, 1, `name another with -config, or run "notifier init`},
		"serve, bad configuration":       {[]string{"serve", "-config", filepath.Join(bad, "bad.yaml")}, 1, `bad.yaml:1: unknown field "listn"; allowed: listen`},
		"serve, several mistakes":        {[]string{"serve", "-config", filepath.Join(bad, "bad.yaml")}, 1, `more: run "notifier check -config`},
		"serve, no account":              {[]string{"serve", "-config", filepath.Join(bad, "no-account.yaml")}, 1, "no account for webhook is configured; add one under channels.webhook"},
		"serve, ledger in use":           {[]string{"serve", "-config", config}, 1, "one process at a time: stop it, or give this one a ledger of its own"},
		"serve, ledger nowhere":          {[]string{"serve", "-config", copyConfig(t, dir, "sqlite:notifier.db", "sqlite:no/such/n.db")}, 1, "make the folder "},
		"serve, port taken":              {[]string{"serve", "-config", portTaken}, 1, "address already in use: stop the other process, or set another listen.http"},

		"simulate without a folder": {[]string{"simulate"}, 2, `add -dir and the folder of "notifier init -simulated"`},
		"simulate, port taken":      {[]string{"simulate", "-dir", t.TempDir(), "-http", taken}, 1, "give another address with -apns, -fcm, -smtp, -http"},
		"simulate, bad faults":      {[]string{"simulate", "-dir", t.TempDir(), "-faults", filepath.Join(bad, "bad.yaml")}, 1, "bad.yaml: read the faults"},

		"render, unknown type":     {[]string{"render", "ordr", "-config", config}, 1, `there is no type "ordr" in ` + filepath.Join(dir, "policies") + "; there are: login_code"},
		"render, missing datum":    {[]string{"render", "login_code", "-config", config}, 1, "data.code: the type login_code requires this datum; add -data code=VALUE"},
		"render, undeclared datum": {[]string{"render", "login_code", "-config", config, "-data", "cod=1"}, 1, "leave out -data cod=…, or declare it in the policy"},

		"send without a key":           {send(map[string]string{"-key": ""}), 2, "-key is missing: add -key"},
		"send without a type":          {send(map[string]string{"-type": ""}), 2, "-type is missing: add -type"},
		"send without a recipient":     {send(map[string]string{"-recipient": ""}), 2, "-recipient is missing: add -recipient"},
		"send, wrong type":             {send(map[string]string{"-type": "ordr"}), 1, "unknown_type (type): "},
		"send, no address":             {send(map[string]string{"-to": ""}), 1, "add -to channel=address"},
		"send, missing datum":          {send(map[string]string{"-data": ""}), 1, "add -data order_id=VALUE"},
		"send, bad address":            {send(map[string]string{"-to": "email=ann"}), 1, "invalid (to.email[0].address)"},
		"send, unknown channel":        {send(map[string]string{"-to": "pigeon=1"}), 2, `there is no channel "pigeon"; allowed: apns, fcm, webpush, email, sms, webhook`},
		"send, datum without =":        {send(map[string]string{"-data": "order_id"}), 2, "write name=value, or @file.json"},
		"send, file that is no object": {send(map[string]string{"-data": "@" + filepath.Join(bad, "list.json")}), 2, "is not a JSON object such as"},
		"send, server not there":       {send(map[string]string{"-server": "http://" + closedPort}), 1, `start it with "notifier serve", or name another with -server`},
		"send, not a URL":              {send(map[string]string{"-server": "localhost:8080"}), 2, "not a URL such as http://127.0.0.1:8080"},

		"status without anything": {[]string{"status", "-server", s.url}, 2, "status needs an id or -key"},
		"status, not an id":       {[]string{"status", "-server", s.url, "order-42"}, 2, "a key goes after -key"},
		"status, unknown key":     {[]string{"status", "-server", s.url, "-key", "nobody"}, 1, "check the key, the server"},
		"status, unknown id":      {[]string{"status", "-server", s.url, "ntf_06h2vpm4j1o01719i8kufcr8u0"}, 1, "not_found (id): "},

		"pause without a selector":   {[]string{"pause", "-server", s.url}, 2, "pause what? add one or more of -type"},
		"pause, empty selector":      {[]string{"pause", "-server", s.url, "-type", ""}, 2, "leave it out, which matches everything"},
		"pause, fan-out":             {[]string{"pause", "-server", s.url, "-fanout", "fan_1"}, 2, "-fanout is not supported yet"},
		"pause, until what":          {[]string{"pause", "-server", s.url, "-type", "login_code", "-until", "tomorrow"}, 2, "nor a duration such as 2h"},
		"pause, until before":        {[]string{"pause", "-server", s.url, "-type", "login_code", "-until", "2020-01-01T00:00:00Z"}, 2, "does not lie ahead"},
		"pause, until a minute ago":  {[]string{"pause", "-server", s.url, "-type", "login_code", "-until", "-1m"}, 2, "does not lie ahead"},
		"pause, unknown type":        {[]string{"pause", "-server", s.url, "-type", "ordr"}, 1, `unknown_type (type): there is no policy for the type "ordr"; there are login_code`},
		"pause, unknown channel":     {[]string{"pause", "-server", s.url, "-channel", "pigeon"}, 1, "invalid (channel): no account of the channel"},
		"pause, unknown account":     {[]string{"pause", "-server", s.url, "-channel", "email", "-account", "spam"}, 1, "invalid (account): there is no account"},
		"pause, server not there":    {[]string{"pause", "-server", "http://" + closedPort, "-type", "login_code"}, 1, `start it with "notifier serve"`},
		"resume without an id":       {[]string{"resume", "-server", s.url}, 2, "resume needs ID"},
		"resume, not an id":          {[]string{"resume", "-server", s.url, "login_code"}, 2, `"notifier pauses" lists them`},
		"resume, unknown id":         {[]string{"resume", "-server", s.url, "pau_none"}, 1, "not_found (id): there is no such pause"},
		"pauses, too many arguments": {[]string{"pauses", "pau_none"}, 2, "is one argument too many"},

		"check, mistakes":      {[]string{"check", "-config", filepath.Join(bad, "bad.yaml")}, 3, "correct them and check again"},
		"check without policy": {[]string{"check", "-config", empty}, 3, `run "notifier init`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, stderr, code := newCLI(t, nil).run(tc.args...)
			if code != tc.code {
				t.Errorf("got exit code %d, want %d", code, tc.code)
			}
			if !strings.HasPrefix(stderr, "notifier: ") || strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, tc.want) {
				t.Errorf("got on stderr %q, want one line with %q", stderr, tc.want)
			}
		})
	}
}

func TestSend_SameKeyOtherRequest(t *testing.T) {
	t.Parallel()
	dir, _ := simulated(t)
	c := newCLI(t, nil)
	s := c.serve(filepath.Join(dir, configName))
	c.ok(sendArgs(s.url, nil)...)
	_, stderr, code := c.run(sendArgs(s.url, map[string]string{"-data": "order_id=43"})...)
	if code != 1 || !strings.Contains(stderr, "key_reused") || !strings.Contains(stderr, `"notifier status ntf_`) {
		t.Errorf("got %d, %q; want key_reused and where the first is shown", code, stderr)
	}
}

func TestServe_KeysAreAsked(t *testing.T) {
	t.Parallel()
	dir, _ := simulated(t)
	config := filepath.Join(dir, configName)
	src, err := os.ReadFile(config)
	if err != nil {
		t.Fatal(err)
	}
	// The hash is that of "test".
	src = append(src, "\napi_keys: [{name: orders, tenant: shop, scopes: [send, read], sha256: 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08}]\n"...)
	if err := os.WriteFile(config, src, 0o600); err != nil {
		t.Fatal(err)
	}
	c := newCLI(t, map[string]string{"NOTIFIER_API_KEY": "wrong"})
	s := c.serve(config)
	if _, stderr, code := c.run(sendArgs(s.url, nil)...); code != 1 || !strings.Contains(stderr, "unauthenticated (Authorization): ") || !strings.Contains(stderr, "set NOTIFIER_API_KEY") {
		t.Errorf("got %d, %q; want the wrong key refused", code, stderr)
	}
	c.env["NOTIFIER_API_KEY"] = "test"
	c.ok(sendArgs(s.url, nil)...)
}

func TestHelp_EveryCommand(t *testing.T) {
	t.Parallel()
	c := newCLI(t, nil)
	all := c.ok("-h")
	for _, cmd := range commands() {
		if !strings.Contains(all, "  "+cmd.name+" ") {
			t.Errorf("notifier -h does not list %s", cmd.name)
		}
		if out := c.ok(cmd.name, "-h"); !strings.HasPrefix(out, "usage: notifier "+cmd.name) {
			t.Errorf("notifier %s -h printed %q", cmd.name, out)
		}
	}
	if out := c.ok("version"); !strings.Contains(out, "go1.") {
		t.Errorf("version printed %q", out)
	}
}

// copyConfig puts a changed configuration beside the one of dir, with a ledger
// of its own, and returns its path.
func copyConfig(t *testing.T, dir, old, changed string) string {
	t.Helper()
	src, err := os.ReadFile(filepath.Join(dir, configName))
	if err != nil {
		t.Fatal(err)
	}
	made := strings.NewReplacer(old, changed, "sqlite:notifier.db", "sqlite:other.db").Replace(string(src))
	f, err := os.CreateTemp(dir, "changed-*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteString(made); err != nil {
		t.Fatal(err)
	}
	return f.Name()
}

// closedPort is an address at which nobody listens: its port is not one that
// the system hands out.
const closedPort = "127.0.0.1:1"

// listenTCP takes a port for the time of the test.
func listenTCP(t *testing.T) (addr string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l.Addr().String()
}
