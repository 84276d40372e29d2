package main

import (
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestPause_Commands(t *testing.T) {
	t.Parallel()
	dir, sim := simulated(t)
	c := newCLI(t, nil)
	s := c.serve(filepath.Join(dir, configName))
	c.env = map[string]string{"NOTIFIER_SERVER": s.url}
	if out := c.ok("pauses"); out != "no pause is in force\n" {
		t.Errorf("pauses printed %q", out)
	}
	placed := c.ok("pause", "-type", "order_shipped", "-channel", "email", "-account", "main", "-tenant", "default", "-until", "2h", "-why", "a test")
	for _, want := range []string{"pau_", "  type order_shipped  channel email  account main  tenant default  since ", "  until ", "operator, by loopback: a test\n"} {
		if !strings.Contains(placed, want) {
			t.Errorf("pause printed %q without %q", placed, want)
		}
	}
	first := c.ok("pause", "-type", "order_shipped")
	if again := c.ok("pause", "-type", "order_shipped", "-why", "another"); again != first {
		t.Errorf("the same pause again printed %q, want the first, %q", again, first)
	}
	if out := c.ok("pauses"); out != placed+first {
		t.Errorf("pauses printed\n%s, want\n%s%s", out, placed, first)
	}
	if out := c.ok("pauses", "-json"); !strings.HasPrefix(out, `{"pauses":[{"id":"pau_`) {
		t.Errorf("pauses -json printed %s", out)
	}
	c.ok(sendArgs(s.url, map[string]string{"-wait": ""})...)
	eventually(t, "status says that it is paused", func() bool {
		return strings.Contains(c.ok("status", "-key", "order-42/shipped"), "pending (paused)")
	})
	for _, line := range []string{placed, first} {
		for range 2 {
			if out := c.ok("resume", strings.Fields(line)[0], "-why", "all is well"); !strings.HasPrefix(out, "resumed  "+strings.TrimSuffix(line, "\n")+"; ended ") || !strings.HasSuffix(out, ", by loopback: all is well\n") {
				t.Errorf("resume printed %q, want resumed, %q, and who ended it", out, line)
			}
		}
	}
	if out := c.ok("pauses"); out != "no pause is in force\n" {
		t.Errorf("pauses printed %q, want none", out)
	}
	if out := c.ok("pauses", "-ended"); strings.Count(out, ", by loopback: all is well\n") != 2 {
		t.Errorf("pauses -ended printed %q, want both, with who ended them", out)
	}
	eventually(t, "it is sent", func() bool { return strings.Contains(c.ok("status", "-key", "order-42/shipped"), "\nsent") })
	if got := len(sim.Effects()); got != 1 {
		t.Errorf("got %d effects, want 1", got)
	}
	if code, stderr := s.stop(); code != 0 || !strings.Contains(stderr, "all is well") {
		t.Errorf("serve ended with %d; its log has no word of who resumed and why: %s", code, stderr)
	}
}

func TestPause_UntilIsATimeOrADuration(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 12, 1, 9, 0, 0, 0, time.UTC)
	for in, want := range map[string]string{"2h": "2026-12-01T11:00:00Z", "1m30s": "2026-12-01T09:01:30Z", "2026-12-01T10:00:00+01:00": "", "2026-12-02T00:00:00+01:00": "2026-12-02T00:00:00+01:00", "0s": ""} {
		got, err := parseUntil(in, now)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%s: got %q, %v, want %q", in, got, err, want)
		}
	}
}

// What may have been done is said again, in the words of a pause.
func TestPause_ServersThatAnswerBadly(t *testing.T) {
	t.Parallel()
	for name, serve := range map[string]http.HandlerFunc{
		"connection dropped": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"ledger unavailable": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = w.Write([]byte(`{"code":"ledger_unavailable","detail":"no answer"}`))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(serve)
			t.Cleanup(server.Close)
			c := newCLI(t, nil)
			for _, tc := range []struct {
				args []string
				want string
			}{
				{[]string{"pause", "-type", "x", "-server", server.URL}, "pause again, which places it once"},
				{[]string{"resume", "pau_x", "-server", server.URL}, "resume it again, which does no harm"},
			} {
				if _, stderr, code := c.run(tc.args...); code != 1 || strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, tc.want) {
					t.Errorf("got %d, %q; want one line with %q", code, stderr, tc.want)
				}
			}
		})
	}
}
