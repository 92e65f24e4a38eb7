-- Decided approvals and ended sessions are deleted for their age: what belongs to them goes with them, and a
-- later session forgets which one it continued.

CREATE INDEX sessions_by_continues ON {schema}.sessions (continues) WHERE continues IS NOT NULL;
ALTER TABLE {schema}.sessions
    DROP CONSTRAINT sessions_continues_fkey,
    ADD FOREIGN KEY (continues) REFERENCES {schema}.sessions ON DELETE SET NULL;
ALTER TABLE {schema}.session_epochs
    DROP CONSTRAINT session_epochs_session_id_fkey,
    ADD FOREIGN KEY (session_id) REFERENCES {schema}.sessions ON DELETE CASCADE;
ALTER TABLE {schema}.erased_logs
    DROP CONSTRAINT erased_logs_session_id_fkey,
    ADD FOREIGN KEY (session_id) REFERENCES {schema}.sessions ON DELETE CASCADE;
CREATE INDEX approval_nonces_by_approval ON {schema}.approval_nonces (approval_id);
ALTER TABLE {schema}.approval_nonces
    DROP CONSTRAINT approval_nonces_approval_id_fkey,
    ADD FOREIGN KEY (approval_id) REFERENCES {schema}.pending_approvals ON DELETE CASCADE;
ALTER TABLE {schema}.approval_effects
    DROP CONSTRAINT approval_effects_approval_id_fkey,
    ADD FOREIGN KEY (approval_id) REFERENCES {schema}.pending_approvals ON DELETE CASCADE;
