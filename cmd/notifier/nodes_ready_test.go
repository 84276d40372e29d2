package main

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/seed-4b260dfd/notifier"
	"github.com/seed-4b260dfd/notifier/servertest"
)

// readyWithin is how long a node may take to say that its ledger is away: the
// three seconds that it aims at, and room for a machine that does other work.
const readyWithin = 8 * time.Second

// awaitReady waits until /readyz answers with a status, and returns how long it took.
func (s *server) awaitReady(t *testing.T, status int) time.Duration {
	t.Helper()
	began := time.Now()
	if !within(patience, func() bool { return statusOf(s.url()[len("http://"):]+"/readyz") == status }) {
		t.Fatalf("/readyz did not answer %d within %s\n%s", status, patience, s.logTail())
	}
	return time.Since(began)
}

// A node over a proxy, and what is done to its ledger: /readyz says within a few
// seconds that it takes no writes, and by itself that it does again.
func TestNodes_ReadinessFollowsTheLedger(t *testing.T) {
	t.Parallel()
	sim := startProviders(t)
	redis := servertest.NewRedis(t)
	dir := installation(t, sim, 0, map[string]string{"claim_first": chaosPolicy(notifier.OrderClaimFirst, "1s")})
	database := servertest.SharedPostgres(t).Database(t)
	proxy := servertest.NewProxy(t, servertest.SharedPostgres(t).Addr())
	c := newCluster(t, buildBinary(t), dir, 1, database, proxy.URL(database), redis.URL())
	s := c.nodes[0]
	refuse := func(on bool) {
		if err := proxy.Refuse(on); err != nil {
			t.Fatal(err)
		}
		proxy.Cut()
	}
	statement := func(sql string) {
		conn, err := pgx.Connect(t.Context(), database)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close(context.Background())
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	for _, f := range []struct {
		name      string
		away, end func()
	}{
		{"its answers do not come", func() { proxy.Blackhole(true) }, func() { proxy.Blackhole(false) }},
		{"it refuses connections", func() { refuse(true) }, func() { refuse(false) }},
		{"its disk is full", func() {
			statement(`CREATE FUNCTION no_room() RETURNS trigger LANGUAGE plpgsql AS $$
				BEGIN RAISE EXCEPTION 'could not extend file' USING ERRCODE = '53100'; END $$;
				CREATE TRIGGER no_room BEFORE INSERT ON notification FOR EACH ROW EXECUTE FUNCTION no_room()`)
		}, func() { statement(`DROP TRIGGER no_room ON notification`) }},
	} {
		s.awaitReady(t, http.StatusOK)
		f.away()
		took := s.awaitReady(t, http.StatusServiceUnavailable)
		t.Logf("%s: said after %v", f.name, took.Round(time.Millisecond))
		if took > readyWithin {
			t.Errorf("%s: it took %v to say so, want about 3 s", f.name, took)
		}
		f.end()
		t.Logf("%s: over after %v", f.name, s.awaitReady(t, http.StatusOK).Round(time.Millisecond))
		if _, err := s.send(message{Key: f.name, Type: "claim_first", Recipient: "u", To: to(sim, "apns", 1), Data: map[string]string{"text": "x"}}); err != nil {
			t.Errorf("%s: afterwards: %v", f.name, err)
		}
	}
	c.sound()
}
