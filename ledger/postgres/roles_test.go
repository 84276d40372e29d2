package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/seed-4b260dfd/notifier"
	"github.com/seed-4b260dfd/notifier/ledger/ledgertest"
	"github.com/seed-4b260dfd/notifier/ledger/postgres"
	"github.com/seed-4b260dfd/notifier/servertest"
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
	for range 2 {
		run(t, owner, string(roles))
	}
	run(t, servertest.SharedPostgres(t).URL(), makeRole("test_node", "LOGIN IN ROLE notifier_node"))
	return as(t, "test_node", owner)
}

// makeRole makes a role that is not there. Roles belong to the server: tests
// want the same ones at the same time.
func makeRole(name, options string) string {
	return fmt.Sprintf(`DO $$ BEGIN
		PERFORM pg_advisory_xact_lock(hashtextextended('test roles', 0));
		IF NOT EXISTS (SELECT 1 FROM pg_roles WHERE rolname = '%[1]s') THEN
			CREATE ROLE %[1]s %[2]s;
		END IF;
	END $$`, name, options)
}

func run(t *testing.T, url, statements string) {
	t.Helper()
	if _, err := connected(t, url).Exec(t.Context(), statements); err != nil {
		t.Fatal(err)
	}
}

// as is a URL for another login.
func as(t *testing.T, login, address string) string {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.User(login)
	return u.String()
}

// connected is a plain connection.
func connected(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	c, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close(context.Background()) })
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
		`DELETE FROM suppression`, `UPDATE suppression SET subject = ''`,
		`CREATE TABLE mine (a int)`, `CREATE TEMPORARY TABLE q (nid uuid)`, `CREATE SCHEMA mine`, `DROP TABLE evidence`, `ALTER TABLE q ADD x int`,
		`DELETE FROM outcome_` + time.Now().UTC().Format("20060102"),
	} {
		if _, err := c.Exec(t.Context(), statement); !denied(err) {
			t.Errorf("%s: got %v, want it refused for want of a right", statement, err)
		}
	}
	wantSound(t, l)
	if _, err := l.Audit(t.Context()); err != nil {
		t.Errorf("audit: %v", err)
	}
}

func denied(err error) bool {
	var e *pgconn.PgError
	// Of another's table the server says that it must be one's own.
	return errors.As(err, &e) && e.Code == insufficientPrivilege
}

// Partitions that a node has made, after the rights were given, need none. The
// owner, with whose rights they are made, is no superuser.
func TestRoles_NewPartitionsNeedNoGrant(t *testing.T) {
	t.Parallel()
	database := servertest.SharedPostgres(t).Database(t)
	run(t, database, makeRole("test_owner", "LOGIN CREATEROLE"))
	run(t, database, `DO $$ BEGIN EXECUTE format('ALTER DATABASE %I OWNER TO test_owner', current_database()); END $$`)
	owner := as(t, "test_owner", database)
	if _, err := postgres.Migrate(t.Context(), owner); err != nil {
		t.Fatal(err)
	}
	node := asNode(t, owner)
	clock := ledgertest.NewClock()
	clock.Add(time.Now().AddDate(0, 0, -200).Sub(clock.Now())) // old enough to be dropped
	l := open(t, node, postgres.WithClock(clock.Now))
	clock.Add(40 * 24 * time.Hour)
	if _, err := l.Sweep(t.Context(), 1, false); err != nil { // housekeeping goes with it
		t.Fatal(err)
	}
	got, err := l.Accept(t.Context(), intents("later", 1, notifier.OrderSendFirst))
	if err != nil {
		t.Fatal(err)
	}
	if n, err := l.Notification(t.Context(), "shop", got[0].ID); err != nil || n.Key == "" {
		t.Errorf("read from a new partition: got %+v, %v", n, err)
	}
	clock.Add(40 * 24 * time.Hour)
	dropped, err := l.Drop(t.Context(), 60*24*time.Hour)
	if err != nil || len(dropped) == 0 {
		t.Errorf("drop: got %v, %v; want the first days dropped", dropped, err)
	}
}

// Whatever a node asks for, what has not ended a day ago stays, and so does what
// is not finished.
func TestRoles_ANodeCannotDropTheDaysThatCount(t *testing.T) {
	t.Parallel()
	owner := migrated(t)
	node := asNode(t, owner)
	clock := ledgertest.NewClock()
	clock.Add(time.Now().AddDate(0, 0, -30).Sub(clock.Now()))
	old := open(t, node, postgres.WithClock(clock.Now))
	waiting, err := old.Accept(t.Context(), intents("waits", 1, notifier.OrderSendFirst))
	if err != nil {
		t.Fatal(err)
	}
	l := open(t, node)
	done, err := l.Accept(t.Context(), intents("new", 1, notifier.OrderSendFirst))
	if err != nil {
		t.Fatal(err)
	}
	run(t, owner, `DELETE FROM q; DELETE FROM idem WHERE key LIKE 'new%'`)
	run(t, owner, `INSERT INTO later (lane, nid, ch, ord, capped, reason, fence, owner, ended, due, expires_at, lease_ms, terms, tries, maybe, fails, cancel)
		SELECT lane, nid, ch, 'send_first', false, 'scheduled', 0, '', '', now(), now(), 1, terms, 0, 0, 0, '' FROM delivery WHERE nid = '`+uuidOf(waiting[0].ID)+`'`)
	for range 40 {
		run(t, node, `SELECT drop_partitions('2999-01-01')`)
	}
	for _, id := range []notifier.ID{waiting[0].ID, done[0].ID} {
		if n, err := l.Notification(t.Context(), "shop", id); err != nil || n.Key == "" {
			t.Errorf("got %+v, %v, want the notification still there", n, err)
		}
	}
}

func uuidOf(id notifier.ID) string {
	return fmt.Sprintf("%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:])
}

// The functions with their owner's rights look where they are told, without the
// roles' file having been run: never first where callers make tables.
func TestMigrate_FunctionsSearchTheLedgersSchemaFirst(t *testing.T) {
	t.Parallel()
	const settings = `SELECT proname, array_to_string(proconfig, ' ') FROM pg_proc WHERE prosecdef AND pronamespace = 'public'::regnamespace`
	rows, err := connected(t, migrated(t)).Query(t.Context(), settings)
	if err != nil {
		t.Fatal(err)
	}
	var name, set string
	n := 0
	_, err = pgx.ForEachRow(rows, []any{&name, &set}, func() error {
		if n++; !strings.Contains(set, "search_path=public, pg_temp") {
			t.Errorf("%s is set to %q, want a search path that ends with pg_temp", name, set)
		}
		return nil
	})
	if err != nil || n != 2 {
		t.Errorf("got %d functions, %v, want 2", n, err)
	}
}

// Where there is nothing to do a node may say "migrate".
func TestMigrate_NothingToDoNeedsNoRights(t *testing.T) {
	t.Parallel()
	node := asNode(t, migrated(t))
	if applied, err := postgres.Migrate(t.Context(), node); err != nil || len(applied) != 0 {
		t.Errorf("got %q, %v, want nothing to do", applied, err)
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
