package email

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"net/mail"
	"strings"
	"sync"
	"time"

	"github.com/emersion/go-smtp"

	"github.com/seed-4b260dfd/notifier"
	"github.com/seed-4b260dfd/notifier/channels"
)

const (
	// dotTimeout is what the reply to the final dot is given, where the
	// attempt is long enough.
	dotTimeout = 10 * time.Minute
	// openTimeout is what the way to the final dot is given at least.
	openTimeout = 2 * time.Minute
	// idleTime lies below the times after which servers hang up.
	idleTime = 20 * time.Second
	maxIdle  = 8
)

// Sender sends through one account. Connections are kept for the next mail
// after a 250 and closed after everything else.
type Sender struct {
	server server
	tls    *tls.Config
	from   *mail.Address

	mu     sync.Mutex
	idle   []*session
	closed bool
}

// New returns the account's sender. It connects to nothing.
func New(cfg Config) (*Sender, error) {
	if wrong := cfg.Validate(); len(wrong) > 0 {
		return nil, wrong[0]
	}
	s := &Sender{}
	s.server, _ = cfg.server() // validated
	var err error
	if s.from, err = parseMailbox(cfg.From); err != nil {
		return nil, err
	}
	if s.tls, err = cfg.AccountConfig.TLS(); err != nil {
		return nil, err
	}
	s.tls.ServerName = s.server.host
	return s, nil
}

// Close closes the connections that are idle.
func (s *Sender) Close() error {
	s.mu.Lock()
	idle := s.idle
	s.idle, s.closed = nil, true
	s.mu.Unlock()
	for _, c := range idle {
		c.close()
	}
	return nil
}

// Send makes one attempt. All of the mail is written before the server is
// spoken to, and nothing but the reply to the final dot counts as sent.
func (s *Sender) Send(ctx context.Context, call *channels.Call) channels.Result {
	m, refused := s.prepare(call)
	if refused != nil {
		return *refused
	}
	// The way to the dot has a time of its own, so that a slow server leaves
	// enough for the reply. Ending early here costs nothing: nothing was sent.
	open, cancel := opening(ctx)
	defer cancel()
	c, at, err := s.begin(open, m)
	if err != nil {
		call.Guard.ProveUnsent()
		return read(ctx, at, err)
	}
	res, ok := c.deliver(ctx, open, call.Guard, m)
	if ok {
		s.keep(c)
	} else {
		c.close()
	}
	return res
}

func (s *Sender) prepare(call *channels.Call) (*message, *channels.Result) {
	d := call.Delivery
	if err := (Kind{}).CheckAddress(d.Address); err != nil {
		call.Guard.ProveUnsent()
		return nil, &channels.Result{Outcome: notifier.OutcomeRejected, Reason: notifier.ReasonInvalidAddress,
			ProviderStatus: "the address is not one that a mail can have"}
	}
	var c content
	err := json.Unmarshal(d.Content, &c)
	if err == nil {
		err = c.check()
	}
	var m *message
	if err == nil {
		m, err = write(&c, s.from, d, call.Fence)
	}
	if err != nil {
		call.Guard.ProveUnsent()
		return nil, &channels.Result{Outcome: notifier.OutcomeRejected, Reason: notifier.ReasonBadContent,
			ProviderStatus: channels.ShortStatus(err.Error())}
	}
	return m, nil
}

// opening is the context of the dialogue up to the final dot.
func opening(ctx context.Context) (context.Context, context.CancelFunc) {
	deadline, ok := ctx.Deadline()
	if !ok {
		return context.WithTimeout(ctx, openTimeout)
	}
	return context.WithTimeout(ctx, openingTime(time.Until(deadline)))
}

func openingTime(total time.Duration) time.Duration {
	return min(total/2, max(total-dotTimeout, openTimeout))
}

// begin brings a connection up to 354. One that was idle may have been closed
// by the server meanwhile, which shows at MAIL: then another is made, since
// MAIL has no effect.
func (s *Sender) begin(ctx context.Context, m *message) (*session, stage, error) {
	if c := s.take(); c != nil {
		at, err := c.envelope(ctx, m)
		if err == nil {
			return c, at, nil
		}
		c.close()
		if !c.stale {
			return nil, at, err
		}
	}
	c, at, err := dial(ctx, s.server, s.tls)
	if err != nil {
		return nil, at, err
	}
	if at, err = c.envelope(ctx, m); err != nil {
		c.close()
		return nil, at, err
	}
	return c, at, nil
}

// take returns the connection that was used last, or nil.
func (s *Sender) take() *session {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.idle) > 0 {
		c := s.idle[len(s.idle)-1]
		s.idle = s.idle[:len(s.idle)-1]
		if c.expire.Stop() {
			return c
		}
	}
	return nil
}

// keep lets the next mail have the connection.
func (s *Sender) keep(c *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || len(s.idle) >= maxIdle {
		c.close()
		return
	}
	c.expire = time.AfterFunc(idleTime, c.close)
	s.idle = append(s.idle, c)
}

// sent reads the reply to the final dot.
func sent(r *smtp.DataResponse) channels.Result {
	res := channels.Result{Outcome: notifier.OutcomeSent, ProviderStatus: channels.ShortStatus("250 " + r.StatusText)}
	if _, id, ok := strings.Cut(r.StatusText, "queued as "); ok {
		res.ProviderID = channels.ShortStatus(id)
	}
	return res
}
