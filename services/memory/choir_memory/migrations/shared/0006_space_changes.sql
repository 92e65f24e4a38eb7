-- Which transactions changed the documents of a space. A search that keeps a space in memory compares them with the
-- snapshot in which it was read (decision 54). Written by triggers of the agents' tables. `seen_at`: when upkeep saw the
-- row for the first time, thus after its commit; it is deleted an hour later.
CREATE TABLE {schema}.space_changes (
    agent_id text NOT NULL,
    store    text NOT NULL CHECK (store IN ('session', 'knowledge')),
    xid      xid8 NOT NULL DEFAULT pg_current_xact_id(),
    seen_at  timestamptz,
    PRIMARY KEY (agent_id, store, xid)
);

-- Runs with the rights of the service, because no agent's role can reach this schema. The table's schema is
-- `choir_<agent_id>`.
CREATE FUNCTION {schema}.record_space_change() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $$
BEGIN
    INSERT INTO {schema}.space_changes (agent_id, store)
    VALUES (substr(TG_TABLE_SCHEMA, 7),
            CASE WHEN starts_with(TG_TABLE_NAME, 'memory') THEN 'session' ELSE 'knowledge' END)
    ON CONFLICT DO NOTHING;
    RETURN NULL;
END $$;
REVOKE ALL ON FUNCTION {schema}.record_space_change() FROM PUBLIC;
