-- Sessions that a person had erased in part or as a whole: what the next session may still show of each. Their logs are
-- erased as soon as nothing needs them any more; the hashes stay in `erased_logs`.
CREATE TABLE {schema}.session_resets (
    session_id   text PRIMARY KEY REFERENCES {schema}.sessions ON DELETE CASCADE,
    -- `nothing`, `summary` (the reference summary alone), or `rest`: all but the forgotten period
    carries      text NOT NULL,
    since        timestamptz,
    until        timestamptz,
    requested_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    finished_at  timestamptz
);
-- Looked for every few seconds.
CREATE INDEX session_resets_waiting ON {schema}.session_resets (session_id) WHERE finished_at IS NULL;
CREATE INDEX sessions_rehearsed ON {schema}.sessions (agent_id, started_at) WHERE rehearsal AND forgotten_at IS NULL;
-- The messages of a session are erased with its log.
CREATE INDEX inbox_by_session ON {schema}.inbox (session_id) WHERE session_id IS NOT NULL;
