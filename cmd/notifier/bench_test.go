package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-4b260dfd/notifier/channels/simulate"
	"github.com/seed-4b260dfd/notifier/servertest"
)

// A short run over real processes measures everything that a long one does.
func TestBench_MeasuresAndChecks(t *testing.T) {
	t.Parallel()
	tmp := t.TempDir()
	cmd := exec.Command(buildBinary(t), "bench", "-duration", "1s", "-inflight", "8", "-rate", "100", "-pending", "200", "-soak", "3s", "-json")
	cmd.Env = append(os.Environ(), "TMPDIR="+tmp)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("run the bench: %v\n%s", err, out)
	}
	var r benchReport
	if err := json.Unmarshal(out, &r); err != nil {
		t.Fatalf("read the report: %v\n%s", err, out)
	}
	names := func(n int, name func(int) string) (all []string) {
		for i := range n {
			all = append(all, name(i))
		}
		return all
	}
	sides := []string{"bare chain", "send_first", "claim_first"}
	for what, got := range map[string][]string{
		"throughput":    names(len(r.Throughput), func(i int) string { return r.Throughput[i].Side }),
		"one at a time": names(len(r.Single), func(i int) string { return r.Single[i].Side }),
		"steady rate":   names(len(r.Steady), func(i int) string { return r.Steady[i].Side }),
	} {
		if diff := cmp.Diff(sides, got); diff != "" {
			t.Fatalf("the sides of %s (-want +got):\n%s", what, diff)
		}
	}
	for i, x := range r.Throughput {
		if len(x.Rounds) != benchRounds || x.PerSecond <= 0 || (x.Ratio > 0) != (i > 0) {
			t.Errorf("throughput: got %+v", x)
		}
	}
	// A commit takes in the whole of acceptance and lease, a permit is one more,
	// the outcome is one. The ledger's own come at most once a second.
	for i, want := range []float64{0, 2, 3} {
		x := r.Single[i]
		if x.Sends == 0 || x.Latency.P50 <= 0 || x.Latency.P99 < x.Latency.P50 {
			t.Errorf("one at a time: got %+v", x)
		}
		if x.CommitsPerSend < want || x.CommitsPerSend > want*1.5 {
			t.Errorf("%s: got %.2f commits a send, want %.0f", x.Side, x.CommitsPerSend, want)
		}
	}
	for _, x := range r.Steady {
		if x.Accept.P50 <= 0 || x.Wire.P50 <= 0 || x.Wire.P99 < x.Wire.P50 {
			t.Errorf("steady rate: got %+v", x)
		}
	}
	checkMemory(t, &r)
	if c := r.Check; !c.Compared || c.Accepted == 0 || c.Effects != c.Accepted || c.Lost+c.Repeated > 0 {
		t.Errorf("check: got %+v", c)
	}
	if left, err := os.ReadDir(tmp); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// Over Postgres and Redis the run says what a delivery costs there.
func TestBench_MeasuresSharedStores(t *testing.T) {
	t.Parallel()
	ledger, claims := servertest.SharedPostgres(t).Database(t), servertest.NewRedis(t).URL()
	cmd := exec.Command(buildBinary(t), "bench", "-duration", "1s", "-inflight", "8", "-rate", "50", "-ledger", ledger, "-claims", claims, "-json")
	cmd.Env = append(os.Environ(), "TMPDIR="+t.TempDir())
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("run the bench: %v\n%s", err, out)
	}
	var r benchReport
	if err := json.Unmarshal(out, &r); err != nil {
		t.Fatalf("read the report: %v\n%s", err, out)
	}
	if !r.Shared || len(r.Stores) != 2 {
		t.Fatalf("got %+v, want the costs of both orders", r.Stores)
	}
	for _, x := range r.Stores {
		// A delivery has some rows, and each batch of them asks Redis at least once.
		if x.WAL < 500 || x.RoundTrips <= 0 || runtime.GOOS == "linux" && x.Postgres <= 0 {
			t.Errorf("%s: got %+v", x.Side, x)
		}
	}
	if c := r.Check; !c.Compared || c.Accepted == 0 || c.Effects != c.Accepted || c.Lost+c.Repeated > 0 {
		t.Errorf("check: got %+v", c)
	}
}

