//lint:file-ignore SA1019 golang.org/x/net/http2 is frozen in favour of net/http; as a raw client it sends once and shows GOAWAY.

package simulate

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

func TestAPNs_RefusesWithAppleReasons(t *testing.T) {
	t.Parallel()
	s := start(t)
	set := func(k, v string) func(*http.Request) { return func(r *http.Request) { r.Header.Set(k, v) } }
	del := func(k string) func(*http.Request) { return func(r *http.Request) { r.Header.Del(k) } }
	path := func(p string) func(*http.Request) { return func(r *http.Request) { r.URL.Path = p } }
	body := func(b string) func(*http.Request) {
		return func(r *http.Request) { r.Body, r.ContentLength = readCloser(b), int64(len(b)) }
	}
	good := newAPNsClient(t, s)
	f := s.Files()
	signed := func(kid, iss string, iat time.Time) func(*http.Request) {
		return set("authorization", "bearer "+good.sign(kid, iss, iat))
	}
	now := time.Now()
	for _, tt := range []struct {
		name   string
		edit   func(*http.Request)
		status int
		reason string
	}{
		{"get", func(r *http.Request) { r.Method, r.Body = http.MethodGet, nil }, 405, "MethodNotAllowed"},
		{"other path", path("/3/devices/1"), 404, "BadPath"},
		{"no token in path", path("/3/device/"), 400, "MissingDeviceToken"},
		{"token not hex", path("/3/device/" + strings.Repeat("z", 64)), 400, "BadDeviceToken"},
		{"token too short", path("/3/device/abcd"), 400, "BadDeviceToken"},
		{"token of nobody", path("/3/device/" + strings.Repeat("0", 64)), 400, "BadDeviceToken"},
		{"no authorization", del("authorization"), 403, "MissingProviderToken"},
		{"basic authorization", set("authorization", "basic abc"), 403, "MissingProviderToken"},
		{"not a token", set("authorization", "bearer abc"), 403, "InvalidProviderToken"},
		{"signature spoilt", set("authorization", "bearer "+good.jwt[:len(good.jwt)-4]+"AAAA"), 403, "InvalidProviderToken"},
		{"other key", signed("OTHERKEY01", f.APNsTeamID, now), 403, "InvalidProviderToken"},
		{"other team", signed(f.APNsKeyID, "OTHERTEAM1", now), 403, "InvalidProviderToken"},
		{"token from the future", signed(f.APNsKeyID, f.APNsTeamID, now.Add(time.Hour)), 403, "InvalidProviderToken"},
		{"token too old", signed(f.APNsKeyID, f.APNsTeamID, now.Add(-61*time.Minute)), 403, "ExpiredProviderToken"},
		{"no topic", del("apns-topic"), 400, "MissingTopic"},
		{"other topic", set("apns-topic", "com.example.other"), 400, "TopicDisallowed"},
		{"id in capitals", set("apns-id", "00112233-4455-8677-8899-AABBCCDDEEFF"), 400, "BadMessageId"},
		{"id short", set("apns-id", "0011"), 400, "BadMessageId"},
		{"collapse id of 65", set("apns-collapse-id", strings.Repeat("c", 65)), 400, "BadCollapseId"},
		{"expiration in words", set("apns-expiration", "tomorrow"), 400, "BadExpirationDate"},
		{"no push type", del("apns-push-type"), 400, "InvalidPushType"},
		{"other push type", set("apns-push-type", "loud"), 400, "InvalidPushType"},
		{"priority 7", set("apns-priority", "7"), 400, "BadPriority"},
		{"background at 10", func(r *http.Request) {
			r.Header.Set("apns-push-type", "background")
			r.Header.Set("apns-priority", "10")
		}, 400, "BadPriority"},
		{"header twice", func(r *http.Request) { r.Header.Add("apns-priority", "5"); r.Header.Add("apns-priority", "5") }, 400, "DuplicateHeaders"},
		{"no body", body(""), 400, "PayloadEmpty"},
		{"no JSON object", body(`"x"`), 400, "PayloadEmpty"},
		{"4097 bytes", body(payload(4097)), 413, "PayloadTooLarge"},
		{"voip of 5121", func(r *http.Request) { body(payload(5121))(r); r.Header.Set("apns-push-type", "voip") }, 413, "PayloadTooLarge"},
		{"300 kB", body(payload(300 << 10)), 413, "PayloadTooLarge"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := newAPNsClient(t, s)
			got := c.do(c.request(t.Context(), tt.edit))
			if got.Err != nil || got.Status != tt.status || reason(t, got.Body) != tt.reason {
				t.Errorf("got %d %s %v, want %d %s", got.Status, got.Body, got.Err, tt.status, tt.reason)
			}
		})
	}
	t.Cleanup(func() {
		for _, e := range s.Effects() {
			if e.TookEffect {
				t.Errorf("a refused push took effect: %+v", e)
			}
		}
	})
}

