-- What is written to see whether something can be: one row, another each time,
-- so that it needs free pages as a notification does.
CREATE TABLE probe (
  n      INTEGER PRIMARY KEY,
  filler BLOB NOT NULL
);

-- Who ended a pause, and why; empty for one that ended by itself, or has not.
ALTER TABLE pause ADD COLUMN resumed_by TEXT NOT NULL DEFAULT '';
ALTER TABLE pause ADD COLUMN resume_why TEXT NOT NULL DEFAULT '';
