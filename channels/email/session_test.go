package email

import (
	"net/url"
	"testing"

	"github.com/seed-4b260dfd/notifier"
	"github.com/seed-4b260dfd/notifier/channels"
	"github.com/seed-4b260dfd/notifier/channels/simulate"
)

// The dot that could not be written did not leave, although the gate was
// passed; what had left of the mail is taken back by the end of the connection.
func TestDeliver_DotDoesNotLeave(t *testing.T) {
	t.Parallel()
	sim, err := simulate.Start(simulate.Config{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer sim.Close()
	for _, mode := range []string{tlsNone, tlsStart} {
		u := url.URL{Scheme: "smtp", User: url.UserPassword(sim.Files().SMTPUser, sim.Files().SMTPPassword), Host: sim.SMTPAddr()}
		cfg := Config{SMTP: u.String(), TLS: mode, From: "a@shop.example"}
		cfg.CAFile = sim.CAFile()
		s, err := New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		m := &message{from: "a@shop.example", to: "ann@example.com", bytes: mustWrite(t, content{Subject: "s", Text: "t"}, testDelivery, 1)}
		c, _, err := s.begin(t.Context(), m)
		if err != nil {
			t.Fatal(err)
		}
		// The look is the last moment before the dot.
		g := &channels.Guard{Look: func() error { return c.wire.Close() }}
		got, usable := c.deliver(t.Context(), t.Context(), g, m)
		if got.Outcome != notifier.OutcomeNotSent || got.Reason != notifier.ReasonUnreachable || usable {
			t.Errorf("%s: got %+v, usable %v; want not_sent, unreachable, not usable", mode, got, usable)
		}
	}
	if e := sim.Effects(); len(e) != 0 {
		t.Errorf("the server has %+v", e)
	}
}
