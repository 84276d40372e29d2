-- Words are those of the API. nid is a notification's id (a UUIDv7, so that it
-- grows with time), ch a delivery's ordinal within it. No foreign keys: their
-- checks take share locks on rows that many transactions want at once.

CREATE TABLE meta (
  one        boolean PRIMARY KEY DEFAULT true CHECK (one),
  ledger_id  uuid NOT NULL DEFAULT gen_random_uuid(),
  created_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
INSERT INTO meta DEFAULT VALUES;

-- Which notification a tenant's key stands for. It cannot be partitioned by
-- time and stay unique, so it is one table, trimmed by age in slices. Spread by
-- hash it would be opened in as many pieces by every batch that is accepted.
CREATE TABLE idem (
  tenant     text COLLATE "C" NOT NULL,
  key        text COLLATE "C" NOT NULL,
  nid        uuid NOT NULL,
  keep_until timestamptz NOT NULL,
  PRIMARY KEY (tenant, key)
);
-- Keys come in by time, so a summary of each stretch of pages is index enough
-- to find the old ones, and costs acceptance nothing.
CREATE INDEX idem_keep ON idem USING brin (keep_until) WITH (pages_per_range = 32, autosummarize = on);

CREATE TABLE lane (
  id       smallint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  channel  text NOT NULL,
  account  text NOT NULL,
  priority text NOT NULL,
  UNIQUE (channel, account, priority)
);

-- The terms of deliveries without their caps: few, and the same for many.
CREATE TABLE terms (
  id   int GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  body text NOT NULL UNIQUE
);

-- What the policy of a notification says of it, and which one that was.
CREATE TABLE policy (
  id      int GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  type    text NOT NULL,
  ord     text NOT NULL,
  version text NOT NULL,
  UNIQUE (type, ord, version)
);

-- The tables of facts are partitioned by id, which is by time: a day's rows
-- are dropped whole, and what is inserted lands in one small, warm index.
-- repeats is the one column that is ever updated.
CREATE TABLE notification (
  nid         uuid NOT NULL,
  accepted_at timestamptz NOT NULL,
  send_at     timestamptz,
  expires_at  timestamptz,
  policy      int NOT NULL,
  repeats     int NOT NULL DEFAULT 0,
  deliveries  smallint NOT NULL,
  tenant      text NOT NULL,
  key         text NOT NULL,
  recipient   text NOT NULL,
  fingerprint bytea NOT NULL,
  parts       bytea NOT NULL,
  PRIMARY KEY (nid)
) PARTITION BY RANGE (nid);

-- Address, collapse id and effect key are packed, since they are digests more
-- often than not; a collapse id that is not there is the effect key.
CREATE TABLE delivery (
  nid         uuid NOT NULL,
  send_at     timestamptz NOT NULL,
  ch          int NOT NULL,
  terms       int NOT NULL,
  lane        smallint NOT NULL,
  caps        text NOT NULL,
  address     bytea NOT NULL,
  content     bytea,
  collapse_id bytea,
  effect_key  bytea NOT NULL,
  PRIMARY KEY (nid, ch)
) PARTITION BY RANGE (nid);

-- What is ready or in flight, and nothing else. It stays small and hot:
-- half-empty pages and no index but the key let every change of a row stay on
-- its page (HOT), so that no index entry dies by it; the vacuum settings clean
-- up what deletions leave long before it shows. An index on lease_until would
-- undo all of that: the sweep reads the table instead.
-- status: 0 pending, 1 leased, 2 sending. owner stays after a return or a
-- sweep; ended tells which of them it was: '', 'returned' or 'lapsed'.
CREATE TABLE q (
  lane         smallint NOT NULL,
  nid          uuid NOT NULL,
  ch           int NOT NULL,
  ord          text NOT NULL,
  status       smallint NOT NULL,
  capped       boolean NOT NULL,
  fence        bigint NOT NULL,
  permit_fence bigint,
  owner        text NOT NULL,
  ended        text NOT NULL,
  leased_at    timestamptz,
  lease_until  timestamptz,
  due          timestamptz NOT NULL,
  expires_at   timestamptz NOT NULL,
  lease_ms     int NOT NULL,
  terms        int NOT NULL,
  tries        int NOT NULL,
  maybe        int NOT NULL,
  fails        int NOT NULL,
  cancel       text NOT NULL,
  PRIMARY KEY (lane, nid, ch)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 20000,
  autovacuum_vacuum_cost_delay = 0, autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_insert_threshold = 200000);

-- What waits for a time or for something else, and what came back. It is leased from here and never
-- goes back into q unleased, so that no row of q appears behind the place
-- where leasing has got to.
CREATE TABLE later (
  lane         smallint NOT NULL,
  nid          uuid NOT NULL,
  ch           int NOT NULL,
  ord          text NOT NULL,
  capped       boolean NOT NULL,
  reason       text NOT NULL,
  fence        bigint NOT NULL,
  owner        text NOT NULL,
  ended        text NOT NULL,
  leased_at    timestamptz,
  due          timestamptz NOT NULL,
  expires_at   timestamptz NOT NULL,
  lease_ms     int NOT NULL,
  terms        int NOT NULL,
  tries        int NOT NULL,
  maybe        int NOT NULL,
  fails        int NOT NULL,
  cancel       text NOT NULL,
  PRIMARY KEY (nid, ch)
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX later_due     ON later (lane, due);
CREATE INDEX later_expires ON later (expires_at);

-- Append-only. The primary key is what makes one outcome one: it holds the
-- partition key, so it is unique across all partitions.
-- closed says which transition wrote the row; called that it holds a provider
-- call of its own; unit and spent_at the cap unit that may have reached the person.
CREATE TABLE outcome (
  nid             uuid NOT NULL,
  ch              int NOT NULL,
  lane            smallint NOT NULL,
  ord             text NOT NULL,
  state           text NOT NULL,
  reason          text NOT NULL,
  fence           bigint NOT NULL,
  permit_fence    bigint,
  owner           text NOT NULL,
  closed          text NOT NULL,
  tries           int NOT NULL,
  maybe           int NOT NULL,
  finished_at     timestamptz NOT NULL,
  called          boolean NOT NULL,
  outcome         text NOT NULL,
  attempt_reason  text NOT NULL,
  provider_status text NOT NULL,
  provider_id     text NOT NULL,
  started_at      timestamptz,
  unit            int NOT NULL,
  spent_at        timestamptz,
  PRIMARY KEY (nid, ch)
) PARTITION BY RANGE (nid);
CREATE INDEX outcome_unknown ON outcome (nid, ch) WHERE state = 'unknown';
CREATE INDEX outcome_spent   ON outcome USING brin (spent_at) WITH (pages_per_range = 32, autosummarize = on);

-- Append-only: ends of attempts that did not finish the delivery, and the
-- leases and permits that lapsed. maybe says that it may have arrived.
CREATE TABLE attempt_end (
  nid             uuid NOT NULL,
  ch              int NOT NULL,
  fence           bigint NOT NULL,
  owner           text NOT NULL,
  ended           text NOT NULL,
  outcome         text NOT NULL,
  reason          text NOT NULL,
  maybe           boolean NOT NULL,
  provider_status text NOT NULL,
  provider_id     text NOT NULL,
  started_at      timestamptz,
  finished_at     timestamptz NOT NULL,
  unit            int NOT NULL,
  spent_at        timestamptz,
  PRIMARY KEY (nid, ch, fence)
) PARTITION BY RANGE (nid);
CREATE INDEX attempt_end_spent ON attempt_end USING brin (spent_at) WITH (pages_per_range = 32, autosummarize = on);

-- Append-only: the word of owners that had been fenced off.
CREATE TABLE evidence (
  nid             uuid NOT NULL,
  ch              int NOT NULL,
  fence           bigint NOT NULL,
  owner           text NOT NULL,
  kind            text NOT NULL,
  outcome         text NOT NULL,
  reason          text NOT NULL,
  provider_status text NOT NULL,
  provider_id     text NOT NULL,
  started_at      timestamptz,
  at              timestamptz NOT NULL,
  PRIMARY KEY (nid, ch, fence, owner, kind)
) PARTITION BY RANGE (nid);

-- Orders to start no new attempts. An empty selector matches everything.
-- released says that the deliveries which it held are due again.
CREATE TABLE pause (
  id         text PRIMARY KEY,
  type       text NOT NULL,
  channel    text NOT NULL,
  account    text NOT NULL,
  tenant     text NOT NULL,
  ord        text NOT NULL,
  cause      text NOT NULL,
  why        text NOT NULL,
  placed_by  text NOT NULL,
  since      timestamptz NOT NULL,
  until      timestamptz,
  resumed_at timestamptz,
  released   boolean NOT NULL DEFAULT false
);
CREATE INDEX pause_open ON pause (released) WHERE NOT released;