// payload is a JSON object of n bytes.
func payload(n int) string {
	const frame = `{"aps":""}`
	return frame[:8] + strings.Repeat("x", n-len(frame)) + frame[8:]
}

func TestAPNs_TakesTheLimits(t *testing.T) {
	t.Parallel()
	s := start(t)
	c := newAPNsClient(t, s)
	for _, edit := range []func(*http.Request){
		func(r *http.Request) { r.Body, r.ContentLength = readCloser(payload(4096)), 4096 },
		func(r *http.Request) {
			r.Body, r.ContentLength = readCloser(payload(5120)), 5120
			r.Header.Set("apns-push-type", "voip")
			r.Header.Set("apns-topic", s.Files().APNsTopic+".voip")
		},
		func(r *http.Request) { r.Header.Set("apns-collapse-id", strings.Repeat("c", 64)) },
		func(r *http.Request) { r.URL.Path = "/3/device/" + strings.Repeat("ab", 100) },
	} {
		if got := c.do(c.request(t.Context(), edit)); got.Err != nil || got.Status != 200 {
			t.Errorf("got %d %s %v, want 200", got.Status, got.Body, got.Err)
		}
	}
}

// A body larger than every window, many times over one connection: windows
// that are not given back would end in a hang.
func TestAPNs_GivesWindowsBack(t *testing.T) {
	t.Parallel()
	s := start(t)
	c := newAPNsClient(t, s)
	for range 5 {
		got := c.do(c.request(t.Context(), func(r *http.Request) { r.Body, r.ContentLength = readCloser(payload(200<<10)), 200<<10 }))
		if got.Err != nil || got.Status != 413 {
			t.Fatalf("got %d %s %v, want 413", got.Status, got.Body, got.Err)
		}
	}
	if got := c.do(c.request(t.Context(), nil)); got.Status != 200 {
		t.Errorf("got %d %s %v, want 200", got.Status, got.Body, got.Err)
	}
}

func TestAPNs_TokenChangesTooSoon(t *testing.T) {
	t.Parallel()
	s := start(t)
	c := newAPNsClient(t, s)
	f := s.Files()
	do := func(token string) (int, string) {
		got := c.do(c.request(t.Context(), func(r *http.Request) { r.Header.Set("authorization", "bearer "+token) }))
		if got.Status == 200 {
			return 200, ""
		}
		return got.Status, reason(t, got.Body)
	}
	first, second := c.jwt, c.sign(f.APNsKeyID, f.APNsTeamID, time.Now())
	if status, _ := do(first); status != 200 {
		t.Fatalf("first token: got %d", status)
	}
	if status, r := do(second); status != 429 || r != "TooManyProviderTokenUpdates" {
		t.Errorf("second token: got %d %s, want 429 TooManyProviderTokenUpdates", status, r)
	}
	if status, _ := do(first); status != 200 {
		t.Errorf("first token again: got %d, want 200", status)
	}
	// One that was refused as expired may be replaced at once.
	if status, r := do(c.sign(f.APNsKeyID, f.APNsTeamID, time.Now().Add(-2*time.Hour))); status != 403 || r != "ExpiredProviderToken" {
		t.Errorf("old token: got %d %s, want 403 ExpiredProviderToken", status, r)
	}
	if status, _ := do(second); status != 200 {
		t.Errorf("new token: got %d, want 200", status)
	}
}

func TestAPNs_SpeaksHTTP2Only(t *testing.T) {
	t.Parallel()
	s := start(t)
	c := newAPNsClient(t, s)
	tr := &http.Transport{TLSClientConfig: c.tr.TLSClientConfig.Clone()}
	tr.TLSClientConfig.NextProtos = []string{"http/1.1"}
	if got := read(tr.RoundTrip(c.request(t.Context(), nil))); got.Err == nil {
		t.Errorf("HTTP/1.1 got an answer: %+v", got)
	}
}

