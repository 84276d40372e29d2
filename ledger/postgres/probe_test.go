package postgres_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/seed-4b260dfd/notifier"
	"github.com/seed-4b260dfd/notifier/ledger/ledgertest"
	"github.com/seed-4b260dfd/notifier/ledger/postgres"
	"github.com/seed-4b260dfd/notifier/servertest"
)

// noRoom has every new notification refused as a full disk refuses it.
const noRoom = `CREATE FUNCTION no_room() RETURNS trigger LANGUAGE plpgsql AS $$
	BEGIN RAISE EXCEPTION 'could not extend file' USING ERRCODE = '53100'; END $$;
	CREATE TRIGGER no_room BEFORE INSERT ON notification FOR EACH ROW EXECUTE FUNCTION no_room()`

// What refuses a notification refuses a probe, with the rights of a node, and
// not after that.
func TestProbe_RefusedAsAnAcceptIs(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ refuse, allow, state string }{
		"a full disk":       {noRoom, `DROP TRIGGER no_room ON notification`, "53100"},
		"no right to keys":  {`REVOKE INSERT ON idem FROM notifier_node`, `GRANT INSERT ON idem TO notifier_node`, insufficientPrivilege},
		"no right to facts": {`REVOKE INSERT ON delivery FROM notifier_node`, `GRANT INSERT ON delivery TO notifier_node`, insufficientPrivilege},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			owner := migrated(t)
			l := open(t, asNode(t, owner))
			if err := l.Probe(t.Context()); err != nil {
				t.Fatal(err)
			}
			run(t, owner, c.refuse)
			var said *pgconn.PgError
			if _, err := l.Accept(t.Context(), intents("a", 1, notifier.OrderSendFirst)); !errors.As(err, &said) || said.Code != c.state {
				t.Errorf("accept: got %v, want %s", err, c.state)
			}
			if err := l.Probe(t.Context()); !errors.As(err, &said) || said.Code != c.state {
				t.Errorf("probe: got %v, want %s", err, c.state)
			}
			run(t, owner, c.allow)
			if err := l.Probe(t.Context()); err != nil {
				t.Error(err)
			}
			accepts(t, l, "b")
			wantSound(t, l)
		})
	}
}

// The machine may have slept past the days that were made ahead.
func TestProbe_MakesTheDayThatIsMissing(t *testing.T) {
	t.Parallel()
	clock := ledgertest.NewClock()
	l := open(t, asNode(t, migrated(t)), postgres.WithClock(clock.Now))
	clock.Add(30 * 24 * time.Hour)
	if err := l.Probe(t.Context()); err != nil {
		t.Error(err)
	}
}

// A commit that waits for a standby which is not there is none: the probe waits
// with it. Its server is its own, since the setting is.
func TestProbe_WaitsForTheStandby(t *testing.T) {
	t.Parallel()
	server := servertest.NewPostgres(t)
	url := server.Database(t)
	if _, err := postgres.Migrate(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	l := open(t, url)
	if err := l.Probe(t.Context()); err != nil {
		t.Fatal(err)
	}
	run(t, server.URL(), `ALTER SYSTEM SET synchronous_standby_names = 'nobody'`)
	run(t, server.URL(), `SELECT pg_reload_conf()`)
	waits := func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		return l.Probe(ctx) != nil
	}
	for range 20 { // until the backends have read the setting
		if waits() {
			return
		}
	}
	t.Error("the probe did not wait for a standby that is not there")
}
