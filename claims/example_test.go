package claims_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/seed-4b260dfd/notifier/claims"
	"github.com/seed-4b260dfd/notifier/redisscript"
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

// Any number of processes share the claims of one prefix. The fence comes from
// the ledger that they share as well.
func ExampleRedis() {
	client, err := redisscript.Open("redis+sentinel://10.0.0.1,10.0.0.2,10.0.0.3/main")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = client.Close() }()
	store := claims.NewRedis(redisscript.NewRunner(client), "0197f3a1-c9b0-7d8e-9f00-3f5b8a6c1d2e")

	ctx := context.Background()
	c := claims.Claim{Key: "order-42/shipped", Fence: 1, Owner: "worker-a"}
	a, err := store.Acquire(ctx, c, time.Minute)
	switch {
	case errors.Is(err, redisscript.ErrUnreachable):
		fmt.Println("wait, or go on with the ledger alone")
	case err != nil:
		fmt.Println(err)
	case a.Status == claims.StatusGranted:
		fmt.Println("ask the ledger, then act")
	case a.Status == claims.StatusDone:
		fmt.Println("it came out as", a.Outcome)
	}
}

// Without a ledger the store numbers the attempts. The owner names the attempt,
// not the process, and what is acted upon keeps the highest fence.
func ExampleMemory_AcquireNext() {
	ctx := context.Background()
	m := claims.NewMemory() // or a Redis
	var row struct {
		text  string
		fence int64
	}
	write := func(text string, fence int64) {
		if fence < row.fence {
			fmt.Println("refused:", text)
			return
		}
		row.text, row.fence = text, fence
		fmt.Println("written:", text)
	}

	slow, err := m.AcquireNext(ctx, "order-42", "worker-a/attempt-1", time.Millisecond)
	fmt.Println(slow.Status, err)
	<-time.After(5 * time.Millisecond) // worker-a is held up past the end of its claim

	quick, err := m.AcquireNext(ctx, "order-42", "worker-b/attempt-1", time.Minute)
	fmt.Println(quick.Status, err)
	write("by worker-b", quick.Fence)
	write("by worker-a, which is late", slow.Fence)

	c := claims.Claim{Key: "order-42", Fence: quick.Fence, Owner: "worker-b/attempt-1"}
	if err := m.Settle(ctx, c, "shipped", 15*time.Minute); err != nil {
		fmt.Println(err)
	}
	late, err := m.AcquireNext(ctx, "order-42", "worker-a/attempt-2", time.Minute)
	fmt.Println(late.Status, late.Outcome, err)
	// Output:
	// granted <nil>
	// granted <nil>
	// written: by worker-b
	// refused: by worker-a, which is late
	// done shipped <nil>
}