func TestAPNs_Faults(t *testing.T) {
	t.Parallel()
	no := false
	for _, tt := range []struct {
		name  string
		fault Fault
		// What the client sees: a status, or an error that has this text.
		status int
		body   string
		err    string
		// What the log says; no line at all when answer is empty.
		answer    string
		took, may bool
	}{
		{"delay", Fault{Kind: FaultDelay, Delay: time.Millisecond}, 200, "", "", "200", true, true},
		{"drop_reply", Fault{Kind: FaultDropReply}, 0, "", "EOF", "none", true, true},
		{"drop_reply without effect", Fault{Kind: FaultDropReply, Effect: &no}, 0, "", "EOF", "none", false, true},
		{"drop_before", Fault{Kind: FaultDropBefore}, 0, "", "EOF", "", false, false},
		{"truncate", Fault{Kind: FaultTruncate}, 200, `{"rea`, "EOF", "200 truncated", true, true},
		{"500", Fault{Kind: FaultStatus, Status: 500, Reason: "InternalServerError"}, 500, `{"reason":"InternalServerError"}`, "", "500 InternalServerError", false, true},
		{"429", Fault{Kind: FaultStatus, Status: 429, Reason: "TooManyRequests", RetryAfter: "2"}, 429, `{"reason":"TooManyRequests"}`, "", "429 TooManyRequests", false, false},
		{"503 later", Fault{Kind: FaultStatus, Status: 503, RetryAfter: "2"}, 503, `{"reason":""}`, "", "503", false, false},
		{"503 HTML", Fault{Kind: FaultStatus, Status: 503, HTML: true}, 503, "<!DOCTYPE html><html><body><h1>503 </h1></body></html>", "", "503", false, true},
		{"redirect", Fault{Kind: FaultRedirect}, 307, `{"reason":""}`, "", "307", false, true},
		{"refused stream", Fault{Kind: FaultRSTStream, Code: "REFUSED_STREAM"}, 0, "", "REFUSED_STREAM", "rst_stream REFUSED_STREAM", false, false},
		{"reset", Fault{Kind: FaultRSTStream, Code: "INTERNAL_ERROR"}, 0, "", "INTERNAL_ERROR", "rst_stream INTERNAL_ERROR", true, true},
		{"goaway processed", Fault{Kind: FaultGoAway, Code: GoAwayProcessed}, 0, "", "LastStreamID=1", "goaway graceful_processed", true, true},
		{"goaway unprocessed", Fault{Kind: FaultGoAway, Code: GoAwayUnprocessed}, 0, "", "graceful shutdown GOAWAY", "goaway graceful_unprocessed", false, false},
		{"goaway error", Fault{Kind: FaultGoAway, Code: GoAwayError}, 0, "", "ENHANCE_YOUR_CALM", "goaway error", false, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := start(t)
			tt.fault.Channel, tt.fault.Times = "apns", 1
			s.SetFaults([]Fault{tt.fault})
			c := newAPNsClient(t, s)
			got := c.do(c.request(t.Context(), nil))
			if got.Status != tt.status || got.Body != tt.body || (got.Err == nil) != (tt.err == "") || got.Err != nil && !strings.Contains(got.Err.Error(), tt.err) {
				t.Errorf("got %+v", got)
			}
			if tt.fault.RetryAfter != "" && got.Header.Get("Retry-After") != tt.fault.RetryAfter {
				t.Errorf("Retry-After: got %q, want %q", got.Header.Get("Retry-After"), tt.fault.RetryAfter)
			}
			if tt.answer == "" {
				if all := s.Effects(); len(all) != 0 {
					t.Errorf("got log lines %+v, want none", all)
				}
			} else if e := only(t, s); e.Answer != tt.answer || e.TookEffect != tt.took || e.MayTakeEffect != tt.may {
				t.Errorf("log: got %+v, want answer %q, took %v, may %v", e, tt.answer, tt.took, tt.may)
			}
			if again := c.do(c.request(t.Context(), nil)); again.Err != nil || again.Status != 200 {
				t.Errorf("the next push: got %+v, want 200", again)
			}
		})
	}
}

func TestAPNs_DeadTokenSaysSince(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.SetFaults([]Fault{{Kind: FaultDeadToken, Address: deviceToken}})
	c := newAPNsClient(t, s)
	got := c.do(c.request(t.Context(), nil))
	if got.Status != 410 || reason(t, got.Body) != "Unregistered" || !strings.Contains(got.Body, `"timestamp":`) {
		t.Errorf("got %d %s, want 410 Unregistered with a timestamp", got.Status, got.Body)
	}
}

