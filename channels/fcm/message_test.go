package fcm

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"math/big"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"firebase.google.com/go/v4/messaging"
	"github.com/google/go-cmp/cmp"

	"github.com/seed-4b260dfd/notifier"
)

func TestTag(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{"order-42": "order-42", "two words": "two words", strings.Repeat("x", 63): strings.Repeat("x", 63)} {
		if got := tag(&notifier.Delivery{CollapseID: in, EffectKey: "effect"}); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
	long := strings.Repeat("x", 64)
	sum := sha256.Sum256([]byte(long))
	// The last one is another's hash, written out: it is no better off for it.
	seen := map[string]string{}
	for _, in := range []string{long, long + "y", " order-42", "order-42 ", "commande-é", "a\r\nb", "a\x00", "\x7f", "語", " ", hex.EncodeToString(sum[:])} {
		got := tag(&notifier.Delivery{CollapseID: in})
		if other, taken := seen[got]; taken || len(got) != maxTagBytes {
			t.Errorf("%q: got %q, which is %q's too", in, got, other)
		}
		seen[got] = in
	}
}

var (
	legalTag   = regexp.MustCompile(`^[\x20-\x7e]{1,64}$`)
	legalTopic = regexp.MustCompile(`^[A-Za-z0-9_-]{1,32}$`) // RFC 8030 section 5.4
)

// checkIDs holds what is made of a collapse id to what providers take.
func checkIDs(t *testing.T, s string) (tagged, topical string) {
	t.Helper()
	d := &notifier.Delivery{CollapseID: s, EffectKey: strings.Repeat("0", 64)}
	tagged, topical = tag(d), topic(d)
	if !legalTag.MatchString(tagged) || strings.TrimSpace(tagged) != tagged {
		t.Fatalf("%q: the tag %q is not a legal header", s, tagged)
	}
	if !legalTopic.MatchString(topical) {
		t.Fatalf("%q: %q is not a legal topic", s, topical)
	}
	if tag(d) != tagged || topic(d) != topical {
		t.Fatalf("%q: not the same the second time", s)
	}
	var wire bytes.Buffer
	if err := (http.Header{"Apns-Collapse-Id": {tagged}}).Write(&wire); err != nil || wire.String() != "Apns-Collapse-Id: "+tagged+"\r\n" {
		t.Fatalf("%q: the tag %q arrived as %q", s, tagged, wire.String())
	}
	return tagged, topical
}

// Any collapse id gives ids that are legal, always the same, and another's never.
func FuzzTag(f *testing.F) {
	for _, s := range []string{"", "order-42", "語", "a\r\nb", " x", strings.Repeat("é", 40), "\xff\xfe", strings.Repeat("x", 65)} {
		f.Add(s, s+"x")
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		tagA, topicA := checkIDs(t, a)
		tagB, topicB := checkIDs(t, b)
		if a != b && a != "" && b != "" && (tagA == tagB || topicA == topicB) {
			t.Fatalf("%q and %q: %q, %q and %q, %q", a, b, tagA, topicA, tagB, topicB)
		}
	})
}

// The same over many random texts in every run of the tests.
func TestTag_AnyText(t *testing.T) {
	t.Parallel()
	tags, topics := map[string]string{}, map[string]string{}
	for range 3000 {
		n, err := rand.Int(rand.Reader, big.NewInt(90))
		if err != nil {
			t.Fatal(err)
		}
		raw := make([]byte, n.Int64()+1)
		_, _ = rand.Read(raw)
		s := strings.ToValidUTF8(string(raw), "語")
		if raw[0]%2 == 0 {
			s = hex.EncodeToString(raw)
		}
		tagged, topical := checkIDs(t, s)
		if other, taken := tags[tagged]; taken && other != s {
			t.Fatalf("%q and %q have the tag %q", s, other, tagged)
		}
		if other, taken := topics[topical]; taken && other != s {
			t.Fatalf("%q and %q have the topic %q", s, other, topical)
		}
		tags[tagged], topics[topical] = s, s
	}
}

func TestAttemptMessage(t *testing.T) {
	t.Parallel()
	now := time.Unix(1764553976, 500)
	d := &notifier.Delivery{Type: "order_shipped", Address: notifier.Address{Value: "device"}, CollapseID: "order-42", EffectKey: notifier.EffectKey("t", "k", "fcm", "device"),
		ExpiresAt: time.Unix(1764557576, 0), Lane: notifier.Lane{Priority: notifier.PriorityNormal}}
	shown := prepared(t, map[string]any{"title": "T"})
	unseen := prepared(t, map[string]any{"data": map[string]any{"a": "1"}})
	id := `"notifier_id":"` + notifier.UUID(d.EffectKey) + `"`
	for _, test := range []struct {
		name     string
		content  notifier.Content
		priority notifier.Priority
		expires  time.Time
		want     string
	}{
		{"shown", shown, notifier.PriorityNormal, d.ExpiresAt,
			`{"data":{` + id + `},"notification":{"title":"T"},"android":{"ttl":"3599s","collapse_key":"order_shipped","priority":"high","notification":{"tag":"order-42"}},` +
				`"webpush":{"headers":{"TTL":"3599","Topic":"order-42","Urgency":"normal"}},` +
				`"apns":{"headers":{"apns-collapse-id":"order-42","apns-expiration":"1764557576","apns-priority":"10","apns-push-type":"alert"}},"token":"device"}`},
		{"bulk, for longer than FCM keeps it", shown, notifier.PriorityBulk, now.AddDate(1, 0, 0),
			`{"data":{` + id + `},"notification":{"title":"T"},"android":{"ttl":"2419200s","collapse_key":"order_shipped","priority":"normal","notification":{"tag":"order-42"}},` +
				`"webpush":{"headers":{"TTL":"2419200","Topic":"order-42","Urgency":"low"}},` +
				`"apns":{"headers":{"apns-collapse-id":"order-42","apns-expiration":"1796089976","apns-priority":"10","apns-push-type":"alert"}},"token":"device"}`},
		{"unseen, expired and high", unseen, notifier.PriorityHigh, time.Time{},
			`{"data":{"a":"1",` + id + `},"android":{"ttl":"0s","priority":"normal"},"webpush":{"headers":{"TTL":"0","Urgency":"low"}},` +
				`"apns":{"headers":{"apns-expiration":"0","apns-priority":"5","apns-push-type":"background"},"payload":{"aps":{"content-available":1}}},"token":"device"}`},
	} {
		d := *d
		d.Content, d.Lane.Priority, d.ExpiresAt = test.content, test.priority, test.expires
		m, err := attemptMessage(&d, now)
		if err != nil {
			t.Fatal(err)
		}
		got, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(test.want, string(got)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.name, diff)
		}
		again, err := json.Marshal(mustMessage(t, &d, now))
		if err != nil || !bytes.Equal(got, again) {
			t.Errorf("%s: the same attempt gave other bytes", test.name)
		}
	}
	for _, broken := range []string{``, `{}`, `[]`, `{"notification":7}`, `{"push_type":"alert","payload":{}}`} {
		d.Content = notifier.Content(broken)
		if _, err := attemptMessage(d, now); err == nil {
			t.Errorf("%s passed for a push", broken)
		}
	}
}

func mustMessage(t *testing.T, d *notifier.Delivery, now time.Time) *messaging.Message {
	t.Helper()
	m, err := attemptMessage(d, now)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func prepared(t *testing.T, fields map[string]any) notifier.Content {
	t.Helper()
	c, err := Kind{}.Prepare(fields)
	if err != nil {
		t.Fatal(err)
	}
	return c
}
