-- What a session was started with, what was changed for it since, and leases that no session holds (spec 6.4, 17.1).

ALTER TABLE {schema}.sessions
    ADD COLUMN resource_bindings jsonb,                     -- as it was started; null: before this was kept
    ADD COLUMN overrides    jsonb   NOT NULL DEFAULT '{}',  -- `model set`, `voice set`: until the session ends
    ADD COLUMN settings_rev integer NOT NULL DEFAULT 0,     -- how often they were changed
    ADD COLUMN idle_resumes integer NOT NULL DEFAULT 0;     -- since a user's message was last taken up

-- the operator holds a workspace while it is being emptied
ALTER TABLE {schema}.leases ALTER COLUMN session_id DROP NOT NULL;
