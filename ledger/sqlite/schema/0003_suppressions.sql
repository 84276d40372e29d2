-- Every suppression that was ever placed. subject is the digest of whom it is
-- about: an address or a recipient, and the tenant. ended_at is 0 while it is in
-- force: then there is one of a subject, channel, type and cause.
CREATE TABLE suppression (
  id        TEXT PRIMARY KEY,
  tenant    TEXT NOT NULL,
  subject   TEXT NOT NULL,
  address   TEXT NOT NULL,
  recipient TEXT NOT NULL,
  channel   TEXT NOT NULL,
  type      TEXT NOT NULL,
  cause     TEXT NOT NULL,
  evidence  TEXT NOT NULL,
  placed_by TEXT NOT NULL,
  at        INTEGER NOT NULL,
  since     INTEGER NOT NULL,
  ended_at  INTEGER NOT NULL DEFAULT 0,
  ended_by  TEXT NOT NULL DEFAULT '',
  ended_why TEXT NOT NULL DEFAULT ''
) WITHOUT ROWID;

CREATE UNIQUE INDEX suppression_in_force ON suppression (subject, channel, type, cause) WHERE ended_at = 0;
CREATE INDEX suppression_listed ON suppression (tenant, id) WHERE ended_at = 0;
