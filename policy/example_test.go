package policy_test

import (
	"fmt"
	"testing/fstest"

	"github.com/seed-4b260dfd/notifier/policy"
)

func ExampleLoad() {
	folder := fstest.MapFS{
		"policies/order_shipped.yaml": {Data: []byte(`
order: send_first
channels:
  - {channel: apns, collapse: "order-{{.order_id}}"}
  - {channel: email}
data:
  order_id: {required: true}
expires_after: 24h
caps:
  - {name: per-order, per: [recipient, order_id], limit: 3, window: 1h}
`)},
		"policies/weekly_digest.yaml": {Data: []byte(`
order: claim_first
channels: [{channel: email}]
unknown: resend
leese: 5m
`)},
	}
	set, problems := policy.Load(folder, "policies")
	for _, p := range problems {
		fmt.Println(p)
	}
	p := set.Policy("order_shipped")
	id, _ := p.Channels[0].CollapseID(map[string]any{"order_id": "42"})
	fmt.Println(set.Types(), p.Order, id)
	fmt.Println(p.CheckData(map[string]any{}))
	// Output:
	// policies/weekly_digest.yaml:4: unknown: resend is not allowed under claim_first: it would be a second effect; allowed: stop, lookup
	// policies/weekly_digest.yaml:5: unknown field "leese"; allowed: order, description, channels, route, data, lease, dedupe_window, expires_after, unknown, redis_down, tombstone, retry, caps, quiet_hours, priority, unsubscribe
	// [order_shipped weekly_digest] send_first order-42
	// data.order_id: the type order_shipped requires this datum
}
