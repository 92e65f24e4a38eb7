-- A session is resumed with what it was started with, and is not blamed for what keeps it from being started.
ALTER TABLE {schema}.sessions
    ADD COLUMN image   jsonb,    -- {"image": ...}, null inside: without an image; null: before this was kept
    ADD COLUMN blocked text;     -- why its agent cannot be started now; the user was told
