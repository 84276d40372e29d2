package caps_test

import (
	"context"
	"fmt"
	"time"

	"github.com/seed-4b260dfd/notifier/caps"
)

func ExampleMemory() {
	ctx := context.Background()
	m := caps.NewMemory()
	on := []caps.Cap{{Name: "per_order", Key: "u_42/order-42", Limit: 2, Window: time.Hour}}

	for _, unit := range []string{"shipped", "shipped", "delayed", "delivered"} {
		d, err := m.Spend(ctx, unit, "phone", on)
		if err != nil {
			fmt.Println(err)
		}
		fmt.Println(unit, d.Granted, d.Denied, d.After.Round(time.Minute))
	}

	// The message about the delay provably never left: its unit is free again.
	if err := m.Refund(ctx, "delayed", "phone", on); err != nil {
		fmt.Println(err)
	}
	d, err := m.Spend(ctx, "delivered", "phone", on)
	fmt.Println("delivered", d.Granted, err)
	// Output:
	// shipped true  0s
	// shipped true  0s
	// delayed true  0s
	// delivered false per_order 1h0m0s
	// delivered true <nil>
}
