package policy_test

import (
	"encoding/json"
	"errors"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/seed-4b260dfd/notifier"
	"github.com/seed-4b260dfd/notifier/policy"
)

// good loads testdata/good, which has no problem.
func good(t *testing.T) *policy.Set {
	t.Helper()
	set, problems := policy.Load(os.DirFS("testdata"), "good")
	if len(problems) > 0 {
		t.Fatalf("problems: %v", problems)
	}
	return set
}

// one loads a single policy, which has no error.
func one(t *testing.T, src string) *policy.Policy {
	t.Helper()
	set, problems := policy.Load(fstest.MapFS{"t.yaml": {Data: []byte(src)}}, ".")
	for _, p := range problems {
		if !p.Warning {
			t.Fatalf("problem: %v", p)
		}
	}
	return set.Policy("t")
}

func TestLoad(t *testing.T) {
	t.Parallel()
	set := good(t)
	if diff := cmp.Diff([]string{"order_shipped", "weekly_digest"}, set.Types()); diff != "" {
		t.Fatalf("types (-want +got):\n%s", diff)
	}
	want := &policy.Policy{
		Type: "order_shipped", File: "good/order_shipped.yaml", Description: "Tells a buyer that an order left the warehouse.",
		Order: notifier.OrderSendFirst,
		Channels: []policy.Channel{
			{Channel: notifier.ChannelAPNs, Account: "shop", Template: "order", Collapse: "order-{{.order_id}}", SendTimeout: 20 * time.Second},
			{Channel: notifier.ChannelEmail, Template: "order_shipped"},
			{Channel: notifier.ChannelWebhook, Template: "order_shipped"},
		},
		Route: policy.RouteAll,
		Data: map[string]policy.Datum{"order_id": {Required: true}, "note": {}, "pin": {Code: true, Secret: true},
			"token": {Secret: true}, "unread": {Delta: true}},
		Lease: 2 * time.Minute, DedupeWindow: 100 * time.Hour, ExpiresAfter: 12 * time.Hour, Unknown: notifier.UnknownStop, Tombstone: 10 * time.Minute,
		RedisDown: notifier.RedisDownProceed,
		// The folder's max and max_attempts lie under what the type says.
		Retry: notifier.Retry{Initial: time.Second, Factor: 1.5, Max: 30 * time.Minute, MaxAttempts: 5, MaxUnknown: 4},
		Caps: []policy.Cap{
			{Name: "per-order", Per: []string{"recipient", "order_id"}, On: []notifier.Channel{notifier.ChannelAPNs, notifier.ChannelEmail}, Limit: 3, Window: time.Hour, Then: notifier.CapSuppress},
			{Name: "hourly", Per: []string{"recipient"}, Limit: 5, Window: time.Hour, Then: notifier.CapSuppress},
		},
		Priority: notifier.PriorityHigh,
	}
	ignore := cmp.Options{cmpopts.IgnoreUnexported(policy.Policy{}, policy.Channel{}), cmpopts.IgnoreFields(policy.Policy{}, "Version")}
	if diff := cmp.Diff(want, set.Policy("order_shipped"), ignore); diff != "" {
		t.Errorf("order_shipped (-want +got):\n%s", diff)
	}
	want = &policy.Policy{
		Type: "weekly_digest", File: "good/weekly_digest.yaml", Order: notifier.OrderClaimFirst, Route: policy.RouteAll,
		Channels: []policy.Channel{{Channel: notifier.ChannelEmail, Template: "weekly_digest"}}, Data: map[string]policy.Datum{},
		Lease: time.Minute, DedupeWindow: 168 * time.Hour, ExpiresAfter: 24 * time.Hour, Unknown: notifier.UnknownStop, Tombstone: 15 * time.Minute,
		RedisDown: notifier.RedisDownWait,
		Retry:     notifier.Retry{Initial: 5 * time.Second, Factor: 4, Max: 30 * time.Minute, MaxAttempts: 5},
		Caps:      []policy.Cap{{Name: "daily", Per: []string{"recipient"}, Limit: 10, Window: 24 * time.Hour, Then: notifier.CapDefer}},
		Priority:  notifier.PriorityBulk,
	}
	if diff := cmp.Diff(want, set.Policy("weekly_digest"), ignore); diff != "" {
		t.Errorf("weekly_digest (-want +got):\n%s", diff)
	}
	if set.Policy("absent") != nil {
		t.Error("a type without a file has a policy")
	}
}