func checkMemory(t *testing.T, r *benchReport) {
	t.Helper()
	if r.Memory == nil || r.Soak == nil || r.Memory.Pending < 200 {
		t.Fatalf("memory: got %+v and %+v", r.Memory, r.Soak)
	}
	if runtime.GOOS != "linux" {
		return // nothing tells
	}
	const least, most = 5e6, 1e9
	for what, got := range map[string]float64{"resident": r.Memory.RSS, "peak": r.Memory.Peak, "after a third": r.Soak.First, "last": r.Soak.Last} {
		if got < least || got > most {
			t.Errorf("%s: got %.0f bytes", what, got)
		}
	}
	if r.Throughput[1].CPU <= 0 {
		t.Errorf("processor time of %s: got %v", r.Throughput[1].Side, r.Throughput[1].CPU)
	}
}

// A provider that takes the push and drops the answer makes a repeat, which is
// send_first's bargain. The check must see it all the same: it promises to say
// when anything but one effect each was seen.
func TestBench_SeesARepeat(t *testing.T) {
	t.Parallel()
	sim := startProviders(t)
	dir := installation(t, sim, 0, map[string]string{"load": `order: send_first
description: For a test.
channels: [{channel: apns, template: load}]
data: {n: {required: true}}
expires_after: 1h
retry: {initial: 50ms, factor: 1, max: 50ms}
`})
	template := newFile{"templates/load/push.yaml", []byte("title: \"{{.n}}\"\n")}
	if err := template.write(dir); err != nil {
		t.Fatal(err)
	}
	s := newServer(t, buildBinary(t), dir)
	s.start()
	log := filepath.Join(filepath.Dir(sim.CAFile()), simulate.LogName)
	args := []string{"bench", "-server", s.url(), "-type", "load", "-provider-log", log, "-duration", "1s", "-inflight", "4", "-rate", "50"}
	if stdout, stderr, code := newCLI(t, nil).run(args...); code != 0 || !strings.Contains(stdout, "0 lost, 0 with more than one") {
		t.Errorf("without a fault: got exit code %d, %s\n%s", code, stderr, stdout)
	}
	sim.SetFaults([]simulate.Fault{{Channel: "apns", Kind: simulate.FaultDropReply, Times: 1}})
	_, stderr, code := newCLI(t, nil).run(args...)
	if code != 3 || !strings.Contains(stderr, "with more than one") {
		t.Errorf("with a repeat: got exit code %d, %s; want 3", code, stderr)
	}
}

func TestBench_WrongUsage(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{
		"no requests in flight":   {"-inflight", "0"},
		"too many in flight":      {"-inflight", "1001"},
		"too short":               {"-duration", "10ms"},
		"no rate":                 {"-rate", "0"},
		"no such order":           {"-order", "send_last"},
		"fewer than none pending": {"-pending", "-1"},
		"type without server":     {"-type", "t"},
		"server without type":     {"-server", "http://127.0.0.1:1"},
		"memory of another":       {"-server", "http://127.0.0.1:1", "-type", "t", "-soak", "1m"},
		"ledger without claims":   {"-ledger", "postgres://127.0.0.1/x"},
		"stores of another":       {"-server", "http://127.0.0.1:1", "-type", "t", "-ledger", "postgres://127.0.0.1/x", "-claims", "redis://127.0.0.1"},
		"server that is no URL":   {"-server", "there", "-type", "t"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, stderr, code := newCLI(t, nil).run(append([]string{"bench"}, args...)...)
			if code != 2 || !strings.Contains(stderr, "bench") && !strings.Contains(stderr, "-server") {
				t.Errorf("got exit code %d, %s; want 2", code, stderr)
			}
		})
	}
}

func TestBench_UnreachableServer(t *testing.T) {
	t.Parallel()
	_, stderr, code := newCLI(t, nil).run("bench", "-server", "http://"+freeAddress(t), "-type", "t", "-duration", "1s")
	if code != 1 || strings.Count(strings.TrimSpace(stderr), "\n") > 1 {
		t.Errorf("got exit code %d, %s; want 1 and one line after what was being measured", code, stderr)
	}
}

