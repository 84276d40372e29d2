package fcm

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"time"

	firebase "firebase.google.com/go/v4"
	"firebase.google.com/go/v4/messaging"
	"google.golang.org/api/option"

	"github.com/seed-4b260dfd/notifier"
	"github.com/seed-4b260dfd/notifier/channels"
)

// Sender sends through one account, over one connection.
type Sender struct {
	client *messaging.Client
	tokens *tokens
	// http and forTokens are closed with the sender.
	http, forTokens *http.Client
	// named says that our ids go along in headers. Google has no use for them;
	// what stands in for it writes them into its log.
	named bool
}

// New returns the account's sender. It reads the key file and connects to
// nothing: the first token is fetched by the first attempt.
func New(cfg Config) (*Sender, error) {
	if wrong := cfg.Validate(); len(wrong) > 0 {
		return nil, wrong[0]
	}
	cred, err := cfg.credentials()
	if err != nil {
		return nil, err
	}
	hc, err := channels.NewClient(cfg.AccountConfig, channels.HTTP2)
	if err != nil {
		return nil, err
	}
	hc.Transport = once{hc.Transport}
	forTokens, err := newTokenClient(cfg.AccountConfig)
	if err != nil {
		return nil, err
	}
	// With a client of our own the SDK looks for no credentials by itself.
	opts := []option.ClientOption{option.WithHTTPClient(hc)}
	if base := cfg.base(); base != "" {
		opts = append(opts, option.WithEndpoint(base))
	}
	app, err := firebase.NewApp(context.Background(), &firebase.Config{ProjectID: cred.project}, opts...)
	if err != nil {
		return nil, fmt.Errorf("set up the Firebase SDK: %w", err)
	}
	client, err := app.Messaging(context.Background())
	if err != nil {
		return nil, fmt.Errorf("set up the Firebase SDK: %w", err)
	}
	return &Sender{client: client, tokens: newTokens(cred.token, forTokens), http: hc, forTokens: forTokens, named: cfg.Endpoint != ""}, nil
}

// Close lets idle connections go.
func (s *Sender) Close() error {
	s.http.CloseIdleConnections()
	s.forTokens.CloseIdleConnections()
	return nil
}

// Send makes one request for the message, after one for a token if there is none.
func (s *Sender) Send(ctx context.Context, c *channels.Call) channels.Result {
	token, err := s.tokens.get(ctx)
	if err != nil {
		c.Guard.ProveUnsent()
		return withoutToken(err, time.Now())
	}
	// The rest of the time to live is counted from here: the token may have taken a while.
	m, err := attemptMessage(c.Delivery, time.Now())
	if err != nil {
		return channels.Result{Outcome: notifier.OutcomeRejected, Reason: notifier.ReasonBadContent, ProviderStatus: err.Error()}
	}
	a := &attempt{bearer: token}
	if s.named {
		a.delivery, a.fence = c.Delivery.ID.String(), strconv.FormatInt(c.Fence, 10)
	}
	return s.call(ctx, a, c.Guard, func(ctx context.Context) (string, error) { return s.client.Send(ctx, m) })
}

// call makes the SDK's request and reads what it came to from the guard.
func (s *Sender) call(ctx context.Context, a *attempt, g *channels.Guard, send func(context.Context) (string, error)) channels.Result {
	_, err := send(withAttempt(channels.WithGuard(ctx, g), a))
	if !a.tried && ctx.Err() == nil {
		// The SDK has rules of its own; what breaks them never gets better.
		g.ProveUnsent()
		return channels.Result{Outcome: notifier.OutcomeRejected, Reason: notifier.ReasonBadContent,
			ProviderStatus: "the Firebase SDK does not take the message"}
	}
	got := g.Answer()
	if got == nil {
		return channels.TransportResult(err, g)
	}
	res, unauthenticated := read(got, time.Now())
	if !unauthenticated {
		s.tokens.accept(a.bearer)
		return res
	}
	if s.tokens.reject(a.bearer) {
		res.Again, res.Reason = true, notifier.ReasonNone
	}
	return res
}