// A hung push is in the log while its sender waits, and its stream is free
// again once the sender has given up.
func TestAPNs_HangLogsAndWaits(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.SetFaults([]Fault{{Kind: FaultHang, Times: 1}})
	c := newAPNsClient(t, s)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan answerOf, 1)
	go func() { done <- c.do(c.request(ctx, nil)) }()
	eventually(t, func() bool { return len(s.Effects()) == 1 })
	if got := c.do(c.request(t.Context(), nil)); got.Status != 200 {
		t.Errorf("a neighbour: got %+v, want 200", got)
	}
	select {
	case got := <-done:
		t.Fatalf("the hung push got an answer: %+v", got)
	default:
	}
	cancel()
	if got := <-done; got.Err == nil {
		t.Errorf("got %+v, want the context's error", got)
	}
	if e := s.Effects()[0]; !e.TookEffect || e.Answer != "none" {
		t.Errorf("log: got %+v", e)
	}
}

// Pushes that came in before the GOAWAY are answered; the one that it leaves
// out is not processed.
func TestAPNs_GoAwaySparesNeighbours(t *testing.T) {
	t.Parallel()
	s := start(t)
	c := newAPNsClient(t, s)
	other := strings.Repeat("ab", 32)
	s.SetFaults([]Fault{
		{Kind: FaultDelay, Delay: 300 * time.Millisecond, Times: 1},
		{Kind: FaultGoAway, Code: GoAwayUnprocessed, Address: other, Times: 1},
	})
	neighbour := make(chan answerOf, 1)
	go func() { neighbour <- c.do(c.request(t.Context(), nil)) }()
	eventually(t, func() bool { return len(s.Effects()) == 1 })
	got := c.do(c.request(t.Context(), func(r *http.Request) { r.URL.Path = "/3/device/" + other }))
	if got.Err == nil {
		t.Errorf("the push beyond the GOAWAY: got %+v, want an error", got)
	}
	if got := <-neighbour; got.Err != nil || got.Status != 200 {
		t.Errorf("the neighbour: got %+v, want 200", got)
	}
}

// A push whose body was still coming in when the GOAWAY left it out is not
// processed when the rest arrives.
func TestAPNs_GoAwayLeavesOutWhatIsComingIn(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.SetFaults([]Fault{{Kind: FaultGoAway, Code: GoAwayUnprocessed, Delivery: "dlv_3", Times: 1}})
	c := newAPNsClient(t, s)
	cfg := c.tr.TLSClientConfig.Clone()
	cfg.NextProtos = []string{"h2"}
	nc, err := tls.Dial("tcp", strings.TrimPrefix(s.APNsURL(), "https://"), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	fr := http2.NewFramer(nc, nc)
	var block bytes.Buffer
	enc := hpack.NewEncoder(&block)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	headers := func(id uint32) {
		block.Reset()
		for _, h := range [][2]string{{":method", "POST"}, {":scheme", "https"}, {":authority", "localhost"}, {":path", "/3/device/" + deviceToken},
			{"authorization", "bearer " + c.jwt}, {"apns-topic", s.Files().APNsTopic}, {"apns-push-type", "alert"}, {"x-delivery", fmt.Sprintf("dlv_%d", id)}} {
			must(enc.WriteField(hpack.HeaderField{Name: h[0], Value: h[1]}))
		}
		must(fr.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: block.Bytes(), EndHeaders: true}))
	}
	until := func(ok func(http2.Frame) bool) {
		t.Helper()
		for {
			f, err := fr.ReadFrame()
			must(err)
			if ok(f) {
				return
			}
		}
	}
	_, err = nc.Write([]byte(http2.ClientPreface))
	must(err)
	must(fr.WriteSettings())
	headers(1)
	headers(3)
	must(fr.WriteData(3, true, []byte("{}")))
	until(func(f http2.Frame) bool {
		g, ok := f.(*http2.GoAwayFrame)
		if ok && (g.LastStreamID != 0 || g.ErrCode != http2.ErrCodeNo) {
			t.Errorf("got %v, want NO_ERROR with last stream 0", g)
		}
		return ok
	})
	must(fr.WriteData(1, true, []byte("{}")))
	must(fr.WritePing(false, [8]byte{1}))
	until(func(f http2.Frame) bool { p, ok := f.(*http2.PingFrame); return ok && p.IsAck() })
	if e := only(t, s); e.Delivery != "dlv_3" || e.TookEffect || e.MayTakeEffect {
		t.Errorf("log: got %+v, want the push that met the fault, without effect", e)
	}
}
