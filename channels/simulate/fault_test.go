package simulate

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestFaults_InOrderWithTimes(t *testing.T) {
	t.Parallel()
	fs := newFaults(1)
	fs.set([]Fault{
		{Kind: FaultStatus, Status: 500, Delivery: "dlv_2", Times: 1},
		{Kind: FaultStatus, Status: 429, Channel: "apns", Times: 2},
		{Kind: FaultStatus, Status: 410, Address: "a"},
	})
	var got []int
	for _, a := range []asked{
		{channel: "apns", delivery: "dlv_2"}, {channel: "apns", delivery: "dlv_2"}, {channel: "webhook", address: "b"},
		{channel: "apns"}, {channel: "apns"}, {channel: "apns", address: "a"}, {channel: "webhook", path: "a"},
	} {
		a.stage = StageDot
		if f := fs.take(a); f != nil {
			got = append(got, f.Status)
		} else {
			got = append(got, 0)
		}
	}
	if diff := cmp.Diff([]int{500, 429, 0, 429, 0, 410, 410}, got); diff != "" {
		t.Errorf("statuses (-want +got):\n%s", diff)
	}
	if left := fs.all(); len(left) != 1 || left[0].Status != 410 {
		t.Errorf("left: got %+v, want the last one", left)
	}
}

func TestFaults_ChanceFollowsTheSeed(t *testing.T) {
	t.Parallel()
	hits := func(seed uint64) (pattern string, n int) {
		fs := newFaults(seed)
		fs.set([]Fault{{Kind: FaultDropReply, Probability: 0.3}})
		for range 1000 {
			if fs.take(asked{channel: "apns", stage: StageDot}) != nil {
				pattern += "x"
				n++
			} else {
				pattern += "."
			}
		}
		return pattern, n
	}
	first, n := hits(7)
	again, _ := hits(7)
	other, _ := hits(8)
	if first != again {
		t.Error("one seed gave two patterns")
	}
	if first == other {
		t.Error("two seeds gave one pattern")
	}
	if n < 240 || n > 360 {
		t.Errorf("got %d hits of 1000, want about 300", n)
	}
}

func TestCheckFaults_SaysWhatIsAllowed(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		fault Fault
		want  string
	}{
		"channel":      {Fault{Channel: "fax", Kind: FaultHang}, `channel "fax"`},
		"kind":         {Fault{Kind: "explode"}, `kind "explode"`},
		"mail's kind":  {Fault{Channel: "apns", Kind: FaultCloseAfterDot}, `kind "close_after_dot"`},
		"times":        {Fault{Kind: FaultHang, Times: -1}, "times -1"},
		"probability":  {Fault{Kind: FaultHang, Probability: 2}, "probability 2"},
		"no delay":     {Fault{Kind: FaultDelay}, "needs one, such as 2s"},
		"no status":    {Fault{Kind: FaultStatus}, "status 0"},
		"stage":        {Fault{Kind: FaultReply, Status: 451, Stage: "helo"}, `stage "helo"`},
		"rst code":     {Fault{Kind: FaultRSTStream, Code: "OOPS"}, `code "OOPS"`},
		"goaway code":  {Fault{Kind: FaultGoAway, Code: "slow"}, `code "slow"`},
		"receipt":      {Fault{Channel: "sms", Kind: FaultReceipt, Reason: "lost"}, "such as undelivered 30005"},
		"sms's kind":   {Fault{Channel: "webhook", Kind: FaultReceipt, Reason: "none"}, `kind "receipt"`},
		"reason lines": {Fault{Kind: FaultStatus, Status: 500, Reason: "a\r\nb"}, "one line"},
	} {
		err := CheckFaults([]Fault{tt.fault})
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got %v, want %q in it", name, err, tt.want)
		}
	}
}

func TestReadFaults_RoundTrip(t *testing.T) {
	t.Parallel()
	yes := true
	want := []Fault{{Channel: "apns", Address: "a", Delivery: "d", Type: "t", Times: 2, Probability: 0.5, Kind: FaultDelay,
		Delay: 1500 * time.Millisecond, Status: 500, Reason: "r", RetryAfter: "3", HTML: true, Code: "CANCEL", Stage: "dot", Effect: &yes}}
	b, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	got, err := ReadFaults(strings.NewReader(string(b)))
	if err != nil {
		t.Fatalf("%s: %v", b, err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for _, bad := range []string{`[{"kind":"hang","tims":1}]`, `[{"kind":"delay","delay":"soon"}]`, `[] []`, `{`} {
		if _, err := ReadFaults(strings.NewReader(bad)); err == nil {
			t.Errorf("%s was taken", bad)
		}
	}
}

func TestControl_FaultsEffectsInbox(t *testing.T) {
	t.Parallel()
	s := start(t)
	put := func(body string) int {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPut, s.HTTPURL()+"/_simulate/faults", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		return read(http.DefaultTransport.RoundTrip(r)).Status
	}
	get := func(path string) string {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.HTTPURL()+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		return read(http.DefaultTransport.RoundTrip(r)).Body
	}
	if got := put(`[{"channel":"webhook","kind":"status","status":500,"times":1}]`); got != http.StatusNoContent {
		t.Fatalf("put: got %d", got)
	}
	if got := put(`[{"kind":"explode"}]`); got != http.StatusBadRequest {
		t.Errorf("put of an unknown kind: got %d, want 400", got)
	}
	if got := strings.TrimSpace(get("/_simulate/faults")); got != `[{"channel":"webhook","times":1,"kind":"status","status":500}]` {
		t.Errorf("faults: got %s", got)
	}
	if got := hook(t, s, "/", nil); got.Status != 500 {
		t.Errorf("first call: got %+v, want 500", got)
	}
	if got := hook(t, s, "/", nil); got.Status != 200 {
		t.Errorf("second call: got %+v, want 200", got)
	}
	if got := strings.TrimSpace(get("/_simulate/faults")); got != `[]` {
		t.Errorf("faults that are used up: got %s", got)
	}
	if got := strings.Count(get("/_simulate/effects"), "\n"); got != 2 {
		t.Errorf("effects: got %d lines, want 2", got)
	}
	if got := strings.Count(get("/_simulate/effects?delivery=dlv_2"), "\n"); got != 0 {
		t.Errorf("another delivery's effects: got %d lines, want 0", got)
	}
	var inbox []Message
	if err := json.Unmarshal([]byte(get("/_simulate/inbox")), &inbox); err != nil || len(inbox) != 1 {
		t.Errorf("inbox: got %+v %v, want the one call that took effect", inbox, err)
	}
}
