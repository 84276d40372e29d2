-- Times are microseconds since 1970 (UTC); 0 is "not set". Words are those of
-- the API. nid is a notification's id, ch a delivery's ordinal within it.

CREATE TABLE meta (
  one        INTEGER PRIMARY KEY CHECK (one = 1),
  ledger_id  TEXT NOT NULL,
  created_at INTEGER NOT NULL
);

-- Which notification a tenant's key stands for. Narrow, because keys arrive in
-- no order and every page that is touched is written whole.
CREATE TABLE idem (
  tenant     TEXT NOT NULL,
  key        TEXT NOT NULL,
  n          INTEGER NOT NULL,
  keep_until INTEGER NOT NULL,
  PRIMARY KEY (tenant, key)
) WITHOUT ROWID;

-- Facts, but for repeats. n is also the d of the first delivery, so that the
-- two tables join by integers. A nid is found through its deliveries, which
-- are in queue or outcome: n = d - ch. parts is length-prefixed pairs.
CREATE TABLE notification (
  n              INTEGER PRIMARY KEY,
  nid            BLOB NOT NULL,
  deliveries     INTEGER NOT NULL,
  tenant         TEXT NOT NULL,
  key            TEXT NOT NULL,
  type           TEXT NOT NULL,
  recipient      TEXT NOT NULL,
  ord            TEXT NOT NULL,
  policy_version TEXT NOT NULL,
  fingerprint    BLOB NOT NULL,
  parts          BLOB NOT NULL,
  accepted_at    INTEGER NOT NULL,
  send_at        INTEGER NOT NULL,
  expires_at     INTEGER NOT NULL,
  repeats        INTEGER NOT NULL DEFAULT 0
);

CREATE TABLE lane (
  id       INTEGER PRIMARY KEY,
  channel  TEXT NOT NULL,
  account  TEXT NOT NULL,
  priority TEXT NOT NULL,
  UNIQUE (channel, account, priority)
);

-- The terms of deliveries without their caps: few, and the same for many.
CREATE TABLE terms (
  id   INTEGER PRIMARY KEY,
  json TEXT NOT NULL UNIQUE
);

-- Facts. d is notification.n + ch.
CREATE TABLE delivery (
  d           INTEGER PRIMARY KEY,
  lane        INTEGER NOT NULL,
  terms       INTEGER NOT NULL,
  caps        TEXT NOT NULL,
  address     TEXT NOT NULL,
  content     BLOB,
  collapse_id TEXT NOT NULL,
  effect_key  TEXT NOT NULL,
  send_at     INTEGER NOT NULL
);

-- What is not finished, and nothing else. state is pending, leased or sending;
-- timed says that a pending row waits for the clock alone. owner stays after a return or a
-- sweep; ended tells which of them it was: '', 'returned' or 'lapsed'.
CREATE TABLE queue (
  nid          BLOB NOT NULL,
  ch           INTEGER NOT NULL,
  d            INTEGER NOT NULL,
  lane         INTEGER NOT NULL,
  ord          TEXT NOT NULL,
  capped       INTEGER NOT NULL,
  state        TEXT NOT NULL,
  reason       TEXT NOT NULL,
  timed        INTEGER NOT NULL,
  fence        INTEGER NOT NULL,
  permit_fence INTEGER,
  owner        TEXT NOT NULL,
  ended        TEXT NOT NULL,
  leased_at    INTEGER NOT NULL,
  lease_until  INTEGER NOT NULL,
  due          INTEGER NOT NULL,
  expires_at   INTEGER NOT NULL,
  tries        INTEGER NOT NULL,
  maybe        INTEGER NOT NULL,
  fails        INTEGER NOT NULL,
  cancel       TEXT NOT NULL,
  PRIMARY KEY (nid, ch)
) WITHOUT ROWID;

CREATE INDEX queue_due     ON queue (lane, due)               WHERE state = 'pending';
CREATE INDEX queue_expires ON queue (expires_at)              WHERE state = 'pending';
-- For counting what is due by now.
CREATE INDEX queue_timed   ON queue (due, lane, reason)
  WHERE timed;
