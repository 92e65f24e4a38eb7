-- A decision is bound to a digest of exactly what was asked, and made once (spec 8.10).

ALTER TABLE {schema}.pending_approvals
    ADD COLUMN digest     text NOT NULL DEFAULT '',
    ADD COLUMN decided_by text,
    ADD CHECK (status = 'pending' OR resolved_at IS NOT NULL);
CREATE INDEX pending_approvals_open ON {schema}.pending_approvals (session_id, created_at)
    WHERE status = 'pending';
CREATE INDEX pending_approvals_by_age ON {schema}.pending_approvals (created_at DESC);
