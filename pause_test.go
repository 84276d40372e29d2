package notifier_test

import (
	"strings"
	"testing"
	"time"

	"github.com/seed-4b260dfd/notifier"
)

func TestPause_MatchesAndCovers(t *testing.T) {
	t.Parallel()
	d := &notifier.Delivery{
		Tenant: "shop", Type: "digest", Order: notifier.OrderClaimFirst,
		Lane: notifier.Lane{Channel: notifier.ChannelEmail, Account: "main", Priority: notifier.PriorityBulk},
	}
	for name, tc := range map[string]struct {
		p                        notifier.Pause
		matches, covers, selects bool
	}{
		"everything":              {notifier.Pause{}, true, true, false},
		"the type":                {notifier.Pause{Type: "digest"}, true, false, true},
		"another type":            {notifier.Pause{Type: "code"}, false, false, true},
		"the channel":             {notifier.Pause{Channel: notifier.ChannelEmail}, true, true, true},
		"another channel":         {notifier.Pause{Channel: notifier.ChannelAPNs}, false, false, true},
		"the account":             {notifier.Pause{Account: "main"}, true, true, true},
		"channel and account":     {notifier.Pause{Channel: notifier.ChannelEmail, Account: "main"}, true, true, true},
		"another account":         {notifier.Pause{Channel: notifier.ChannelEmail, Account: "bulk"}, false, false, true},
		"the tenant":              {notifier.Pause{Tenant: "shop"}, true, false, true},
		"another tenant":          {notifier.Pause{Tenant: "bank"}, false, false, true},
		"the order":               {notifier.Pause{Order: notifier.OrderClaimFirst}, true, false, true},
		"the other order":         {notifier.Pause{Order: notifier.OrderSendFirst}, false, false, true},
		"all selectors":           {notifier.Pause{Type: "digest", Channel: notifier.ChannelEmail, Account: "main", Tenant: "shop"}, true, false, true},
		"all selectors, but one":  {notifier.Pause{Type: "digest", Channel: notifier.ChannelEmail, Account: "main", Tenant: "bank"}, false, false, true},
		"type within the channel": {notifier.Pause{Type: "digest", Channel: notifier.ChannelEmail}, true, false, true},
	} {
		if got := tc.p.Matches(d); got != tc.matches {
			t.Errorf("%s: matches: got %v, want %v", name, got, tc.matches)
		}
		if got := tc.p.Covers(d.Lane.Channel, d.Lane.Account); got != tc.covers {
			t.Errorf("%s: covers: got %v, want %v", name, got, tc.covers)
		}
		if got := tc.p.Selects(); got != tc.selects {
			t.Errorf("%s: selects: got %v, want %v", name, got, tc.selects)
		}
	}
}

func TestPause_Same(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 12, 1, 9, 0, 0, 0, time.UTC)
	a := notifier.Pause{Type: "digest", Cause: notifier.PauseOperator, Until: at, Why: "a", By: "ann", ID: "pau_a"}
	b := notifier.Pause{Type: "digest", Cause: notifier.PauseOperator, Until: at.Local(), Why: "b", By: "bob", ID: "pau_b"}
	if !a.Same(&b) {
		t.Error("who, why and zone make another pause of it")
	}
	for name, change := range map[string]func(*notifier.Pause){
		"type": func(p *notifier.Pause) { p.Type = "" }, "channel": func(p *notifier.Pause) { p.Channel = "sms" },
		"account": func(p *notifier.Pause) { p.Account = "x" }, "tenant": func(p *notifier.Pause) { p.Tenant = "x" },
		"order": func(p *notifier.Pause) { p.Order = notifier.OrderSendFirst },
		"cause": func(p *notifier.Pause) { p.Cause = notifier.PauseRewound },
		"until": func(p *notifier.Pause) { p.Until = time.Time{} },
	} {
		c := b
		if change(&c); a.Same(&c) {
			t.Errorf("another %s makes no other pause of it", name)
		}
	}
}

func TestPauseID(t *testing.T) {
	t.Parallel()
	a, b := notifier.PauseID(notifier.ID{15: 1}), notifier.PauseID(notifier.ID{15: 2})
	if a == b || !strings.HasPrefix(a, notifier.PausePrefix) || strings.ToLower(a) != a {
		t.Errorf("got %s and %s", a, b)
	}
}
