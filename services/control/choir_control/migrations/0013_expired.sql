-- A request that nobody decided in time has an outcome of its own (spec 19.6).

ALTER TABLE {schema}.pending_approvals
    DROP CONSTRAINT pending_approvals_status_check,
    ADD CONSTRAINT pending_approvals_status_check
        CHECK (status IN ('pending', 'approved', 'rejected', 'expired'));
UPDATE {schema}.pending_approvals SET status = 'expired'
    WHERE status = 'rejected' AND decided_by = 'timeout';
