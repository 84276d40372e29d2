-- The mark that the ledger gave out last, and the tokens of the newest ones,
-- that of n first: who has a mark can tell whether this ledger gave it out, or
-- is one from before that has counted on by itself since.
CREATE TABLE mark (
  one    boolean PRIMARY KEY DEFAULT true CHECK (one),
  n      bigint NOT NULL,
  recent bigint[] NOT NULL
) WITH (fillfactor = 10);
INSERT INTO mark (n, recent) VALUES (0, '{}');

-- When a person last said that the ledger, as it is, is to be gone on with.
CREATE INDEX pause_rewound ON pause (resumed_at) WHERE cause = 'ledger_rewound';
