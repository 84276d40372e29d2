-- Who ended a pause, and why; empty for one that ended by itself, or has not.
ALTER TABLE pause ADD COLUMN resumed_by text NOT NULL DEFAULT '';
ALTER TABLE pause ADD COLUMN resume_why text NOT NULL DEFAULT '';

-- drop_partitions drops the oldest day before one, whole, but keeps every day
-- of which a delivery is not finished or a key is still remembered; and whatever
-- it is asked for, every day that has not ended a day ago: who may call it with
-- any date does so with rights that are not his. It returns the tables that it
-- dropped; of callers at the same time one does the work. It takes one day a
-- call, and gives up soon on a table in use: whoever comes behind a lock that is
-- waited for waits with it.
CREATE OR REPLACE FUNCTION drop_partitions(before date) RETURNS SETOF text LANGUAGE plpgsql SECURITY DEFINER
  SET lock_timeout = '200ms' AS $$
DECLARE
  day  date;
  base text;
  name text;
BEGIN
  IF NOT pg_try_advisory_xact_lock(hashtextextended('notifier partitions', 0)) THEN
    RETURN;
  END IF;
  before := least(before, (clock_timestamp() AT TIME ZONE 'UTC')::date - 1);
  FOR day IN
    SELECT to_date(right(c.relname, 8), 'YYYYMMDD') FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
      WHERE i.inhparent = 'notification'::regclass AND right(c.relname, 8) < to_char(before, 'YYYYMMDD') ORDER BY 1
  LOOP
    CONTINUE WHEN EXISTS (SELECT 1 FROM q WHERE nid >= day_bound(day) AND nid < day_bound(day + 1))
      OR EXISTS (SELECT 1 FROM later WHERE nid >= day_bound(day) AND nid < day_bound(day + 1))
      OR EXISTS (SELECT 1 FROM idem WHERE nid >= day_bound(day) AND nid < day_bound(day + 1));
    FOREACH base IN ARRAY ARRAY['evidence', 'attempt_end', 'outcome', 'delivery', 'notification'] LOOP
      name := base || '_' || to_char(day, 'YYYYMMDD');
      CONTINUE WHEN to_regclass(name) IS NULL;
      EXECUTE format('DROP TABLE %I', name);
      RETURN NEXT name;
    END LOOP;
    RETURN;
  END LOOP;
END $$;

-- Functions with their owner's rights look for names in the ledger's schema and,
-- named so that it is not searched first, where a caller's own tables would be.
DO $$ BEGIN
  EXECUTE format('ALTER FUNCTION make_partitions(date, date) SET search_path = %I, pg_temp', current_schema());
  EXECUTE format('ALTER FUNCTION drop_partitions(date) SET search_path = %I, pg_temp', current_schema());
END $$;
