-- What a human approved is carried out once, and a crash at any point leaves it not done or done (spec 8.10, 20).

-- what the request was shown with, beside what the agent sent: part of what the digest covers
ALTER TABLE {schema}.pending_approvals ADD COLUMN basis json NOT NULL DEFAULT '{}';

-- a row is made by the statement that approves; what was approved before this table is only on record
CREATE TABLE {schema}.approval_effects (
    approval_id text PRIMARY KEY REFERENCES {schema}.pending_approvals,
    digest      text NOT NULL,                          -- of what the human decided on
    stage       text NOT NULL DEFAULT 'waiting'
        CHECK (stage IN ('waiting', 'applying', 'applied', 'failed', 'reverting', 'rolled_back')),
    plan        json,                                   -- what exactly is done: written before it is
    undo        json,                                   -- the same for taking it back
    detail      text NOT NULL DEFAULT '',
    began_at    timestamptz,
    ended_at    timestamptz,
    undone_by   text
);
CREATE INDEX approval_effects_open ON {schema}.approval_effects (approval_id)
    WHERE stage IN ('waiting', 'applying', 'reverting');
