-- Partitions are made and dropped by functions with their owner's rights, so
-- that a node needs none to change tables.

-- day_bound is the smallest id of a day (UTC).
CREATE FUNCTION day_bound(day date) RETURNS uuid LANGUAGE sql IMMUTABLE STRICT AS $$
  SELECT (lpad(to_hex((extract(epoch FROM day::timestamp) * 1000)::bigint), 12, '0') || repeat('0', 20))::uuid
$$;

-- make_partitions sees to it that the days from first to last have partitions,
-- and returns how many were made. Callers at the same time wait for each other.
CREATE FUNCTION make_partitions(first date, last date) RETURNS int LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
  made int := 0;
  day  date;
  base text;
  name text;
BEGIN
  PERFORM pg_advisory_xact_lock(hashtextextended('notifier partitions', 0));
  FOR day IN SELECT generate_series(first, last, '1 day')::date LOOP
    FOREACH base IN ARRAY ARRAY['notification', 'delivery', 'outcome', 'attempt_end', 'evidence'] LOOP
      name := base || '_' || to_char(day, 'YYYYMMDD');
      CONTINUE WHEN to_regclass(name) IS NOT NULL;
      EXECUTE format('CREATE TABLE %I PARTITION OF %I FOR VALUES FROM (%L) TO (%L)', name, base, day_bound(day), day_bound(day + 1));
      made := made + 1;
    END LOOP;
  END LOOP;
  RETURN made;
END $$;

-- drop_partitions drops the oldest day before one, whole, but keeps every day
-- of which a delivery is not finished or a key is still remembered. It returns
-- the tables that it dropped; of callers at the same time one does the work. It
-- takes one day a call, and gives up soon on a table in use: whoever comes
-- behind a lock that is waited for waits with it.
CREATE FUNCTION drop_partitions(before date) RETURNS SETOF text LANGUAGE plpgsql SECURITY DEFINER
  SET search_path FROM CURRENT SET lock_timeout = '200ms' AS $$
DECLARE
  day  date;
  base text;
  name text;
BEGIN
  IF NOT pg_try_advisory_xact_lock(hashtextextended('notifier partitions', 0)) THEN
    RETURN;
  END IF;
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
