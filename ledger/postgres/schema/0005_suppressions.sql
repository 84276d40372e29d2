-- Every suppression that was ever placed. subject is the digest of whom it is
-- about: an address or a recipient, and the tenant. Of those in force there is
-- one of a subject, channel, type and cause.
CREATE TABLE suppression (
  id        text COLLATE "C" PRIMARY KEY,
  tenant    text COLLATE "C" NOT NULL,
  subject   text COLLATE "C" NOT NULL,
  address   text NOT NULL,
  recipient text NOT NULL,
  channel   text NOT NULL,
  type      text NOT NULL,
  cause     text NOT NULL,
  evidence  text NOT NULL,
  placed_by text NOT NULL,
  at        timestamptz NOT NULL,
  since     timestamptz NOT NULL,
  ended_at  timestamptz,
  ended_by  text NOT NULL DEFAULT '',
  ended_why text NOT NULL DEFAULT ''
);
CREATE UNIQUE INDEX suppression_in_force ON suppression (subject, channel, type, cause) WHERE ended_at IS NULL;
CREATE INDEX suppression_listed ON suppression (tenant, id) WHERE ended_at IS NULL;