func TestLoad_BuiltInDefaults(t *testing.T) {
	t.Parallel()
	p := one(t, "order: send_first\nchannels: [{channel: apns}]\nexpires_after: 1h\n")
	want := &policy.Policy{
		Type: "t", File: "t.yaml", Order: notifier.OrderSendFirst, Route: policy.RouteAll,
		Channels: []policy.Channel{{Channel: notifier.ChannelAPNs, Template: "t"}}, Data: map[string]policy.Datum{},
		Lease: 2 * time.Minute, DedupeWindow: 168 * time.Hour, ExpiresAfter: time.Hour, Unknown: notifier.UnknownResend, Tombstone: 15 * time.Minute,
		RedisDown: notifier.RedisDownProceed,
		Retry:     notifier.Retry{Initial: 5 * time.Second, Factor: 4, Max: time.Hour, MaxAttempts: 8},
		Priority:  notifier.PriorityNormal,
	}
	if diff := cmp.Diff(want, p, cmpopts.IgnoreUnexported(policy.Policy{}, policy.Channel{}), cmpopts.IgnoreFields(policy.Policy{}, "Version")); diff != "" {
		t.Errorf("policy (-want +got):\n%s", diff)
	}
}

func TestLoad_RedisDownAgainstTheOrdersDefault(t *testing.T) {
	t.Parallel()
	p := one(t, "order: send_first\nchannels: [{channel: apns}]\nexpires_after: 1h\nredis_down: wait\n")
	if p.RedisDown != notifier.RedisDownWait {
		t.Errorf("got %q, want wait", p.RedisDown)
	}
	q := one(t, "order: claim_first\nchannels: [{channel: apns}]\nredis_down: proceed\n")
	if q.RedisDown != notifier.RedisDownProceed {
		t.Errorf("got %q, want proceed", q.RedisDown)
	}
}

func TestLoad_NothingThere(t *testing.T) {
	t.Parallel()
	for _, dir := range []string{".", "absent"} {
		set, problems := policy.Load(fstest.MapFS{".git/x.yaml": {}, "README.md": {}}, dir)
		if len(set.Types()) > 0 || len(problems) > 0 {
			t.Errorf("%s: got %v, %v, want nothing", dir, set.Types(), problems)
		}
	}
}

func TestLoad_WhatCouldBeRead(t *testing.T) {
	t.Parallel()
	set, problems := policy.Load(fstest.MapFS{
		"p/broken.yaml": {Data: []byte("order: [")},
		"p/sound.yaml":  {Data: []byte("order: claim_first\nchannels: [{channel: email}]\n")},
	}, "p")
	if diff := cmp.Diff([]string{"sound"}, set.Types()); diff != "" || len(problems) != 1 || problems[0].File != "p/broken.yaml" {
		t.Errorf("types (-want +got):\n%sproblems: %v", diff, problems)
	}
}

func TestVersion_SameUnderOrderAndComments(t *testing.T) {
	t.Parallel()
	src, err := os.ReadFile("testdata/good/order_shipped.yaml")
	if err != nil {
		t.Fatal(err)
	}
	// A block is a field with what is indented below it.
	var blocks []string
	for _, line := range strings.SplitAfter(string(src), "\n") {
		if len(blocks) > 0 && strings.HasPrefix(line, " ") {
			blocks[len(blocks)-1] += line
		} else if line != "" {
			blocks = append(blocks, line)
		}
	}
	want := one(t, string(src)).Version
	if !strings.HasPrefix(want, "sha256:") || len(want) != len("sha256:")+64 {
		t.Fatalf("version %q is not sha256 and 64 digits", want)
	}
	random := rand.New(rand.NewPCG(1, 2))
	for range 100 {
		random.Shuffle(len(blocks), func(i, j int) { blocks[i], blocks[j] = blocks[j], blocks[i] })
		shuffled := strings.Join(blocks, "# a comment\n\n")
		if got := one(t, shuffled).Version; got != want {
			t.Fatalf("got %s, want %s, of:\n%s", got, want, shuffled)
		}
	}
}

