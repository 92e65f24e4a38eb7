-- A search may keep a small space in memory. Each statement that changes one records its transaction, and the agent's
-- role may ask whether its own space has changes that a snapshot does not show. No relation: those cost a new schema most.
CREATE TRIGGER space_change AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON {schema}.memory_documents
    FOR EACH STATEMENT EXECUTE FUNCTION choir_memory.record_space_change();
CREATE TRIGGER space_change AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON {schema}.memory_embeddings
    FOR EACH STATEMENT EXECUTE FUNCTION choir_memory.record_space_change();
CREATE TRIGGER space_change AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON {schema}.knowledge_documents
    FOR EACH STATEMENT EXECUTE FUNCTION choir_memory.record_space_change();
CREATE TRIGGER space_change AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON {schema}.knowledge_embeddings
    FOR EACH STATEMENT EXECUTE FUNCTION choir_memory.record_space_change();

CREATE FUNCTION {schema}.changed_since(which text, snapshot pg_snapshot) RETURNS boolean
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog AS $$
BEGIN
    RETURN EXISTS (
        SELECT FROM choir_memory.space_changes c
        WHERE c.agent_id = substr(trim(BOTH '"' FROM '{schema}'), 7) AND c.store = $1
          AND c.xid >= pg_snapshot_xmin($2) AND NOT pg_visible_in_snapshot(c.xid, $2));
END $$;
