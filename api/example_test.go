package api_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/seed-4b260dfd/notifier"
	"github.com/seed-4b260dfd/notifier/api"
)

// one accepts everything as the same notification.
type one struct{ n notifier.Notification }

func (o *one) Accept(_ context.Context, req notifier.Request) (notifier.Accepted, error) {
	replayed := o.n.Key == req.Key
	o.n.Key, o.n.Type, o.n.Recipient, o.n.State = req.Key, req.Type, req.Recipient, notifier.StatePending
	return notifier.Accepted{ID: o.n.ID, Replayed: replayed}, nil
}

func (o *one) Notification(context.Context, string, notifier.ID) (*notifier.Notification, error) {
	return &o.n, nil
}

func (o *one) ByKey(context.Context, string, string) (*notifier.Notification, error) {
	return &o.n, nil
}

// A request that is sent twice is accepted once; one without a key is refused.
func ExampleNewHandler() {
	ledger := &one{}
	server := httptest.NewServer(api.NewHandler(api.Config{Accepter: ledger, Reader: ledger}))
	defer server.Close()

	body := `{"type": "order_shipped", "recipient": "u_42", "to": {"email": [{"address": "ann@example.com"}]}}`
	for _, key := range []string{"order-42/shipped", "order-42/shipped", ""} {
		r, err := http.NewRequest(http.MethodPost, server.URL+"/v1/notifications", strings.NewReader(body))
		if err != nil {
			fmt.Println(err)
			return
		}
		r.Header.Set("Content-Type", "application/json")
		if key != "" {
			r.Header.Set("Idempotency-Key", key)
		}
		answer, err := server.Client().Do(r)
		if err != nil {
			fmt.Println(err)
			return
		}
		text, _ := io.ReadAll(answer.Body)
		_ = answer.Body.Close()
		fmt.Println(answer.StatusCode, answer.Header.Get("Location"), answer.Header.Get("Idempotent-Replayed"), strings.Contains(string(text), "key_required"))
	}
	// Output:
	// 202 /v1/notifications/ntf_00000000000000000000000000  false
	// 200 /v1/notifications/ntf_00000000000000000000000000 true false
	// 400   true
}