func TestVersion_ChangesWithWhatItDoes(t *testing.T) {
	t.Parallel()
	base := "order: claim_first\nchannels: [{channel: apns}, {channel: email}]\n"
	seen := map[string]string{one(t, base).Version: base}
	for _, other := range []string{
		"order: claim_first\nchannels: [{channel: email}, {channel: apns}]\n",
		"order: send_first\nexpires_after: 24h\nchannels: [{channel: apns}, {channel: email}]\n",
		base + "lease: 1m\n", base + "dedupe_window: 1h\n", base + "expires_after: 1h\n", base + "tombstone: 1m\n", base + "priority: high\n",
		base + "data: {a: {}}\n", base + "data: {a: {required: true}}\n", base + "data: {a: {secret: true}}\n", base + "data: {a: {delta: true}}\n",
		base + "retry: {initial: 1s}\n", base + "retry: {factor: 2}\n", base + "retry: {max: 2h}\n", base + "retry: {max_attempts: 2}\n", base + "retry: {max_unknown: 2}\n",
		base + "caps: [{name: a, limit: 1, window: 1h}]\n", base + "caps: [{name: a, limit: 1, window: 1h, then: defer}]\n",
		"order: claim_first\nchannels: [{channel: apns, collapse: x}, {channel: email}]\n",
		"order: claim_first\nchannels: [{channel: apns, account: x}, {channel: email}]\n",
		"order: claim_first\nchannels: [{channel: apns, template: x}, {channel: email}]\n",
		"order: claim_first\nchannels: [{channel: apns, send_timeout: 1m}, {channel: email}]\n",
	} {
		v := one(t, other).Version
		if was, again := seen[v]; again {
			t.Errorf("one version for\n%sand\n%s", was, other)
		}
		seen[v] = other
	}
	for _, same := range []string{base + "description: x\n", base + "lease: 2m\nroute: all\nunknown: stop\n"} {
		if got := one(t, same).Version; got != one(t, base).Version {
			t.Errorf("another version for\n%s", same)
		}
	}
}

func TestCapsFor(t *testing.T) {
	t.Parallel()
	p := good(t).Policy("order_shipped")
	data := map[string]any{"order_id": "42"}
	names := func(caps []notifier.Cap) (n []string) {
		for _, c := range caps {
			n = append(n, c.Name)
		}
		return n
	}
	email := p.CapsFor("shop", "u_1", notifier.ChannelEmail, data)
	apns := p.CapsFor("shop", "u_1", notifier.ChannelAPNs, data)
	webhook := p.CapsFor("shop", "u_1", notifier.ChannelWebhook, data)
	if diff := cmp.Diff([][]string{{"per-order", "hourly"}, {"per-order", "hourly"}, {"hourly"}}, [][]string{names(email), names(apns), names(webhook)}); diff != "" {
		t.Fatalf("caps by channel (-want +got):\n%s", diff)
	}
	want := notifier.Cap{Name: "per-order", Key: notifier.Child("shop", "u_1", "per-order", "42"), Slot: notifier.Child("shop", "u_1")[:8], Limit: 3, Window: time.Hour, Then: notifier.CapSuppress}
	if diff := cmp.Diff(want, email[0]); diff != "" {
		t.Errorf("cap (-want +got):\n%s", diff)
	}
	if email[0].Key != apns[0].Key {
		t.Error("channels that a cap names do not share its count")
	}
	if email[1].Slot != want.Slot || webhook[0].Slot != want.Slot {
		t.Error("the caps of one recipient do not share a slot")
	}
	if email[1].Key == apns[1].Key {
		t.Error("without on, channels share a count")
	}
	others := [][]notifier.Cap{
		p.CapsFor("other", "u_1", notifier.ChannelEmail, data),
		p.CapsFor("shop", "u_2", notifier.ChannelEmail, data),
		p.CapsFor("shop", "u_1", notifier.ChannelEmail, map[string]any{"order_id": "43"}),
	}
	for i, caps := range others {
		if caps[0].Key == email[0].Key {
			t.Errorf("scope %d shares the count", i)
		}
	}
	for _, same := range []any{42.0, json.Number("42"), 42} {
		if got := p.CapsFor("shop", "u_1", notifier.ChannelEmail, map[string]any{"order_id": same}); got[0].Key != email[0].Key {
			t.Errorf("%T 42 escapes the count of the string 42", same)
		}
	}
}

