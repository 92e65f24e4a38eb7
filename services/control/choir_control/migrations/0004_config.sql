-- What was in force, so that the last good configuration outlives a broken file. Never a secret's value.

ALTER TABLE {schema}.config_versions
    ADD COLUMN body   json,                              -- config.json as it was read; null: before this was kept
    ADD COLUMN reason text NOT NULL DEFAULT 'start'
        CHECK (reason IN ('start', 'config', 'secrets'));
