package claims_test

import (
	"context"
	"fmt"
	"time"

	"github.com/seed-4b260dfd/notifier/claims"
)

func ExampleMemory() {
	ctx := context.Background()
	m := claims.NewMemory()

	first := claims.Claim{Key: "order-42/shipped", Fence: 1, Owner: "worker-a"}
	a, err := m.Acquire(ctx, first, time.Minute)
	fmt.Println(a.Status, err)

	// Another worker is told to wait while the first one is at it.
	second := claims.Claim{Key: "order-42/shipped", Fence: 2, Owner: "worker-b"}
	a, err = m.Acquire(ctx, second, time.Minute)
	fmt.Println(a.Status, a.By, err)

	// The effect has taken place: whoever asks within the quarter of an hour
	// learns how it came out.
	if err := m.Settle(ctx, first, "sent", 15*time.Minute); err != nil {
		fmt.Println(err)
	}
	a, err = m.Acquire(ctx, second, time.Minute)
	fmt.Println(a.Status, a.Outcome, err)
	// Output:
	// granted <nil>
	// held worker-a <nil>
	// done sent <nil>
}

func ExampleMemory_Release() {
	ctx := context.Background()
	m := claims.NewMemory()
	c := claims.Claim{Key: "order-42/shipped", Fence: 1, Owner: "worker-a"}
	_, _ = m.Acquire(ctx, c, time.Minute)
	fmt.Println(m.Release(ctx, c))

	next := claims.Claim{Key: "order-42/shipped", Fence: 2, Owner: "worker-b"}
	a, err := m.Acquire(ctx, next, time.Minute)
	fmt.Println(a.Status, err)
	// Output:
	// <nil>
	// granted <nil>
}
