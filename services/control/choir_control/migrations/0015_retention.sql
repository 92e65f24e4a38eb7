-- What is left of a log that retention erased: the hashes of its events, 32 bytes each, in order of revision.

CREATE TABLE {schema}.erased_logs (
    session_id  text PRIMARY KEY REFERENCES {schema}.sessions,
    hashes      bytea NOT NULL,
    erased_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    finished_at timestamptz                            -- null: some of its rows are still to be deleted
);
ALTER TABLE {schema}.erased_logs ALTER COLUMN hashes SET STORAGE EXTERNAL; -- hashes do not compress

-- messages that are deleted for their age: what names them is looked up, or forgets them
CREATE INDEX outbox_by_edits ON {schema}.outbox (edits) WHERE edits IS NOT NULL;
ALTER TABLE {schema}.pending_approvals
    DROP CONSTRAINT pending_approvals_notice_id_fkey,
    ADD FOREIGN KEY (notice_id) REFERENCES {schema}.outbox ON DELETE SET NULL;
