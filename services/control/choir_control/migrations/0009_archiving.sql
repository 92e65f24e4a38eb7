-- How far memory has each session. One that has ended and is not archived is to be: its end and that mark are one
-- statement, and sessions of before this version are caught up on.
ALTER TABLE {schema}.sessions
    ADD COLUMN archived_rev   bigint NOT NULL DEFAULT 0,
    ADD COLUMN archived_at    timestamptz,               -- memory has all of it
    ADD COLUMN archive_due_at timestamptz,               -- not before then: the last try failed
    ADD COLUMN archive_tries  integer NOT NULL DEFAULT 0,
    ADD COLUMN archive_error  text;
CREATE INDEX sessions_to_archive ON {schema}.sessions (agent_id, started_at) WHERE archived_at IS NULL;
