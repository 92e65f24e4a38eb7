-- Memory reserves money, too, and so do transcriptions and speech. Memory has no session.
ALTER TABLE {schema}.budget_reservations
    ADD COLUMN kind text NOT NULL DEFAULT 'chat',
    ALTER COLUMN session_id DROP NOT NULL,
    ALTER COLUMN epoch DROP NOT NULL,
    ALTER COLUMN agent_id DROP NOT NULL;
-- The refusals of memory's calls that a person was told of: one for each budget and period.
CREATE TABLE {schema}.budget_notices (
    agent_id text NOT NULL,
    budget   text NOT NULL,
    period   text NOT NULL,
    at       timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (agent_id, budget)
);
