-- What a node may do to the ledger, and nothing beyond it. Run it with psql
-- after every "notifier migrate", as the ledger's owner or as a superuser:
--
--   psql -v ON_ERROR_STOP=1 -f deploy/roles.sql "$OWNER_URL"
--
-- Any number of times does no harm. Three kinds of roles:
--
--   the owner        owns the database, runs "notifier migrate", and serves
--                    nothing: the only one that changes tables
--   notifier_node    what "notifier serve" needs, on every node
--   notifier_reader  may look: for people, reports and monitoring
--
-- The last two are groups that cannot log in. A node's login is made once:
--
--   CREATE ROLE node LOGIN PASSWORD '…' IN ROLE notifier_node;
--
-- What this keeps: whoever has a node's password can send and can wait, but
-- cannot change or remove an outcome, an attempt or a piece of evidence, and so
-- cannot make the ledger say that something was not sent.

BEGIN;

-- To make a role takes CREATEROLE; where they are there already, the owner's
-- own rights are enough.
DO $$
DECLARE
  wanted text;
BEGIN
  FOREACH wanted IN ARRAY ARRAY['notifier_node', 'notifier_reader'] LOOP
    CONTINUE WHEN EXISTS (SELECT 1 FROM pg_roles WHERE rolname = wanted);
    BEGIN
      EXECUTE format('CREATE ROLE %I NOLOGIN', wanted);
    EXCEPTION WHEN duplicate_object OR unique_violation THEN
      NULL; -- another session has just made it: roles belong to the whole server
    END;
  END LOOP;
END $$;

-- A temporary table of a node's would come before ours where a function with
-- the owner's rights looks for a name.
DO $$ BEGIN
  EXECUTE format('REVOKE ALL ON DATABASE %I FROM PUBLIC', current_database());
  EXECUTE format('GRANT CONNECT ON DATABASE %I TO notifier_node, notifier_reader', current_database());
END $$;
REVOKE CREATE ON SCHEMA public FROM PUBLIC;
GRANT USAGE ON SCHEMA public TO notifier_node, notifier_reader;

-- Begin with nothing, so that a right which an older file gave does not stay.
REVOKE ALL ON ALL TABLES IN SCHEMA public FROM notifier_node, notifier_reader;

-- Which ledger this is, and whether its schema fits.
GRANT SELECT ON meta, schema_version TO notifier_node;

-- Words that many rows share: they are added to and never changed.
GRANT SELECT, INSERT ON lane, terms, policy TO notifier_node;

-- Keys are found, taken, and forgotten when their time is over. The update is
-- for the row lock with which old ones are picked; the column says least.
GRANT SELECT, INSERT, DELETE, UPDATE (keep_until) ON idem TO notifier_node;

-- Facts are inserted once. Access to a table's partitions goes through the
-- table, so that tomorrow's need no grant of their own.
GRANT SELECT, INSERT ON notification, delivery, outcome, attempt_end, evidence TO notifier_node;
GRANT UPDATE (repeats) ON notification TO notifier_node;

-- The queue is what nodes work on, and pauses are placed and resumed through
-- them. A pause that is over stays, with who ended it and why.
GRANT SELECT, INSERT, UPDATE, DELETE ON q, later TO notifier_node;
GRANT SELECT, INSERT, UPDATE ON pause TO notifier_node;

-- Suppressions are placed and undone through them; one that is over stays.
GRANT SELECT, INSERT, UPDATE (since, evidence, placed_by, at, ended_at, ended_by, ended_why) ON suppression TO notifier_node;

-- The mark is moved on once a second.
GRANT SELECT, UPDATE ON mark TO notifier_node;

-- Partitions are made and dropped by functions that run with their owner's
-- rights; PUBLIC may call any function until it is told otherwise. Dropping
-- spares every day with something unfinished or with a key still remembered.
-- pg_temp last: left out, it would be searched first.
REVOKE ALL ON FUNCTION make_partitions(date, date), drop_partitions(date) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION make_partitions(date, date), drop_partitions(date) TO notifier_node;
ALTER FUNCTION make_partitions(date, date) SET search_path = public, pg_temp;
ALTER FUNCTION drop_partitions(date) SET search_path = public, pg_temp;

GRANT SELECT ON ALL TABLES IN SCHEMA public TO notifier_reader;

COMMIT;