func TestCheckData(t *testing.T) {
	t.Parallel()
	p := good(t).Policy("order_shipped")
	tests := []struct {
		name string
		data map[string]any
		want *notifier.Error
	}{
		{name: "all there", data: map[string]any{"order_id": "42", "note": nil}},
		{name: "missing", data: map[string]any{}, want: &notifier.Error{Code: notifier.CodeDataMissing, Field: "data.order_id", Message: "the type order_shipped requires this datum"}},
		{name: "null", data: map[string]any{"order_id": nil}, want: &notifier.Error{Code: notifier.CodeDataMissing, Field: "data.order_id", Message: "the type order_shipped requires this datum"}},
		{name: "undeclared", data: map[string]any{"order_id": "42", "orderid": "42"}, want: &notifier.Error{Code: notifier.CodeUnknownField, Field: "data.orderid",
			Message: "the type order_shipped does not declare this datum; allowed: note, order_id, pin, token, unread"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var got *notifier.Error
			errors.As(p.CheckData(tt.data), &got)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("error (-want +got):\n%s", diff)
			}
		})
	}
	if diff := cmp.Diff([]string{"pin", "token"}, p.SecretData()); diff != "" {
		t.Errorf("secret data (-want +got):\n%s", diff)
	}
}

func TestRetryFor(t *testing.T) {
	t.Parallel()
	p := good(t).Policy("weekly_digest")
	for ch, want := range map[notifier.Channel]int{notifier.ChannelAPNs: 5, notifier.ChannelWebhook: 5, notifier.ChannelEmail: 3, notifier.ChannelSMS: 3} {
		got := p.RetryFor(ch)
		if diff := cmp.Diff(notifier.Retry{Initial: 5 * time.Second, Factor: 4, Max: 30 * time.Minute, MaxAttempts: 5, MaxUnknown: want}, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", ch, diff)
		}
	}
	if got := good(t).Policy("order_shipped").RetryFor(notifier.ChannelEmail).MaxUnknown; got != 4 {
		t.Errorf("written max_unknown is %d, want 4", got)
	}
}

func TestCollapseID(t *testing.T) {
	t.Parallel()
	p := good(t).Policy("order_shipped")
	if got, err := p.Channels[0].CollapseID(map[string]any{"order_id": json.Number("42")}); got != "order-42" || err != nil {
		t.Errorf("got %q, %v, want order-42", got, err)
	}
	if got, err := p.Channels[1].CollapseID(nil); got != "" || err != nil {
		t.Errorf("without collapse: got %q, %v", got, err)
	}
	tests := []struct {
		name, want string
		data       map[string]any
	}{
		{"not set", ".order_id is not set", map[string]any{}},
		{"too long", "the collapse id has 2006 bytes; at most 1024 are allowed", map[string]any{"order_id": strings.Repeat("x", 2000)}},
	}
	for _, tt := range tests {
		_, err := p.Channels[0].CollapseID(tt.data)
		want := &notifier.Error{Code: notifier.CodeTemplateFailed, Field: "good/order_shipped.yaml: channels[0].collapse", Message: tt.want}
		if diff := cmp.Diff(error(want), err); diff != "" {
			t.Errorf("%s: error (-want +got):\n%s", tt.name, diff)
		}
	}
}

func TestProblem_NamesTheFileThatSaysIt(t *testing.T) {
	t.Parallel()
	p := good(t).Policy("order_shipped")
	tests := []struct {
		path            []any
		problem, source string
	}{
		{[]any{"channels", 1}, "good/order_shipped.yaml:10", "good/order_shipped.yaml:10"},
		{[]any{"channels", 1, "template"}, "good/order_shipped.yaml:10", "default"},
		{[]any{"retry", "factor"}, "good/order_shipped.yaml:24", "good/order_shipped.yaml:24"},
		{[]any{"retry", "max"}, "good/_defaults.yaml:4", "good/_defaults.yaml:4"},
		{[]any{"redis_down"}, "good/order_shipped.yaml:2", "default"},
	}
	for _, tt := range tests {
		if got := p.Problem(tt.path, "m").Place(); got != tt.problem {
			t.Errorf("%v: problem at %s, want %s", tt.path, got, tt.problem)
		}
		if got := p.Source(tt.path...); got != tt.source {
			t.Errorf("%v: source %s, want %s", tt.path, got, tt.source)
		}
	}
	if w := p.Warning([]any{"lease"}, "odd"); w.String() != "good/order_shipped.yaml:19: warning: odd" {
		t.Errorf("warning %s", w)
	}
}