CREATE INDEX queue_open    ON queue (lease_until)             WHERE state <> 'pending';

-- Append-only. The primary key is what makes one outcome one.
-- closed says which transition wrote the row: complete, return, sweep, cancel
-- or expire. called says that the row holds a provider call of its own; the
-- calls before it are in attempt. spent_at is set where a cap unit was taken
-- that may have reached the person; unit is its number.
CREATE TABLE outcome (
  nid             BLOB NOT NULL,
  ch              INTEGER NOT NULL,
  d               INTEGER NOT NULL,
  ord             TEXT NOT NULL,
  state           TEXT NOT NULL,
  reason          TEXT NOT NULL,
  fence           INTEGER NOT NULL,
  permit_fence    INTEGER,
  owner           TEXT NOT NULL,
  closed          TEXT NOT NULL,
  tries           INTEGER NOT NULL,
  maybe           INTEGER NOT NULL,
  finished_at     INTEGER NOT NULL,
  called          INTEGER NOT NULL,
  outcome         TEXT NOT NULL,
  attempt_reason  TEXT NOT NULL,
  provider_status TEXT NOT NULL,
  provider_id     TEXT NOT NULL,
  started_at      INTEGER NOT NULL,
  unit            INTEGER NOT NULL,
  spent_at        INTEGER,
  PRIMARY KEY (nid, ch)
) WITHOUT ROWID;

CREATE INDEX outcome_spent   ON outcome (spent_at) WHERE spent_at IS NOT NULL;
CREATE INDEX outcome_unknown ON outcome (nid, ch)  WHERE state = 'unknown';

-- Append-only: ends of attempts that did not finish the delivery, and the
-- leases and permits that lapsed. maybe says that it may have arrived.
CREATE TABLE attempt (
  nid             BLOB NOT NULL,
  ch              INTEGER NOT NULL,
  fence           INTEGER NOT NULL,
  owner           TEXT NOT NULL,
  ended           TEXT NOT NULL,
  outcome         TEXT NOT NULL,
  reason          TEXT NOT NULL,
  maybe           INTEGER NOT NULL,
  provider_status TEXT NOT NULL,
  provider_id     TEXT NOT NULL,
  started_at      INTEGER NOT NULL,
  finished_at     INTEGER NOT NULL,
  d               INTEGER NOT NULL,
  unit            INTEGER NOT NULL,
  spent_at        INTEGER,
  PRIMARY KEY (nid, ch, fence)
) WITHOUT ROWID;

CREATE INDEX attempt_spent ON attempt (spent_at) WHERE spent_at IS NOT NULL;

-- Append-only: the word of owners that had been fenced off.
CREATE TABLE evidence (
  nid             BLOB NOT NULL,
  ch              INTEGER NOT NULL,
  fence           INTEGER NOT NULL,
  owner           TEXT NOT NULL,
  kind            TEXT NOT NULL,
  outcome         TEXT NOT NULL,
  reason          TEXT NOT NULL,
  provider_status TEXT NOT NULL,
  provider_id     TEXT NOT NULL,
  started_at      INTEGER NOT NULL,
  at              INTEGER NOT NULL,
  PRIMARY KEY (nid, ch, fence, owner, kind)
) WITHOUT ROWID;

-- Every pause that was ever placed; the selectors are empty for "any". until
-- and resumed_at are 0 for "not". released says that what it had held has been
-- made due since its end: one that is in force has not.
CREATE TABLE pause (
  id         TEXT PRIMARY KEY,
  type       TEXT NOT NULL,
  channel    TEXT NOT NULL,
  account    TEXT NOT NULL,
  tenant     TEXT NOT NULL,
  ord        TEXT NOT NULL,
  cause      TEXT NOT NULL,
  why        TEXT NOT NULL,
  placed_by  TEXT NOT NULL,
  since      INTEGER NOT NULL,
  until      INTEGER NOT NULL,
  resumed_at INTEGER NOT NULL,
  released   INTEGER NOT NULL
) WITHOUT ROWID;

CREATE INDEX pause_open ON pause (released);
