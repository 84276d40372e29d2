package postgres_test

import (
	"errors"
	"net/url"
	"os"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/seed-4b260dfd/notifier"
	"github.com/seed-4b260dfd/notifier/ledger/ledgertest"
	"github.com/seed-4b260dfd/notifier/ledger/postgres"
)

const insufficientPrivilege = "42501"

// asNode gives the rights of deploy/roles.sql in a database, twice as after a
// second migration, and returns its URL for a login that has those of a node.
func asNode(t *testing.T, owner string) string {
	t.Helper()
	roles, err := os.ReadFile("../../deploy/roles.sql")
	if err != nil {
		t.Fatal(err)
	}
	c := connected(t, owner)
	// Roles belong to the server: tests make them at the same time.
	const login = `DO $$ BEGIN
		PERFORM pg_advisory_xact_lock(hashtextextended('test roles', 0));
		IF NOT EXISTS (SELECT 1 FROM pg_roles WHERE rolname = 'test_node') THEN
			CREATE ROLE test_node LOGIN IN ROLE notifier_node;
		END IF;
	END $$`
	for _, text := range []string{string(roles), string(roles), login} {
		if _, err := c.Exec(t.Context(), text); err != nil {
			t.Fatal(err)
		}
	}
	u, err := url.Parse(owner)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.User("test_node")
	return u.String()
}

// connected is a plain connection.
func connected(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	c, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close(t.Context()) })
	return c
}

// A node's rights are enough for every transition that there is.
func TestRoles_ANodeCanDoAllThatALedgerDoes(t *testing.T) {
	t.Parallel()
	var pool emptied
	ledgertest.Run(t, func(t *testing.T, now func() time.Time) ledgertest.Ledger {
		owner := pool.take(t)
		l, err := postgres.Open(t.Context(), asNode(t, owner), postgres.WithClock(now))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			l.Close()
			pool.give(t, owner)
		})
		return l
	})
}

// And they are not more: what has happened stays as it was written down.
func TestRoles_ANodeCannotChangeWhatHasHappened(t *testing.T) {
	t.Parallel()
	owner := migrated(t)
	node := asNode(t, owner)
	l := open(t, node)
	if _, err := l.Accept(t.Context(), intents("a", 1, notifier.OrderSendFirst)); err != nil {
		t.Fatal(err)
	}
	leased, err := l.Lease(t.Context(), busyLane, 1, "me")
	if err != nil || len(leased) != 1 {
		t.Fatalf("lease: got %d, %v", len(leased), err)
	}
	done := []notifier.Completion{{Hold: leased[0].Hold(), State: notifier.StateSent, Called: true,
		Attempt: notifier.Attempt{StartedAt: time.Now(), Outcome: notifier.OutcomeSent}}}
	if got, err := l.Complete(t.Context(), "me", done); err != nil || got[0].Verdict != notifier.VerdictDone {
		t.Fatalf("complete: got %+v, %v", got, err)
	}
	c := connected(t, node)
	for _, statement := range []string{
		`UPDATE outcome SET state = 'expired'`, `DELETE FROM outcome`, `TRUNCATE outcome`, `SELECT 1 FROM outcome FOR UPDATE`,
		`UPDATE attempt_end SET maybe = false`, `DELETE FROM attempt_end`,
		`UPDATE evidence SET outcome = 'sent'`, `DELETE FROM evidence`,
		`UPDATE notification SET fingerprint = ''`, `DELETE FROM notification`,
		`UPDATE delivery SET address = 'x'`, `DELETE FROM delivery`,
		`UPDATE idem SET nid = gen_random_uuid()`, `UPDATE lane SET account = 'x'`, `UPDATE terms SET body = 'x'`,
		`UPDATE meta SET ledger_id = gen_random_uuid()`, `UPDATE schema_version SET version = 99`, `DELETE FROM pause`,
		`CREATE TABLE mine (a int)`, `CREATE TEMPORARY TABLE q (nid uuid)`, `CREATE SCHEMA mine`, `DROP TABLE evidence`, `ALTER TABLE q ADD x int`,
		`DELETE FROM outcome_` + time.Now().UTC().Format("20060102"),
	} {
		if _, err := c.Exec(t.Context(), statement); !denied(err) {
			t.Errorf("%s: got %v, want it refused for want of a right", statement, err)
		}
	}
	wantSound(t, l)
}

func denied(err error) bool {
	var e *pgconn.PgError
	// Of another's table the server says that it must be one's own.
	return errors.As(err, &e) && e.Code == insufficientPrivilege
}

// Partitions that a node has made, after the rights were given, need none.
func TestRoles_NewPartitionsNeedNoGrant(t *testing.T) {
	t.Parallel()
	node := asNode(t, migrated(t))
	clock := ledgertest.NewClock()
	l := open(t, node, postgres.WithClock(clock.Now))
	clock.Add(40 * 24 * time.Hour)
	if _, err := l.Sweep(t.Context(), 1, false); err != nil { // housekeeping goes with it
		t.Fatal(err)
	}
	got, err := l.Accept(t.Context(), intents("later", 1, notifier.OrderSendFirst))
	if err != nil {
		t.Fatal(err)
	}
	if n, err := l.Notification(t.Context(), got[0].Tenant, got[0].ID); err != nil || n.Key == "" {
		t.Errorf("read from a new partition: got %+v, %v", n, err)
	}
	clock.Add(40 * 24 * time.Hour)
	dropped, err := l.Drop(t.Context(), 60*24*time.Hour)
	if err != nil || len(dropped) == 0 {
		t.Errorf("drop: got %v, %v; want the first days dropped", dropped, err)
	}
}

// Nobody else may call the functions that run with their owner's rights.
func TestRoles_FunctionsAreNotForEverybody(t *testing.T) {
	t.Parallel()
	owner := migrated(t)
	asNode(t, owner)
	const callable = `SELECT count(*) FROM pg_proc p, aclexplode(p.proacl) a
		WHERE p.proname IN ('make_partitions', 'drop_partitions') AND a.grantee = 0`
	var n int
	if err := connected(t, owner).QueryRow(t.Context(), callable).Scan(&n); err != nil || n != 0 {
		t.Errorf("got %d functions that everybody may call, %v; want none", n, err)
	}
}
