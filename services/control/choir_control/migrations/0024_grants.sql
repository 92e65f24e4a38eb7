-- A yes may cover later calls: until its job or session ends, or until its expiry.
ALTER TABLE {schema}.pending_approvals
    ADD COLUMN scopes text[] NOT NULL DEFAULT '{once}',
    ADD COLUMN job_id text,
    -- pages that a person opens before an approval in a conversation; 0: the notice shows all
    ADD COLUMN pages integer NOT NULL DEFAULT 0,
    ADD COLUMN pages_shown integer NOT NULL DEFAULT 0;
CREATE TABLE {schema}.grants (
    grant_id     text PRIMARY KEY,
    agent_id     text NOT NULL,
    tool         text NOT NULL,
    destinations text[] NOT NULL,
    digest       text NOT NULL,
    scope        text NOT NULL CHECK (scope IN ('job', 'session', 'always')),
    session_id   text NOT NULL,
    job_id       text,
    approval_id  text NOT NULL,
    granted_by   text NOT NULL,
    granted_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    expires_at   timestamptz,
    revoked_at   timestamptz,
    revoked_by   text,
    CHECK (scope <> 'always' OR expires_at IS NOT NULL),
    CHECK (scope <> 'job' OR job_id IS NOT NULL)
);