func TestTally(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		shots []shot
		want  benchCheck
		holds bool
	}{
		"one each":            {[]shot{{accepted: true, effects: 1}, {accepted: true, effects: 1}}, benchCheck{Accepted: 2, Effects: 2}, true},
		"lost":                {[]shot{{accepted: true}}, benchCheck{Accepted: 1, Lost: 1}, false},
		"twice":               {[]shot{{accepted: true, effects: 2}}, benchCheck{Accepted: 1, Effects: 2, Repeated: 1}, false},
		"no answer, sent":     {[]shot{{effects: 1}}, benchCheck{Effects: 1}, true},
		"no answer, not sent": {[]shot{{}}, benchCheck{}, true},
		"no answer, twice":    {[]shot{{effects: 2}}, benchCheck{Effects: 2, Repeated: 1}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := tally(c.shots)
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			got.Compared = true
			if code := exitCode(got.verdict()); (code == 0) != c.holds || !c.holds && code != 3 {
				t.Errorf("got exit code %d, holds: %v", code, c.holds)
			}
		})
	}
}

// Only whole lines of the log are read, each once, and only what is ours and
// took effect is booked.
func TestEffectLog_ReadsOn(t *testing.T) {
	t.Parallel()
	l, other := newLoader(1, ""), newLoader(1, "")
	n := l.next(time.Now())
	other.next(time.Now())
	line := func(token string, took bool) string {
		b, err := json.Marshal(effect{Time: time.Unix(7, 0), Address: token, TookEffect: took})
		if err != nil {
			t.Fatal(err)
		}
		return string(b) + "\n"
	}
	whole := line(l.token(n), false) + line(other.token(0), true) + line(l.token(n+1), true) + line("0123", true) + line(l.token(n), true)
	last := line(l.token(n), true)
	log := effectLog{path: filepath.Join(t.TempDir(), simulate.LogName)}
	for _, step := range []struct {
		text string
		want uint16
	}{{whole + last[:9], 1}, {whole + last[:9], 1}, {whole + last, 2}, {whole + last, 2}} {
		if err := os.WriteFile(log.path, []byte(step.text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := log.read(l.book); err != nil {
			t.Fatal(err)
		}
		if got := l.shots[n].effects; got != step.want {
			t.Errorf("got %d effects, want %d", got, step.want)
		}
	}
	if got := l.shots[n].wire; got != time.Unix(7, 0).UnixNano() {
		t.Errorf("got %d on the wire, want the first entry's time", got)
	}
}

func TestCounters(t *testing.T) {
	t.Parallel()
	var c counters
	for line := range strings.Lines(`# HELP notifier_finished_total Deliveries that ended.
notifier_finished_total{channel="apns",reason="",state="sent",type="a"} 3
notifier_finished_total{channel="email",reason="",state="sent",type="a"} 2e+00
notifier_finished_total{channel="apns",reason="refused",state="rejected",type="a"} 40
notifier_finished_total{channel="apns",reason="",state="sent",type="ab"} 500
notifier_ledger_commits_total 7
`) {
		if err := c.add(strings.TrimSpace(line), "a"); err != nil {
			t.Fatal(err)
		}
	}
	if want := (counters{sent: 5, commits: 7}); c != want {
		t.Errorf("got %+v, want %+v", c, want)
	}
	if err := c.add("notifier_ledger_commits_total many", "a"); err == nil {
		t.Error("a value that is no number was taken")
	}
}

func TestBenchArithmetic(t *testing.T) {
	t.Parallel()
	var all []time.Duration
	for i := 200; i > 0; i-- {
		all = append(all, time.Duration(i)*time.Millisecond)
	}
	if got, want := latencyOf(all), (latency{P50: 100, P99: 198}); got != want {
		t.Errorf("percentiles of 1 to 200: got %v, want %v", got, want)
	}
	if got, want := latencyOf([]time.Duration{time.Second}), (latency{P50: 1000, P99: 1000}); got != want {
		t.Errorf("percentiles of one: got %v, want %v", got, want)
	}
	if got := latencyOf(nil); got != (latency{}) {
		t.Errorf("percentiles of none: got %v", got)
	}
	for _, c := range []struct {
		of   []float64
		want float64
	}{{nil, 0}, {[]float64{3}, 3}, {[]float64{9, 1}, 5}, {[]float64{5, 100, 1}, 5}} {
		if got := median(c.of); got != c.want {
			t.Errorf("median of %v: got %v, want %v", c.of, got, c.want)
		}
	}
	if got := ratios([]float64{1, 9}, []float64{2, 3, 4}); !cmp.Equal(got, []float64{0.5, 3}) {
		t.Errorf("ratios: got %v", got)
	}
	if got := slope([]float64{10, 12, 14, 16}); got != 2 {
		t.Errorf("slope: got %v, want 2", got)
	}
	if got := slope([]float64{1}); got != 0 {
		t.Errorf("slope of one: got %v, want 0", got)
	}
}
